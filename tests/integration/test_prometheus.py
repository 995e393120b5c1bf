"""A real Prometheus: which pods it asks by parts/monitoring, and what the dashboard asks it."""

import json
import re
import shutil
import subprocess
from pathlib import Path

import metrics
import pytest
import requests
import yaml
from git_servers import free_port

MONITORING = Path(__file__).parents[2] / "manifests/parts/monitoring"
NAMES = {"loss", "samples_per_second", "tokens_per_second", "model_flops_utilization"}
"""What the trainers log that the dashboard shows."""


def pod(name, **labels):
    """Returns a pod as Prometheus finds it, before relabeling."""
    found = {"pod_ip": "127.0.0.1", "pod_container_init": "false"} | labels
    return {
        "targets": ["127.0.0.1:1"],
        "labels": {f"__meta_kubernetes_{key}": value for key, value in found.items()}
        | {"namespace": "trireme", "pod": name},  # which the Prometheus operator adds
    }


def snake(key):
    return re.sub("[A-Z]", lambda letter: f"_{letter[0].lower()}", key)


def of_train_job(name, job, index, **labels):
    """Returns a pod of a TrainJob, by the index of its Job and its own in that."""
    jobset = "pod_label_jobset_sigs_k8s_io_job_index"
    in_it = "pod_label_batch_kubernetes_io_job_completion_index"
    return pod(name, **labels | {jobset: job, in_it: index})


def relabelings():
    first, _ = yaml.safe_load_all((MONITORING / "pod-monitors.yaml").read_text())
    (endpoint,) = first["spec"]["podMetricsEndpoints"]
    return endpoint["relabelings"]


class Prometheus:
    """The server, with one kind of pods to ask."""

    def __init__(self, folder, pods):
        self.url = f"http://127.0.0.1:{free_port()}"
        scraped = {
            "job_name": "training",
            "scrape_interval": "200ms",
            "scrape_timeout": "200ms",
            "static_configs": pods,
            "relabel_configs": [
                {snake(key): value for key, value in each.items()} for each in relabelings()
            ],
        }
        (folder / "prometheus.yml").write_text(yaml.safe_dump({"scrape_configs": [scraped]}))
        self._process = subprocess.Popen(
            [
                *("prometheus", "--config.file=prometheus.yml", "--storage.tsdb.path=data"),
                f"--web.listen-address={self.url.removeprefix('http://')}",
            ],
            cwd=folder,
            stderr=(folder / "log").open("w"),
        )

    def is_ready(self):
        """Whether it answers yet."""
        assert self._process.poll() is None
        try:
            return requests.get(f"{self.url}/-/ready", timeout=10).ok
        except requests.ConnectionError:
            return False

    def ask(self, path, **parameters):
        """Returns what the API answers."""
        answer = requests.get(f"{self.url}/api/v1/{path}", params=parameters, timeout=10)
        assert answer.ok, (parameters, answer.text)
        return answer.json()["data"]

    def close(self):
        self._process.kill()
        self._process.wait()


@pytest.fixture
def prometheus(tmp_path, monkeypatch, eventually):
    """Prometheus, which finds a job's pods, and rank 0 of it, which is here."""
    port = free_port()
    monkeypatch.setenv("METRICS_PORT", str(port))
    monkeypatch.delenv("MLFLOW_RUN_ID", raising=False)
    (tmp_path / "step-00000001").mkdir()
    asked = {"pod_annotation_trireme_metrics_port": str(port)}
    index = "pod_label_training_kubeflow_org_replica_index"
    pods = [
        pod("train-master-0", **asked, **{index: "0"}),
        pod("init-container", **asked | {"pod_container_init": "true"}),
        pod("train-worker-0", **{index: "0"}),
        pod("elastic-worker-1", **asked, **{index: "1"}),
    ]
    server = Prometheus(tmp_path, pods)
    try:
        assert eventually(server.is_ready)
        yield server
    finally:
        server.close()


@pytest.mark.skipif(not shutil.which("prometheus"), reason="needs prometheus")
def test_of_a_train_job_s_role_the_first_pod_is_asked(tmp_path, eventually):
    asked = {"pod_annotation_trireme_metrics_port": str(free_port())}
    pods = [
        # Of our own runtime, where each replica is a Job, and of one of the cluster's.
        *(of_train_job(f"own-worker-{job}-0", str(job), "0", **asked) for job in range(11)),
        *(of_train_job(f"other-node-0-{index}", "0", str(index), **asked) for index in range(11)),
    ]
    server = Prometheus(tmp_path, pods)
    try:
        assert eventually(server.is_ready)
        assert eventually(lambda: server.ask("targets")["activeTargets"])
        targets = server.ask("targets")["activeTargets"]
    finally:
        server.close()
    assert {each["discoveredLabels"]["pod"] for each in targets} == {
        "own-worker-0-0",
        "other-node-0-0",
    }


@pytest.mark.skipif(not shutil.which("prometheus"), reason="needs prometheus")
def test_rank_0_is_asked_and_the_dashboard_shows_what_it_says(prometheus, tmp_path, eventually):
    latest = metrics.Metrics(tmp_path, "step-????????")
    said = iter(range(1, 10**6))

    def shown(query):
        latest.log(next(said), **dict.fromkeys(NAMES, 0.5))
        return prometheus.ask("query", query=query)["result"]

    def pods(result):
        return [series["metric"].get("pod") for series in result]

    for query in queries():
        if not re.search(r"\btraining_(?!operator)", query):
            shown(query)  # nothing, but Prometheus takes it
            continue
        assert eventually(lambda query=query: pods(shown(query)) == ["train-master-0"]), query
    (target,) = prometheus.ask("targets")["activeTargets"]
    assert target["health"] == "up" and target["labels"]["namespace"] == "trireme"


def queries():
    """Yields what the dashboard asks for, with Grafana's variables filled in."""
    written = json.loads((MONITORING / "dashboard.json").read_text())
    given = {each["name"]: each.get("current", {}) for each in written["templating"]["list"]}
    values = {name: current.get("value") for name, current in given.items()}
    values |= {"__rate_interval": "2s", "__range": "1h"}
    for panel in written["panels"]:
        for target in panel["targets"]:
            yield re.sub(r"\$(\w+)", lambda found: values[found[1]], target["expr"])


def test_the_dashboard_asks_for_what_is_logged():
    shown = {
        name for query in queries() for name in re.findall(r"\btraining_(?!operator)(\w+)", query)
    }
    assert shown == NAMES | {"step", "seconds_total", "checkpoint_age_seconds"}
    sources = "".join(file.read_text() for file in MONITORING.parents[2].glob("trainers/*.py"))
    assert [name for name in NAMES if name not in sources] == []
