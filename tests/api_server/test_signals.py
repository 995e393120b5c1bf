"""A launcher that is told to end takes its job with it."""

import json
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from components.training.cluster import submission
from components.training.cluster.resources import PODS, resource_of
from components.training.kinds import PYTORCHJOB

JOBS = resource_of(PYTORCHJOB)
ALONE = """
import json, sys
from components.errors import TriremeError
from components.training.cluster import launcher
from components.training.cluster.connection import Cluster
from components.training.cluster.following import Limits
from components.training.cluster.launcher import launch
launcher.LAST_CALL = float(sys.argv[3])
try:
    launch(
        json.loads(sys.argv[2]),
        Cluster(sys.argv[1], patience=20),
        limits=Limits(),
        on_line=lambda replica, line: None,
        on_state=lambda state: print(state, flush=True),
    )
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
    assert unknown.startswith("whether PyTorchJob digits is there now is not known: the cluster at")
    assert last == "Cancelled: the job was cancelled"


def test_another_job_of_the_name_is_not_deleted(cluster, alone, player, pytorch):
    there = submission.submit(cluster, pytorch)
    process = alone(pytorch | {"spec": pytorch["spec"] | {"nprocPerNode": "2"}})
    assert process.wait(30) == 2
    assert submission.find(cluster, pytorch)["metadata"]["uid"] == there["metadata"]["uid"]
