"""What happens to runs when the cluster, and not the program, is at fault."""

import copy
import json
import secrets
import time

import place as places
import pytest
from engines import ENDED
from test_pipelines import finished, quick  # noqa: F401 - a fixture

NOBODY = "nobody"
"""A service account that may do what Argo asks of one, and nothing else."""


@pytest.fixture
def elsewhere(engine, place):
    """The engine in a namespace of its own, without a way to MLflow."""
    if engine.name == "kfp":
        pytest.skip("all runs of a Kubeflow Pipelines of one user are in one namespace")
    there = copy.copy(engine)
    there.place = copy.copy(place)
    there.place.namespace = f"{place.namespace}-{secrets.token_hex(2)}"
    places.namespace(there.namespace, place.namespace)
    yield there
    places.kubectl("delete", "namespace", there.namespace, "--wait=false")


def evict(namespace, pod):
    """Has a pod evicted, as kubectl drain does."""
    body = {
        "apiVersion": "policy/v1",
        "kind": "Eviction",
        "metadata": {"name": pod, "namespace": namespace},
    }
    path = f"/api/v1/namespaces/{namespace}/pods/{pod}/eviction"
    places.kubectl("create", "--raw", path, "--filename", "-", given=json.dumps(body))


def replica_of(engine, job):
    """Returns the pod of a job's master, whose name a TrainJob's Job has made longer."""
    named = [pod for pod in engine.pods() if pod["metadata"]["name"].startswith(f"{job}-master-0")]
    return named[-1]


def test_a_launcher_that_is_drained_finds_its_job_again(engine, quick, within):  # noqa: F811
    run = engine.begin(**quick, args=["--seconds", "90"], model_name=f"drained-{engine.name}")
    within(600, lambda: "second 3/" in engine.said(run, "train"))
    (job,) = engine.jobs(run)
    evict(engine.namespace, engine.pod_of(run, "train"))
    within(900, lambda: engine.state(run), ENDED.__contains__)
    finished(engine, run)
    assert engine.jobs(run) in ([], [job])  # the one that was there


def test_a_replica_that_is_evicted_is_started_again(engine, quick, within):  # noqa: F811
    again = {"restart_policy": "ExitCode"}
    run = engine.begin(
        **quick, args=["--seconds", "30"], job=again, model_name=f"evicted-{engine.name}"
    )
    within(600, lambda: "second 3/" in engine.said(run, "train"))
    ((_, name),) = engine.jobs(run)
    evict(engine.namespace, replica_of(engine, name)["metadata"]["name"])
    within(900, lambda: engine.state(run), ENDED.__contains__)
    finished(engine, run)


@pytest.mark.parametrize(
    ("more", "words"),
    [
        ({"image": "example.invalid/nothing:1"}, "ErrImagePull|ImagePullBackOff|InvalidImage"),
        ({"job": {"cpu": "500", "starting_limit": 60}}, "cpu"),
    ],
    ids=["missing-image", "unschedulable"],
)
def test_a_job_that_cannot_start_says_why(engine, quick, more, words):  # noqa: F811
    # As user 1000, or Pod Security would not let it be tried.
    job = {"starting_limit": 60, "run_as_user": 1000} | more.get("job", {})
    _, output = engine.run(**(quick | more | {"job": job}), status=1)
    assert any(word in output for word in words.split("|")), output


def test_a_replica_without_memory_is_named(engine, quick):  # noqa: F811
    _, output = engine.run(**quick, args=["--gigabytes", "2"], job={"memory": "1Gi"}, status=1)
    assert "master-0" in output and "memory" in output


def test_two_first_runs_at_once(engine, quick, within):  # noqa: F811
    name = f"at-once-{engine.name}"
    runs = [engine.begin(**quick, experiment=name, model_name=name) for _ in range(2)]
    for run in runs:
        within(1200, lambda run=run: engine.state(run), ENDED.__contains__)
        finished(engine, run)
        assert "not in MLflow" not in engine.command("logs", run)


@pytest.mark.slow
def test_a_node_that_is_drained(engine, quick, within):  # noqa: F811
    again = {"restart_policy": "ExitCode"}
    name = f"node-{engine.name}"
    run = engine.begin(**quick, args=["--seconds", "120"], job=again, model_name=name)
    within(900, lambda: "second 3/" in engine.said(run, "train"))
    ((_, job),) = engine.jobs(run)
    launcher = engine.pod_of(run, "train")
    replica = replica_of(engine, job)
    node = replica["spec"]["nodeName"]
    places.kubectl("cordon", node)
    try:
        evict(engine.namespace, replica["metadata"]["name"])
        evict(engine.namespace, launcher)
        time.sleep(20)  # in which nothing can start, if it is the only node
    finally:
        places.kubectl("uncordon", node)
    within(900, lambda: engine.state(run), ENDED.__contains__)
    finished(engine, run)


def test_mlflow_with_a_wrong_password(elsewhere, place, quick, within):  # noqa: F811
    """It trains, and the run goes on from there once the password is right."""
    places.create(elsewhere.namespace, places.credentials(place.namespace, "a wrong one"))
    run, output = elsewhere.run(**quick, model_name="in-time", status=1)
    assert "does not allow this (401); are its user and password" in output
    states = elsewhere.steps(run)
    assert [states[step] for step in ("checkout", "dataset", "train")] == ["FINISHED"] * 3
    places.kubectl("delete", "secret", "trireme-mlflow", namespace=elsewhere.namespace)
    places.create(elsewhere.namespace, places.credentials(place.namespace, place.password))
    elsewhere.command("resume", run)
    within(900, lambda: elsewhere.state(run), ENDED.__contains__)
    whole, steps = elsewhere.recorded(run)
    assert whole.info.status == steps["evaluate"].info.status == "FINISHED"
    assert whole.data.tags["model.version"]


def test_without_mlflow(elsewhere, quick):  # noqa: F811
    run, output = elsewhere.run(**quick)
    assert "no Secret trireme-mlflow" in output
    assert elsewhere.steps(run)["export"] == "FINISHED"


def test_a_service_account_that_may_start_no_job(elsewhere, quick):  # noqa: F811
    namespace = elsewhere.namespace
    places.kubectl("create", "serviceaccount", NOBODY, namespace=namespace)
    rights = ("--role=trireme-executor", f"--serviceaccount={namespace}:{NOBODY}")
    places.kubectl("create", "rolebinding", NOBODY, *rights, namespace=namespace)
    _, output = elsewhere.run("pytorch-training", "--service-account", NOBODY, **quick, status=1)
    assert "not allowed on the cluster" in output and f":{NOBODY}" in output


def test_a_volume_that_belongs_to_root(elsewhere, quick, within):  # noqa: F811
    """Kubernetes gives it the group of the pods, or the next step says what would."""
    run, _ = elsewhere.run(**quick, args=["--fail-once"], status=1)
    (claim,) = elsewhere.objects("persistentvolumeclaims")
    source = {"persistentVolumeClaim": {"claimName": claim["metadata"]["name"]}}
    taking = {
        "name": "main",
        "image": main_image(elsewhere.pods()[-1]),
        "command": ["sh", "-ec", "chown 0:0 /volume; chmod 0755 /volume"],
        "securityContext": {"runAsUser": 0},
        "volumeMounts": [{"name": "volume", "mountPath": "/volume"}],
    }
    volumes = [{"name": "volume"} | source]
    spec = {"restartPolicy": "Never", "containers": [taking], "volumes": volumes}
    root = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "root"}, "spec": spec}
    places.create(elsewhere.namespace, root)
    done = ("wait", "--for=jsonpath={.status.phase}=Succeeded", "pod/root", "--timeout=60s")
    places.kubectl(*done, namespace=elsewhere.namespace)
    elsewhere.command("resume", run)
    within(900, lambda: elsewhere.state(run), ENDED.__contains__)
    steps = elsewhere.steps(run)
    said = elsewhere.command("status", run)
    assert steps.get("export") == "FINISHED" or "fsGroup 1000" in said, said


def main_image(pod):
    """Returns the image of a step's pod."""
    (main,) = (each for each in pod["spec"]["containers"] if each["name"] == "main")
    return main["image"]
