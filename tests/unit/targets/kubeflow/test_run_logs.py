"""trireme logs --target kfp: the logs of a run's pods, from a Kubernetes API server."""

import base64
import gzip
import json
import os
import re
import signal
import socket
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from time import monotonic, sleep
from types import SimpleNamespace
from urllib.parse import parse_qs, urlsplit

import pytest
import yaml

from trireme import last_words
from trireme.errors import InputError
from trireme.graph.flattening import flattened
from trireme.graph.model import PathTask
from trireme.job import names
from trireme.pipeline import catalog
from trireme.targets import pod_logs, registry
from trireme.targets.kubeflow import logs

THERE = ("--target", "kfp")
NOT_THERE = {"kind": "Status", "reason": "NotFound", "code": 404, "details": {"name": "x"}}


class ApiServer(BaseHTTPRequestHandler):
    """Knows pods, by namespace, and their logs."""

    pods: list[dict]
    logs: dict[str, list[str]]
    workflows: list[dict]
    claims: list[str]
    jobs: list[dict]
    asked: list[tuple[str, dict]]
    sent: list[str]

    def do_DELETE(self):
        self.jobs[:] = [job for job in self.jobs if job["metadata"]["name"] not in self.path]
        self._take()

    def do_PATCH(self):
        self._take()

    def _take(self):
        body = self.rfile.read(int(self.headers["Content-Length"]))
        self.asked.append((f"{self.command} {self.path}", json.loads(body)))
        self._answer(200, "{}")

    def _answer(self, status, answer):
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(answer.encode())))
        self.end_headers()
        self.wfile.write(answer.encode())

    def do_GET(self):
        url = urlsplit(self.path)
        query = {key: values[0] for key, values in parse_qs(url.query).items()}
        if "/workflows/" in url.path:
            (workflow,) = self.workflows
            self._answer(200, json.dumps(workflow))
            return
        if url.path.endswith("/workflows"):
            self._answer(200, json.dumps({"items": self.workflows}))
            return
        if "/persistentvolumeclaims/" in url.path:
            is_there = url.path.rpartition("/")[2] in self.claims
            self._answer(200 if is_there else 404, json.dumps(NOT_THERE))
            return
        if "/pods" not in url.path:  # there are no Events
            jobs = self.jobs if url.path.endswith("/pytorchjobs") else []
            self._answer(200, json.dumps({"items": jobs}))
            return
        before, _, after = url.path.rpartition("/pods")
        namespace, name = before.rpartition("/")[2], after.split("/")
        mine = [pod for pod in self.pods if pod["metadata"]["namespace"] == namespace]
        if len(name) == 1:
            answer = json.dumps({"kind": "PodList", "items": self._chosen(mine, query)})
        elif query["container"] == "main":
            lines = enumerate(list(self.logs[name[1]]))
            stamped = [(f"2026-01-01T00:00:{n:02d}", line) for n, line in lines]
            new = [each for each in stamped if each[0] >= query.get("sinceTime", "").rstrip("Z")]
            answer = "".join(f"{stamp}.5Z {line}\n" for stamp, line in new)
        self._answer(200, answer)
        self.sent.append(answer)

    def _chosen(self, pods, query):
        for key, value in (query[each].split("=") for each in query if each.endswith("Selector")):
            pods = [
                pod
                for pod in pods
                if value
                == (pod["metadata"].get("labels", {}) | pod["metadata"]).get(
                    key.removeprefix("metadata.")
                )
            ]
        return pods

    def log_message(self, *_):
        return


def a_pod(run, node, at, namespace="kubeflow", is_running=False):
    name = re.sub("[^a-z0-9]", "-", node)
    state = {"running": {}} if is_running else {"terminated": {"exitCode": 0}}
    return {
        "metadata": {
            "name": name,
            "uid": name,
            "namespace": namespace,
            "creationTimestamp": f"2026-01-01T00:{at:02d}:00Z",
            "labels": {"pipeline/runid": run["run_id"]},
            "annotations": {"workflows.argoproj.io/node-name": node},
        },
        "status": {
            "phase": "Running" if is_running else "Succeeded",
            "containerStatuses": [{"name": "main", "restartCount": 0, "state": state}],
        },
    }


@pytest.fixture
def pods(tmp_path, kubeflow, monkeypatch):
    """An API server that the KUBECONFIG leads to; returns its pods and their logs."""

    class Handler(ApiServer):
        pods, logs, workflows, claims, jobs, asked, sent = [], {}, [], [], [], [], []

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, args=(0.02,))
    thread.start()
    config = {
        "apiVersion": "v1",
        "kind": "Config",
        "current-context": "here",
        "contexts": [{"name": "here", "context": {"cluster": "one", "user": "me"}}],
        "clusters": [
            {"name": "one", "cluster": {"server": f"http://127.0.0.1:{server.server_port}"}}
        ],
        "users": [{"name": "me", "user": {}}],
    }
    (tmp_path / "kubeconfig").write_text(yaml.safe_dump(config))
    monkeypatch.setenv("KUBECONFIG", str(tmp_path / "kubeconfig"))
    yield Handler
    server.shutdown()
    server.server_close()
    thread.join()


@pytest.fixture
def run(trireme, kubeflow):
    """A run."""
    assert trireme("run", "pytorch-training", *THERE, "--no-wait")[0] == 0
    return kubeflow.only_run()


def test_the_lines_of_the_steps_pods_are_shown_in_order(trireme, pods, run):
    for at, node in enumerate(
        [
            "flow.root-driver",
            "flow.root.checkout-driver",
            "flow.root.checkout.executor",
            "flow.root.condition-1.export.executor",
            "flow.root.train.executor(1)",
            "flow.root.train.executor(0)",
        ]
    ):
        pods.pods.append(a_pod(run, node, at=30 - at if "train" in node else at))
        pods.logs[pods.pods[-1]["metadata"]["name"]] = [node, "\x1b[31mdone"]
    pods.pods.append(a_pod({"run_id": "another"}, "flow.root.checkout.executor", at=1))
    status, output, errors = trireme("logs", run["run_id"], *THERE)
    assert (status, errors) == (0, "")
    assert output.splitlines() == [
        "[checkout] flow.root.checkout.executor",
        "[checkout] done",
        "[export] flow.root.condition-1.export.executor",
        "[export] done",
        "[train] flow.root.train.executor(0)",
        "[train] done",
        "[train] flow.root.train.executor(1)",
        "[train] done",
    ]
    only = trireme("logs", run["display_name"], *THERE, "--step", "checkout")[1]
    assert only.splitlines() == ["[checkout] flow.root.checkout.executor", "[checkout] done"]


def test_the_pods_are_looked_for_in_the_users_namespace(trireme, pods, kubeflow):
    kubeflow.multi_user = True
    mine = (*THERE, "-n", "team")
    assert trireme("run", "pytorch-training", *mine, "--no-wait")[0] == 0
    run = kubeflow.only_run()
    pods.pods.append(a_pod(run, "flow.root.train.executor", at=1, namespace="team"))
    pods.logs["flow-root-train-executor"] = ["here"]
    assert trireme("logs", run["run_id"], *mine)[1] == "[train] here\n"


def test_a_run_without_pods_is_one_sentence(trireme, pods, run, kubeflow):
    status, _, errors = trireme("logs", run["run_id"], *THERE)
    assert (status, errors.count("\n")) == (2, 1)
    assert "has no pods in namespace kubeflow: either none has started, or" in errors
    assert f"{kubeflow.url}/#/runs/details/{run['run_id']}" in errors


def test_a_step_that_never_ran_is_one_sentence(trireme, pods, run):
    pods.pods.append(a_pod(run, "flow.root.train.executor", at=1))
    status, output, errors = trireme("logs", run["run_id"], "--step", "export", *THERE)
    assert (status, output, errors.count("\n")) == (2, "", 1)
    assert "has no pods of the step export in namespace kubeflow" in errors


def test_a_step_that_there_is_not_is_refused(trireme, pods, run):
    status, _, errors = trireme("logs", run["run_id"], *THERE, "--step", "root")
    assert (status, errors) == (
        2,
        "error: step 'root': the run has checkout, dataset, train, evaluate, export, finish\n",
    )


def test_without_a_kubeconfig_it_is_said_what_to_set(trireme, pods, run, monkeypatch):
    monkeypatch.delenv("KUBECONFIG")
    status, _, errors = trireme("logs", run["run_id"], *THERE)
    assert (status, errors.count("\n")) == (2, 1)
    assert "set KUBECONFIG to a file that kubectl can use" in errors


def test_turns_of_a_step_are_told_apart(trireme, pods, run):
    turn = "flow.root.for-loop-1.iteration-iterations({0}:{0}).iteration-item.train.executor"
    for number in (1, 0):
        pods.pods.append(a_pod(run, turn.format(number), at=number))
        pods.logs[pods.pods[-1]["metadata"]["name"]] = [f"turn {number}"]
    shown = ["[train-000] turn 0", "[train-001] turn 1"]
    for step, of_it in (("train", shown), ("train-001", shown[1:]), ("train-002", [])):
        asked = ("logs", run["run_id"], *THERE, "--step", step)
        assert trireme(*asked)[1].splitlines() == of_it


def test_a_step_may_end_as_its_turn_would():
    def pods_of(*steps, turn=""):
        nodes = [f"flow.root.{turn}{step}.executor" for step in ("resize", "resize-224")]
        made = [a_pod({"run_id": "1"}, node, at=1) for node in nodes]
        cluster = SimpleNamespace(namespace="kubeflow", items=lambda *given, **query: made)
        paths = {step: (PathTask(step, False),) for step in steps}
        return [name for name, _ in logs.pods(cluster, SimpleNamespace(id="1"), paths)]

    assert pods_of("resize", "resize-224") == ["resize", "resize-224"]
    assert pods_of("resize-224") == ["resize-224"]
    assert pods_of("resize-224", turn="iteration-iterations(3:3).") == ["resize-224-003"]
    for step in ("resize-224", "resize-224-003"):
        pod_logs.check(step, ["checkout", "resize-224"])
    with pytest.raises(InputError):
        pod_logs.check("resize", ["checkout", "resize-224"])


def as_time_goes_by(kubeflow, *what):
    """Has something happen before each of the next looks at the run."""
    first, *rest = what

    def look():
        first()
        if rest:
            as_time_goes_by(kubeflow, *rest)

    kubeflow.on_look = look


def change(pods, run, node, lines, *, is_running):
    pods.pods[:] = [pod for pod in pods.pods if pod["metadata"]["name"] != node.replace(".", "-")]
    pods.pods.append(a_pod(run, node, at=1, is_running=is_running))
    pods.logs[node.replace(".", "-")] = lines


def take_away_the_first(pods, after):
    """Has the first pod go, once its log has been read to this line."""
    limit = monotonic() + 60
    while not any(f" {after}\n" in answer for answer in pods.sent):
        assert monotonic() < limit, f"{after} has not been read"
        sleep(0.01)
    pods.pods.pop(0)


def test_the_logs_are_followed_until_the_run_has_ended(trireme, pods, kubeflow, run):
    checkout, train = "flow.root.checkout.executor", "flow.root.train.executor"
    run["left"] = [("RUNNING", {})]  # until all of this has happened
    as_time_goes_by(
        kubeflow,
        lambda: None,  # the command finds the run
        lambda: change(pods, run, checkout, ["one"], is_running=True),
        lambda: change(pods, run, checkout, ["one", "two"], is_running=False),
        lambda: change(pods, run, train, ["three"], is_running=True),
        lambda: take_away_the_first(pods, after="two"),  # what has been read stays read
        lambda: change(pods, run, train, ["three", "four"], is_running=False),
        lambda: run.update(left=[("SUCCEEDED", {})]),
    )
    status, output, errors = trireme("logs", "-f", run["run_id"], *THERE)
    assert (status, errors) == (0, "")
    assert [line for line in output.splitlines() if "checkout" in line] == [
        "[checkout] one",
        "[checkout] two",
    ]
    assert [line for line in output.splitlines() if "train" in line] == [
        "[train] three",
        "[train] four",
    ]
    status, _, errors = trireme("logs", "-f", run["run_id"], *THERE, "--step", "nothing")
    assert (status, errors.count("\n")) == (2, 1)


def waiting_pod(run, node):
    pod = a_pod(run, node, at=1)
    waiting = {"reason": "ErrImagePull", "message": "no such image"}
    pod["status"] = {
        "phase": "Pending",
        "initContainerStatuses": [{"name": "init", "state": {"waiting": waiting}}],
    }
    return pod


def test_it_is_said_why_a_pod_does_not_start(trireme, pods, kubeflow, run):
    run["left"] = [("RUNNING", {"train": "RUNNING"})] * 3
    pods.pods.append(waiting_pod(run, "flow.root.train.executor"))
    status, output, _ = trireme("status", run["run_id"], *THERE)
    assert status == 0
    assert re.search("^train +running .* ErrImagePull: no such image$", output, re.M)
    errors = trireme("logs", run["run_id"], *THERE)[2]
    assert errors == "note: train waits: ErrImagePull: no such image\n"
    pods.pods[:] = [waiting_pod(run, "flow.root-driver")]
    status, output, errors = trireme("logs", run["run_id"], *THERE)
    assert (status, output) == (2, "")
    assert errors.startswith("note: root waits: ErrImagePull: no such image\nerror: run ")


def test_a_run_that_is_stayed_with_says_what_it_waits_for(trireme, pods, kubeflow):
    pod = waiting_pod({"run_id": ""}, "flow.root.checkout-driver")
    pods.pods.append(pod)

    def its_pod():
        pod["metadata"]["labels"]["pipeline/runid"] = list(kubeflow.runs)[-1]

    kubeflow.on_look = its_pod
    kubeflow.states = [("RUNNING", {})] * 3 + [("SUCCEEDED", {})]
    status, output, _ = trireme("run", "pytorch-training", *THERE)
    assert status == 0
    assert output.count("checkout  waits: ErrImagePull: no such image\n") == 1


def test_what_a_driver_has_died_of_is_said(trireme, pods, run):
    run["left"] = [("FAILED", {})]
    pod = a_pod(run, "flow(0).root(0).train-driver(0)", at=1)
    pod["spec"] = {"containers": []}
    pod["status"]["phase"] = "Failed"
    pod["status"]["containerStatuses"][0]["state"] = {"terminated": {"exitCode": 1}}
    pods.pods.append(pod)
    lines = ["I1128 10:00:00.1   16 main.go:1] begins", "F1128 10:00:00.2   16 main.go:9] no input"]
    pods.logs[pod["metadata"]["name"]] = lines
    output = trireme("status", run["run_id"], *THERE)[1]
    why = "its driver exited with status 1: no input"
    assert re.search(f"^train +FAILED +{why}$", output, re.M)
    assert trireme("logs", run["run_id"], *THERE)[1] == "".join(f"[train] {it}\n" for it in lines)
    pods.pods.append(a_pod(run, "flow(0).root(0).train-driver(1)", at=2))  # tried again
    assert "driver" not in trireme("status", run["run_id"], *THERE)[1]


def test_its_log_is_read_once(pods, run):
    pod = a_pod(run, "flow(0).root(0).train-driver(0)", at=1)
    pod["spec"] = {"containers": []}
    pod["status"]["phase"] = "Failed"
    pod["status"]["containerStatuses"][0]["state"] = {"terminated": {"exitCode": 1}}
    pods.pods.append(pod)
    pods.logs[pod["metadata"]["name"]] = ["panic: no input"]
    target = registry.open("kfp", {})
    found = target.find(run["run_id"])
    said = [target.waits(found) for _ in range(3)]
    assert said == [{"train": "its driver exited with status 1: no input"}] * 3
    assert len([answer for answer in pods.sent if "panic" in answer]) == 1


def a_job(name, made):
    return {
        "metadata": {
            "name": name,
            "namespace": "kubeflow",
            "uid": name,
            "creationTimestamp": made,
        },
        "spec": {},
    }


def test_jobs_of_a_run_that_has_ended_go(trireme, pods, run):
    name = names.of_run(run["run_id"])
    early, late = "2020-01-01T00:00:00Z", "2100-01-01T00:00:00Z"
    run["left"] = [("RUNNING", {}), ("FAILED", {})]
    others = [a_job("train-of-another-run", early), a_job(f"{name}-001", late)]
    pods.jobs[:] = [a_job(name, early), *others]
    assert trireme("status", run["run_id"], *THERE)[2] == ""
    errors = trireme("status", run["run_id"], *THERE)[2]
    assert errors == (
        f"the training job {name} of {run['display_name']} still ran, and is deleted\n"
    )
    assert pods.jobs == others


def test_who_cancels_a_run_leaves_no_job(trireme, pods, run):
    name = names.of_run(run["run_id"])
    run["left"] = [("RUNNING", {})]
    pods.jobs[:] = [a_job(f"{name}-000", "2020-01-01T00:00:00Z")]
    status, output, _ = trireme("cancel", run["run_id"], *THERE)
    assert (status, output) == (
        0,
        f"{run['display_name']} was cancelled; deleted its training job {name}-000\n",
    )
    assert pods.jobs == []


def test_ctrl_c_ends_the_reading_and_not_the_run(trireme, pods, kubeflow, run):
    run["left"] = [("RUNNING", {})]
    as_time_goes_by(kubeflow, lambda: None, lambda: os.kill(os.getpid(), signal.SIGINT))
    status, output, errors = trireme("logs", "-f", run["run_id"], *THERE)
    assert (status, output, errors, run["state"]) == (130, "", "", "RUNNING")


def test_a_run_that_has_ended_is_not_followed(trireme, pods, kubeflow, run):
    run["left"] = [("FAILED", {})]
    pods.pods.append(a_pod(run, "flow.root.train.executor", at=1))
    pods.logs["flow-root-train-executor"] = ["here"]
    assert trireme("logs", "-f", run["run_id"], *THERE)[1] == "[train] here\n"


REFUSED = "not exported: held-out accuracy 0.9800 is below min_accuracy 0.9999; it is the first"


def test_status_and_run_say_that_the_gate_has_refused_the_model(trireme, kubeflow, pods, run):
    pod = a_pod(run, "flow.root.evaluate.executor", 1)
    pod["status"]["containerStatuses"][0]["state"]["terminated"]["message"] = REFUSED
    pods.pods[:] = [pod]
    run["run_details"] = {
        "task_details": [{"display_name": "evaluate", "state": "SUCCEEDED", "run_id": "r"}]
    }
    status, output, _ = trireme("status", run["run_id"], *THERE)
    assert (status, REFUSED in output) == (0, True)
    kubeflow.states = [("SUCCEEDED", {"evaluate": "SUCCEEDED"})]

    def its_pods():
        pod["metadata"]["labels"]["pipeline/runid"] = list(kubeflow.runs)[-1]

    kubeflow.on_look = its_pods
    status, output, _ = trireme("run", "pytorch-training", *THERE)
    assert (status, f" s  {REFUSED}\n" in output) == (0, True)


def test_steps_that_kubeflow_does_not_see_are_in_the_packed_workflow(trireme, pods, run):
    """Kubeflow Pipelines 2.17 tells of a run as it was before Argo 4.1.2 packed its nodes."""
    seen = {"display_name": "train", "state": "RUNNING", "run_id": "r"}
    run["run_details"] = {"task_details": [seen] * 100}
    times = {"startedAt": "2026-01-01T00:00:00Z", "finishedAt": "2026-01-01T00:01:00Z"}
    tried = [{"displayName": name, "phase": "Succeeded"} | times for name in ("train", "export")]
    packed = gzip.compress(json.dumps({each["displayName"]: each for each in tried}).encode())
    status = {"compressedNodes": base64.b64encode(packed).decode()}
    pods.workflows.append({"metadata": {"name": "flow"}, "status": status})

    def steps():
        status, output, _ = trireme("status", run["run_id"], *THERE)
        assert status == 0
        return [
            line.split()[:3] for line in output.splitlines() if line[:6] in ("train ", "export")
        ]

    assert steps() == [["train", "FINISHED", "60"], ["export", "FINISHED", "60"]]
    status.clear()  # as where Argo keeps nodes in a database
    assert [row[:2] for row in steps()] == [["train", "running"]]
    pods.workflows.clear()  # which Argo removes when it has been there for long
    assert [row[:2] for row in steps()] == [["train", "running"]]


@pytest.mark.parametrize("has_exit_handler", [True, False])
def test_run_says_why_a_step_has_failed_and_what_the_step_that_ended_it_has_left(
    trireme, kubeflow, pods, run, monkeypatch, has_exit_handler
):
    why, page = "replica master-0 exited with status 1", "http://mlflow:5000/#/experiments/1/runs/a"
    facts = {"Verdict": "no model", "MLflow": page}
    lines = "no loss\n  any more"
    left = {"train": last_words.written(why, facts, lines)}
    if has_exit_handler:
        left = {"train": why, "onExit.finish": last_words.written("", facts, lines)}
    for name, text in left.items():
        pods.pods.append(a_pod(run, f"flow.root.{name}.executor", 1))
        pods.pods[-1]["status"]["containerStatuses"][0]["state"]["terminated"]["message"] = text
    finish = {"finish": "SUCCEEDED"} if has_exit_handler else {}
    kubeflow.states = [("FAILED", {"train": "FAILED"} | finish)]

    def its_pods():
        for pod in pods.pods:
            pod["metadata"]["labels"]["pipeline/runid"] = list(kubeflow.runs)[-1]

    kubeflow.on_look = its_pods
    status, output, errors = trireme("run", "pytorch-training", *THERE)
    assert status == 1
    assert errors.startswith("no loss\n  any more\nerror: run ")
    assert errors.endswith(f" failed at train: {why}\n")
    run_id = list(kubeflow.runs)[-1]
    assert "  Verdict  no model\n" in output
    assert f"  Logs     trireme logs {run_id} --target kfp --step train\n" in output
    assert f"  Resume   trireme resume {run_id} --target kfp\n" in output
    with socket.create_server(("127.0.0.1", 0)) as closed:
        away = f"127.0.0.1:{closed.getsockname()[1]}"
    monkeypatch.setattr("trireme.tracking.client.HURRY", 1.0)
    monkeypatch.setenv("MLFLOW_TRACKING_URI", f"http://me:secret@{away}")
    monkeypatch.setenv("MLFLOW_HTTP_REQUEST_MAX_RETRIES", "0")
    status, output, errors = trireme("status", run_id, *THERE)
    assert f"  MLflow   http://{away}/#/experiments/1/runs/a\n" in output
    assert '"facts"' not in output
    assert errors.startswith("warning: MLflow did not get the status of ended runs: ")


@pytest.fixture
def failed(pods, kubeflow, run):
    """A run that has failed, with its Workflow as Kubeflow Pipelines 2.17 leaves it.

    A retry takes out of it the nodes that have failed and are no DAG
    (backend/src/common/util/execution_spec.go, GenerateRetryExecution).
    """
    run["state"] = "FAILED"
    # As Trireme uploaded it when it left the exit handler in.
    for version in kubeflow.versions.values():
        version["pipeline_spec"] = catalog.load("pytorch-training").graph.document
    names = {
        "a": "flow.root.steps",
        "b": "flow.root.steps.train",
        "c": "flow.root.steps.onExit",
        "d": "flow.root.steps.onExit.finish",
    }
    nodes = {key: {"id": key, "name": name, "children": []} for key, name in names.items()}
    nodes["a"]["children"] = nodes["b"]["children"] = ["b", "c"]
    nodes["c"]["children"] = ["d"]
    kubeflow.on_retry = lambda: nodes.pop("b")
    spec = {"volumeClaimTemplates": [{"metadata": {"name": "kfp-workspace"}}]}
    pods.workflows[:] = [{"metadata": {"name": "flow"}, "spec": spec, "status": {"nodes": nodes}}]
    pods.claims[:] = ["flow-kfp-workspace"]
    pods.pods[:] = [a_pod(run, names["b"], 1), a_pod(run, names["d"], 2)]
    for pod in pods.pods:
        pod["metadata"]["labels"]["workflows.argoproj.io/workflow"] = "flow"
    return run


def test_the_last_step_of_a_run_that_is_tried_again_runs_again(trireme, pods, failed):
    status, output, errors = trireme("resume", failed["run_id"], *THERE)
    assert (status, output, errors) == (0, f"{failed['display_name']} is being resumed\n", "")
    assert failed["state"] == "PENDING"
    (deleted, _), (patched, body) = pods.asked
    assert deleted.startswith(
        "DELETE /api/v1/namespaces/kubeflow/pods/flow-root-steps-on-xit-finish"
    )
    assert patched.endswith("/workflows/flow")
    assert body["status"]["nodes"] == {"a": {"children": ["b"]}, "c": None, "d": None}


@pytest.mark.parametrize("cluster", [True, False])
def test_a_run_without_an_exit_handler_is_tried_again_as_it_is(
    trireme, pods, kubeflow, failed, monkeypatch, cluster
):
    for version in kubeflow.versions.values():
        made = flattened(catalog.load("pytorch-training").graph)
        version["pipeline_spec"] = made.graph.document
    if not cluster:
        monkeypatch.delenv("KUBECONFIG")
    status, output, errors = trireme("resume", failed["run_id"], *THERE)
    assert (status, output, errors) == (0, f"{failed['display_name']} is being resumed\n", "")
    assert (failed["state"], pods.asked) == ("PENDING", [])


@pytest.mark.parametrize("gone", ["claims", "workflows"])
def test_a_run_whose_workspace_is_gone_is_not_tried_again(trireme, pods, failed, gone):
    getattr(pods, gone).clear()
    status, _, errors = trireme("resume", failed["run_id"], *THERE)
    assert (status, errors.count("\n"), failed["state"]) == (2, 1, "FAILED")
    assert "cannot be resumed" in errors and "start a new run" in errors
    assert pods.asked == []


def test_without_a_cluster_to_ask_the_run_is_tried_again_and_a_note_says_what_is_not(
    trireme, failed, monkeypatch
):
    monkeypatch.delenv("KUBECONFIG")
    status, _, errors = trireme("resume", failed["run_id"], *THERE)
    assert (status, failed["state"]) == (0, "PENDING")
    assert "note: its last step, which calls the webhook, does not run again" in errors
