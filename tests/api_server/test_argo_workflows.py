"""Pipelines on plain Argo: uploaded, run, listed, shown and stopped, on an API server."""

import base64
import gzip
import json
import threading
from contextlib import suppress

import pytest
import yaml
from argo_runs import begun, made
from player import STANDS_IN
from typer.testing import CliRunner

from trireme.cli.app import app
from trireme.code import bundle
from trireme.code import url as urls
from trireme.code.git import checkout
from trireme.errors import InputError, TriremeError
from trireme.kubernetes import connection
from trireme.kubernetes.errors import AlreadyThere
from trireme.kubernetes.resources import CONFIG_MAPS, NODE, PODS
from trireme.pipeline import catalog
from trireme.targets import pod_logs, remote
from trireme.targets.argo import logs, workflows


def change(cluster, name, **status):
    cluster.patch(workflows.WORKFLOWS, name, cluster.namespace, {"status": status})


def node(name, template, phase, second, **more):
    return {
        "id": name,
        "name": name,
        "displayName": template,
        "templateName": template,
        "type": "Pod",
        "phase": phase,
        "startedAt": f"2026-01-01T00:00:{second:02}Z",
        "finishedAt": f"2026-01-01T00:01:{second:02}Z",
    } | more


def test_the_same_content_twice_is_uploaded_once(argo):
    assert workflows.upload(argo, made())
    assert not workflows.upload(argo, made())
    there = argo.get(workflows.TEMPLATES, "pytorch-training", argo.namespace)
    assert there["spec"] == json.loads(json.dumps(made().to_dict()["spec"]))
    assert workflows.upload(argo, made(account="other"))
    there = argo.get(workflows.TEMPLATES, "pytorch-training", argo.namespace)
    assert there["spec"]["serviceAccountName"] == "other"
    assert not workflows.upload(argo, made(account="other"))


def test_a_resumed_run_ended_when_it_finished_last(argo):
    name = begun(argo)
    now = workflows.find(argo, name).ended_at
    again, last = "2036-01-02T00:00:00Z", "2036-01-02T00:05:00Z"  # as Argo's retry begins anew
    change(argo, name, phase="Failed", startedAt=again, finishedAt=last)
    run = workflows.find(argo, name)
    assert run.seconds == 300 and run.created <= now < run.ended_at == workflows._seconds(last)


@pytest.mark.cluster
@pytest.mark.parametrize("name", list(catalog.PIPELINES))
def test_the_api_server_takes_every_pipeline(argo, name):
    body = made(name).to_dict()
    argo.create(workflows.TEMPLATES, body, argo.namespace, dryRun="All", fieldValidation="Strict")


def test_a_run_is_started_listed_shown_and_stopped(argo, command, monkeypatch):
    monkeypatch.setattr(remote, "CANCEL_LIMIT", 0.0)  # nobody ends it here
    texts = ("-p", "code_url=https://example.org/code", "-p", "code_revision={{x")
    told = command("run", "pytorch-training", "--no-wait", *texts, "-p", "seed=3")
    assert f"the run is not recorded: {argo.namespace} has no Secret trireme-mlflow" in told
    listed = command("list").splitlines()
    name, state = listed[1].split()[:2]
    assert name.endswith("-pytorch-training")
    assert state == "pending"
    spec = argo.get(workflows.WORKFLOWS, name, argo.namespace)["spec"]
    given = {each["name"]: each["value"] for each in spec["arguments"]["parameters"]}
    assert (given["seed"], given["model_name"], given["args"]) == ("3", "classifier", "[]")
    assert json.loads(given["code_revision"]) == "{{x"
    nodes = {
        "b": node(f"{name}.pytorch-training.steps.train", "train", "Running", 2, finishedAt=None),
        "a": node(f"{name}.pytorch-training.steps.checkout", "checkout", "Succeeded", 1),
    }
    change(argo, name, phase="Running", startedAt="2026-01-01T00:00:00Z", nodes=nodes)
    rows = [line.split()[:2] for line in command("status", name).splitlines()]
    assert rows[-2:] == [["checkout", "FINISHED"], ["train", "running"]]
    assert command("cancel", name).startswith(f"{name} is being cancelled, which takes long")
    assert argo.get(workflows.WORKFLOWS, name, argo.namespace)["spec"]["shutdown"] == "Stop"
    change(argo, name, phase="Failed", message="Stopped with strategy 'Stop'")
    assert f"{name}: KILLED" in command("status", name)
    with pytest.raises(InputError, match="has ended already: KILLED"):
        command("cancel", name)


def test_a_run_is_what_it_was_started_as_whatever_is_uploaded(argo, command):
    workflows.upload(argo, made(account="other"))
    command("run", "pytorch-training", "--no-wait")
    name = command("list").splitlines()[1].split()[0]
    there = argo.get(workflows.WORKFLOWS, name, argo.namespace)
    assert there["spec"]["serviceAccountName"] == "trireme"
    assert "workflowTemplateRef" not in there["spec"]
    assert there["metadata"]["labels"][workflows.VERSION] == made().labels[workflows.VERSION]
    uploaded = argo.get(workflows.TEMPLATES, "pytorch-training", argo.namespace)
    assert uploaded["spec"]["serviceAccountName"] == "other"


def test_a_run_whose_pods_could_not_start_is_not_made(argo, command):
    words = ("run", "pytorch-training", "--no-wait")
    with pytest.raises(InputError, match="ServiceAccount nobody is not in "):
        command(*words, "--service-account", "nobody")
    with pytest.raises(
        InputError, match=r"pytorch_classifier.py' does not exist in the repository"
    ):
        command(*words, "-p", "code_url=/proc")
    assert command("list") == f"no runs in namespace {argo.namespace}\n"


def test_what_argo_has_compressed_is_read(argo, command):
    command("run", "pytorch-training", "--no-wait")
    name = command("list").splitlines()[1].split()[0]
    packed = gzip.compress(json.dumps({"a": node("x", "checkout", "Succeeded", 1)}).encode())
    change(argo, name, phase="Succeeded", compressedNodes=base64.b64encode(packed).decode())
    assert [step.name for step in workflows.find(argo, name).begun] == ["checkout"]


def test_a_run_is_followed_to_its_end(argo, command, monkeypatch):
    states = iter(["Running", "Failed"])

    def meanwhile(seconds):
        phase = next(states)
        name = command("list").splitlines()[1].split()[0]
        steps = {"a": node("x", "train", phase, 1, message="Error (exit code 3)")}
        change(argo, name, phase=phase, nodes=steps)

    monkeypatch.setattr(remote.time, "sleep", meanwhile)
    with pytest.raises(TriremeError, match=r"failed at train: Error \(exit code 3\)"):
        command("run", "pytorch-training")


@STANDS_IN
def test_status_shows_what_the_steps_have_left_as_their_last_words(argo_standing_in, command):
    run = begun(argo_standing_in)
    of = node("p", "train", "Failed", 1) | {"name": f"{run}.pytorch-training.train(0)"}
    change(argo_standing_in, run, phase="Failed", nodes={"p": of})
    why = "replica master-0 exited with status 1"
    ended = {"terminated": {"exitCode": 1, "message": f"{why}\n"}}
    pod = pod_of(argo_standing_in, run, of)
    status = {"containerStatuses": [{"name": "main", "restartCount": 0, "state": ended}]}
    argo_standing_in.patch(PODS, pod, argo_standing_in.namespace, {"status": status})
    rows = [line.split(maxsplit=3) for line in command("status", run).splitlines()]
    assert ["train", "FAILED", "60", why] in rows


def pod_of(cluster, run, of, phase="Running"):
    """Makes the pod of a node, or has it end; returns its name."""
    name = of["id"]
    state = {"running": {}} if phase == "Running" else {"terminated": {"exitCode": 0}}
    started = [{"name": "main", "restartCount": 0, "state": state}]
    metadata = {
        "name": name,
        "labels": {logs.WORKFLOW: run},
        "annotations": {NODE: of["name"]},
    }
    body = {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": {"containers": []}}
    with suppress(AlreadyThere):
        cluster.create(PODS, body, cluster.namespace)
    status = {"phase": phase, "containerStatuses": started}
    cluster.patch(PODS, name, cluster.namespace, {"status": status})
    return name


def test_logs_are_without_what_argo_says_when_all_is_well(argo_standing_in, container_logs):
    cluster = argo_standing_in
    run = begun(cluster)
    one = node("p0", "train", "Succeeded", 1) | {"name": f"{run}.pytorch-training.train"}
    change(cluster, run, phase="Succeeded", nodes={"p0": one})
    said = [
        'time=2026-11-23T01:00:00.1Z level=INFO msg="capturing logs" argo=true',  # 4.1
        "time=2026-11-23T01:00:00.1Z level=INFO msg=started argo=false",
        "epoch 1",
        'time="2026-11-23T01:00:00Z" level=info msg="sub-process exited" argo=true error="<nil>"',
        'time=2026-11-23T01:00:00.1Z level=ERROR msg="no such file" argo=true',
    ]
    container_logs.write(pod_of(cluster, run, one, "Succeeded"), *said)
    words = ["logs", run, "--target", "argo", "-n", cluster.namespace]
    shown = CliRunner().invoke(app, words).output.splitlines()
    assert shown == [f"[train] {said[number]}" for number in (1, 2, 4)]


def test_a_graph_that_is_tried_again_has_its_steps_once(argo_standing_in, container_logs):
    """As with a controller whose ``templateDefaults`` have a retryStrategy."""
    cluster = argo_standing_in
    run = begun(cluster)
    places = [f"{run}(0).pytorch-training({n}).train(0)" for n in (0, 1)]
    phases = ("Error", "Running")
    nodes = {
        f"p{n}": node(f"p{n}", "train", phases[n], n + 1) | {"name": place}
        for n, place in enumerate(places)
    }
    change(cluster, run, phase="Running", nodes=nodes)
    (step,) = workflows.find(cluster, run).begun
    assert (step.name, step.state) == ("train", "running")
    for number in (0, 1):
        container_logs.write(pod_of(cluster, run, nodes[f"p{number}"], "Succeeded"), str(number))
    words = ["logs", run, "--target", "argo", "-n", cluster.namespace]
    assert CliRunner().invoke(app, words).output == "[train] 0\n[train] 1\n"


@pytest.fixture
def sweep(argo_standing_in):
    """A run of the sweep with two turns of a step, and what their pods print."""
    cluster = argo_standing_in
    run = begun(cluster, "sweep")
    place = f"{run}.sweep.trials.round({{0}}:index:{{0}},value:x(1:index:1).trial).trial"
    nodes = {str(n): node(place.format(n), "trial", "Running", n) | {"id": f"p{n}"} for n in (0, 1)}
    change(cluster, run, phase="Running", nodes=nodes)
    return run, nodes


def test_all_tries_of_a_step_are_one(argo_standing_in, container_logs):
    cluster = argo_standing_in
    run = begun(cluster)
    place = f"{run}.pytorch-training.train"
    lost = {"name": f"{place}(0)", "message": "pod deleted"}
    nodes = {
        "whole": node("whole", "train", "Running", 1) | {"name": place, "type": "Retry"},
        "p0": node("p0", "train", "Error", 1) | lost,
        "p1": node("p1", "train", "Pending", 9) | {"name": f"{place}(1)"},
    }
    change(cluster, run, phase="Running", nodes=nodes)
    (step,) = workflows.find(cluster, run).begun
    assert (step.name, step.state, step.result) == ("train", "pending", "")
    nodes["p1"]["phase"] = nodes["whole"]["phase"] = "Succeeded"
    change(cluster, run, phase="Succeeded", nodes=nodes)
    (step,) = workflows.find(cluster, run).begun
    assert (step.name, step.state) == ("train", "FINISHED")
    for number in (0, 1):
        container_logs.write(pod_of(cluster, run, nodes[f"p{number}"], "Succeeded"), str(number))
    words = ["logs", run, "--target", "argo", "-n", cluster.namespace]
    assert CliRunner().invoke(app, words).output == "[train] 0\n[train] 1\n"


def test_a_log_that_its_node_has_lost_is_told(argo_standing_in, container_logs):
    cluster = argo_standing_in
    run = begun(cluster)
    one = node("p0", "train", "Succeeded", 1) | {"name": f"{run}.pytorch-training.train"}
    change(cluster, run, phase="Succeeded", nodes={"p0": one})
    container_logs.lose(pod_of(cluster, run, one, "Succeeded"))
    words = ["logs", run, "--target", "argo", "-n", cluster.namespace]
    told = CliRunner().invoke(app, words).output
    assert told.startswith("[train] (the log cannot be read: unable to retrieve container logs")


def test_logs_of_turns_are_followed_until_the_run_has_ended(
    argo_standing_in, container_logs, sweep, monkeypatch, eventually
):
    cluster, (run, nodes) = argo_standing_in, sweep
    monkeypatch.setattr(pod_logs, "PAUSE", 0.02)
    told = []
    found = workflows.find(cluster, run)
    assert [step.name for step in found.begun] == ["trial-000", "trial-001"]
    arguments = (cluster, found, "", lambda *line: told.append(line), lambda run: {})
    thread = threading.Thread(
        target=logs.logs, args=arguments, kwargs={"follow": True}, daemon=True
    )
    thread.start()
    container_logs.write(pod_of(cluster, run, nodes["0"]), "one")
    assert eventually(lambda: told == [("trial-000", "one")])
    container_logs.write(pod_of(cluster, run, nodes["1"]), "two")
    container_logs.write("p0", "three")
    assert eventually(lambda: sorted(told[1:]) == [("trial-000", "three"), ("trial-001", "two")])
    for each in nodes.values():
        container_logs.end(pod_of(cluster, run, each, "Succeeded"))
    change(cluster, run, phase="Succeeded")
    thread.join(30)
    assert not thread.is_alive()
    words = ["logs", run, "--target", "argo", "-n", cluster.namespace, "--step", "trial-001"]
    assert CliRunner().invoke(app, [*words, "-f"]).output == "[trial-001] two\n"
    assert CliRunner().invoke(app, words).output == "[trial-001] two\n"


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["status", "nobody"], "there is no run 'nobody'"),
        (["logs", "-f", "nobody"], "there is no run 'nobody'"),
        (["resume", "nobody"], "there is no run 'nobody'"),
        (["list", "--endpoint", "http://x"], "--endpoint needs --target kfp"),
    ],
)
def test_mistakes_are_one_sentence(command, words, said):
    with pytest.raises(InputError, match=said):
        command(*words)


def test_compiled_files_are_what_is_uploaded(tmp_path):
    words = ["compile", "sweep", "--target", "argo", "-o", str(tmp_path)]
    assert CliRunner().invoke(app, words).output.splitlines()[0] == str(tmp_path / "sweep.yaml")
    text = (tmp_path / "sweep.yaml").read_text()
    assert yaml.safe_load(text) == json.loads(json.dumps(made("sweep").to_dict()))


def test_a_run_takes_the_folder_along(
    argo, command, make_repository, unaided_git, monkeypatch, tmp_path
):
    repository = make_repository("code")
    repository.commit("one")
    (repository.directory / "train.py").write_text("print('not committed')")
    monkeypatch.chdir(repository.directory)
    words = ("-p", "code_url=.", "-p", "entrypoint=train.py")
    assert "in the ConfigMap trireme-code-" in command("plan", "pytorch-training", *words)
    assert argo.items(CONFIG_MAPS, argo.namespace, labelSelector="trireme/code") == []
    for _ in range(2):  # the second finds what the first has made
        told = command("run", "pytorch-training", "--no-wait", *words)
    (kept,) = argo.items(CONFIG_MAPS, argo.namespace, labelSelector="trireme/code")
    assert kept["immutable"]
    name = told.partition(" started")[0].splitlines()[-1]
    spec = argo.get(workflows.WORKFLOWS, name, argo.namespace)["spec"]
    given = {each["name"]: each["value"] for each in spec["arguments"]["parameters"]}
    place = urls.bundle(given["code_url"])
    assert kept["metadata"]["name"] == bundle.config_map(place.commit)
    assert given["code_revision"] == place.commit
    monkeypatch.setattr(connection, "Cluster", lambda **how: argo)
    checkout(given["code_url"], "", tmp_path / "pod")
    assert (tmp_path / "pod/train.py").read_text() == "print('not committed')"
