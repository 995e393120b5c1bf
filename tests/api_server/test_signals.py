"""A launcher that is told to end takes its job with it."""

import json
import signal
import subprocess
import sys
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from argo_runs import begun

from trireme.frameworks import KINDS
from trireme.kubernetes import owner
from trireme.kubernetes.resources import NODE, PODS
from trireme.runner.cluster import submission
from trireme.targets.argo import workflows

JOBS = KINDS["PyTorchJob"]
ALONE = """
import json, sys
from trireme.errors import TriremeError
from trireme.runner.cluster import runner
from trireme.kubernetes.connection import Cluster
from trireme.observers.base import Observers
from trireme.observers.printing import Printing
from trireme.runner.cluster.follower import Limits
from trireme.runner.cluster.runner import launch
runner.LAST_CALL = float(sys.argv[3])
try:
    shown = Printing(lambda replica, line: None, lambda state: print(state, flush=True))
    cluster = Cluster(sys.argv[1], patience=20)
    launch(json.loads(sys.argv[2]), cluster, Limits(), Observers([shown]))
except TriremeError as error:
    print(f"{type(error).__name__}: {error}", flush=True)
    sys.exit(error.exit_status)
"""


@pytest.fixture
def alone(request):
    """Starts a process that launches a job; ends what a failed test has left."""
    names = request.fixturenames
    cluster = request.getfixturevalue("cluster" if "cluster" in names else "standing_in")
    started = []

    def start(manifest, last_call=20):
        arguments = [cluster.namespace, json.dumps(manifest), str(last_call)]
        process = subprocess.Popen(
            [sys.executable, "-c", ALONE, *arguments],
            stdout=subprocess.PIPE,
            text=True,
            cwd=Path(submission.__file__).parents[3],
        )
        started.append(process)
        return process

    yield start
    for process in started:
        process.kill()
        process.communicate()


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_the_job_is_deleted_with_its_pods(cluster, alone, player, pytorch, number):
    process = alone(pytorch)
    job = player.wait_for(pytorch)
    player.run(player.pod(job, "master"))
    while not process.stdout.readline().startswith("starting: 1 of 2"):
        pass
    process.send_signal(number)
    assert process.wait(30) == 143
    assert process.stdout.read().splitlines()[-1] == "Cancelled: the job was cancelled"
    submission.wait_until_gone(cluster, job)
    assert not cluster.list(PODS, cluster.namespace)["items"]


def test_a_job_that_has_ended_is_not_deleted(cluster, alone, player, pytorch):
    process = alone(pytorch)
    player.condition(player.wait_for(pytorch), "Failed")
    assert process.wait(30) == 1
    assert cluster.get(JOBS, "digits", cluster.namespace)


def test_a_job_whose_making_was_interrupted_is_deleted(
    server, standing_in, alone, pytorch, eventually
):
    # The job is made, and the answer that says so does not come.
    server.fail("POST", r"pytorchjobs$", after=True, late=1.0)
    process = alone(pytorch)
    assert eventually(lambda: submission.find(standing_in, pytorch))
    process.send_signal(signal.SIGTERM)
    assert process.wait(30) == 143
    assert submission.find(standing_in, pytorch) is None


def test_an_api_server_that_is_away_does_not_keep_it(server, alone, pytorch, eventually):
    server.fail("POST", r"pytorchjobs$", times=-1, code=503)
    process = alone(pytorch, last_call=0.5)
    assert eventually(lambda: ("POST", JOBS.path("team")) in server.requests)
    server.fail("GET", "", times=-1, code=503)
    process.send_signal(signal.SIGINT)
    assert process.wait(60) == 143
    unknown, last = process.stdout.read().splitlines()
    assert unknown.startswith("whether PyTorchJob digits exists now is not known: the cluster at")
    assert last == "Cancelled: the job was cancelled"


def test_another_job_of_the_name_is_not_deleted(cluster, alone, player, pytorch):
    there = submission.submit(cluster, pytorch)
    process = alone(pytorch | {"spec": pytorch["spec"] | {"nprocPerNode": "2"}})
    assert process.wait(30) == 2
    assert submission.find(cluster, pytorch)["metadata"]["uid"] == there["metadata"]["uid"]


LONG_AGO = (datetime.now(UTC) - timedelta(hours=1)).isoformat()


@pytest.fixture
def step(argo, pytorch, monkeypatch):
    """Makes a run, and the pod of its training step; returns the run's name."""

    def make(node="run.train(0)", limit=None):
        run = begun(argo)
        workflow = argo.get(workflows.WORKFLOWS, run, argo.namespace)
        reference = {key: workflow[key] for key in ("apiVersion", "kind")} | {
            "name": run,
            "uid": workflow["metadata"]["uid"],
            "controller": True,
        }
        metadata = {"name": "step", "ownerReferences": [reference], "annotations": {NODE: node}}
        told = {"name": "ARGO_TEMPLATE", "value": json.dumps({"retryStrategy": {"limit": "2"}})}
        init = {"name": "init", "image": "example.org/argoexec", "env": [told]}
        main = {"name": "main", "image": "example.org/trireme"}
        spec = {"containers": [main], "initContainers": [init]}
        if limit:
            spec["activeDeadlineSeconds"] = limit
        body = {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec}
        argo.create(PODS, body, argo.namespace)
        status = {"phase": "Running", "startTime": LONG_AGO}
        path = PODS.path(argo.namespace, "step", "status")
        argo.request("PATCH", PODS, path, body={"status": status})
        monkeypatch.setenv("POD_NAME", "step")
        pytorch["metadata"]["ownerReferences"] = owner.owners(argo)
        return run

    return make


def told_to_end(alone, player, pytorch):
    process = alone(pytorch)
    player.wait_for(pytorch)
    while not process.stdout.readline().startswith("starting: 0 of 2"):
        pass
    process.send_signal(signal.SIGTERM)
    assert process.wait(30) == 143
    return process.stdout.read().splitlines()[-1]


def test_a_pod_that_is_taken_away_leaves_the_job_to_the_step_s_next_one(
    argo, step, alone, player, pytorch
):
    step()
    said = told_to_end(alone, player, pytorch)
    assert said == "this pod is being removed; the job goes on, and the step's next pod finds it"
    there = submission.find(argo, pytorch)
    assert there and "deletionTimestamp" not in there["metadata"]
    again = alone(pytorch)
    while not again.stdout.readline().startswith("starting: 0 of 2"):
        pass
    assert submission.find(argo, pytorch)["metadata"]["uid"] == there["metadata"]["uid"]


@pytest.mark.parametrize(
    ("change", "made"),
    [
        ({"spec": {"shutdown": "Stop"}}, {}),
        ({"spec": {"activeDeadlineSeconds": 0}}, {}),  # as Kubeflow Pipelines terminates a run
        ({"spec": {"activeDeadlineSeconds": 3600}}, {}),
        ({}, {"node": "run.train"}),  # which nobody tries again
        ({}, {"node": "run.train(2)"}),  # the last time
        ({}, {"limit": 3600}),
    ],
)
def test_a_step_that_will_not_be_started_again_takes_the_job_with_it(
    argo, step, alone, player, pytorch, change, made, eventually
):
    run = step(**made)
    status = {"phase": "Running", "startedAt": LONG_AGO}
    argo.patch(workflows.WORKFLOWS, run, argo.namespace, change | {"status": status})
    assert told_to_end(alone, player, pytorch) == "Cancelled: the job was cancelled"
    assert eventually(lambda: submission.find(argo, pytorch) is None)


def test_a_step_that_cannot_ask_takes_the_job_with_it(
    argo_standing_in, server, alone, pytorch, eventually
):
    owning = {"apiVersion": "argoproj.io/v1alpha1", "kind": "Workflow", "name": "x", "uid": "1"}
    pytorch["metadata"]["ownerReferences"] = [owning]
    server.fail("GET", "/workflows/", times=-1, code=403, message="cannot get workflows")
    process = alone(pytorch)
    assert eventually(lambda: submission.find(argo_standing_in, pytorch))
    process.send_signal(signal.SIGTERM)
    assert process.wait(30) == 143
    assert submission.find(argo_standing_in, pytorch) is None
