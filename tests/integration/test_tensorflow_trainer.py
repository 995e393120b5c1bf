"""The TensorFlow trainer by itself: replicas as a TFJob starts them, joined by TF_CONFIG only."""

import json
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
from contextlib import ExitStack
from pathlib import Path

import numpy as np
import pytest
from mlflow import MlflowClient

from components.dataset.staging import stage
from components.evaluation.evaluate import evaluate

TRAINER = (
    Path(__file__).resolve().parents[2] / "components" / "trainers" / "tensorflow" / "classifier.py"
)
TWO_CPUS = """
import runpy, sys
import tensorflow as tf
cpu = tf.config.list_physical_devices("CPU")[0]
tf.config.set_logical_device_configuration(cpu, [tf.config.LogicalDeviceConfiguration()] * 2)
sys.argv = sys.argv[1:]
runpy.run_path(sys.argv[0], run_name="__main__")
"""

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def digits(tmp_path_factory):
    return Path(stage("builtin://digits", tmp_path_factory.mktemp("digits") / "data").path)


def free_addresses(roles: dict[str, int]) -> dict[str, list[str]]:
    """Returns addresses by role on this machine's loopback."""
    with ExitStack() as held:

        def address() -> str:
            bound = held.enter_context(socket.socket())
            bound.bind(("127.0.0.1", 0))
            return f"127.0.0.1:{bound.getsockname()[1]}"

        return {role: [address() for _ in range(count)] for role, count in roles.items()}


class Job:
    """The replicas of one job, in a folder of its own."""

    def __init__(self, directory: Path, data: Path, roles: dict[str, int]) -> None:
        self.directory, self.data = directory, data
        self.cluster = free_addresses(roles)
        self.processes: list[subprocess.Popen] = []
        (directory / "tmp").mkdir(parents=True)

    def start(self, role, index, *arguments, before=(), **variables) -> subprocess.Popen:
        """Starts a replica, with nothing of ours on its path."""
        kept = {key: value for key, value in os.environ.items() if not key.startswith("MLFLOW_")}
        environment = {
            **kept,
            **variables,
            "DATA_DIR": str(self.data),
            "CHECKPOINT_DIR": str(self.directory / "checkpoints"),
            "MODEL_DIR": str(self.directory / "model"),
            "TMPDIR": str(self.directory / "tmp"),
            "CUDA_VISIBLE_DEVICES": "-1",
            "TF_CPP_MIN_LOG_LEVEL": "3",
            "TF_NUM_INTRAOP_THREADS": "1",
            "TF_NUM_INTEROP_THREADS": "1",
        }
        if self.cluster:
            task = {"type": role, "index": index}
            config = {"cluster": self.cluster, "task": task, "environment": "cloud"}
            environment["TF_CONFIG"] = json.dumps(config)
        process = subprocess.Popen(
            [sys.executable, *before, str(TRAINER), *arguments],
            env=environment,
            cwd=self.directory,
            stdout=(self.directory / f"{role}-{index}.log").open("a"),
            stderr=subprocess.STDOUT,
        )
        self.processes.append(process)
        return process

    def log(self, role: str, index: int) -> str:
        """Returns what a replica has printed so far, over all its lives."""
        return (self.directory / f"{role}-{index}.log").read_text()

    def losses(self, role: str, index: int) -> list[float]:
        """Returns the losses that a replica has printed."""
        return [float(loss) for loss in re.findall(r"loss (\S+)", self.log(role, index))]

    def accuracy(self) -> float:
        """Returns the accuracy of the result on held-out samples."""
        where = (self.directory / "model", self.data, self.directory, "classifier.py", "")
        verdict, found, _ = evaluate(*where, 0.0)
        assert found, verdict.reason
        return found.figures["accuracy"]


@pytest.fixture
def make_job(tmp_path, digits):
    jobs = []

    def make(name: str, **roles: int) -> Job:
        jobs.append(Job(tmp_path / name, digits, roles))
        return jobs[-1]

    yield make
    for job in jobs:
        for process in job.processes:
            process.kill()
            process.wait()


def finish(process: subprocess.Popen, job: Job, role: str, index: int) -> None:
    assert process.wait(timeout=200) == 0, job.log(role, index)


SHORT = ("--epochs", "3", "--batch-size")


@pytest.fixture(scope="module")
def by_one_process(tmp_path_factory, digits):
    """A short training by one process, with batches of 64."""
    job = Job(tmp_path_factory.mktemp("jobs") / "single", digits, {})
    finish(job.start("worker", 0, "--strategy", "single", *SHORT, "64"), job, "worker", 0)
    return job


def must_agree(job: Job, role: str, other: Job) -> None:
    """Compares losses as printed; sums in another order differ in the last bits."""
    expected = other.losses("worker", 0)
    assert len(expected) == 3 and expected[0] > 2 * expected[2]
    assert np.allclose(job.losses(role, 0), expected, rtol=0.01)


def test_replicas_together_compute_what_one_process_computes(make_job, by_one_process):
    # 1,438 samples make 22 batches of 64 and one of 30, most of which goes to one replica.
    job = make_job("multi-worker", worker=2)
    arguments = (*SHORT, "32", "--communication", "nccl")
    workers = [job.start("worker", index, *arguments) for index in range(2)]
    for index, worker in enumerate(workers):
        finish(worker, job, "worker", index)
        assert "no GPU: ring" in job.log("worker", index)
    must_agree(job, "worker", by_one_process)
    assert job.losses("worker", 1) == []  # only the chief tells
    assert job.accuracy() == pytest.approx(by_one_process.accuracy(), abs=0.02)
    assert [path.name for path in (job.directory / "model").iterdir()] == ["model"]
    assert list((job.directory / "tmp").iterdir()) == []

    mirrored = make_job("mirrored")
    options = ("--devices", "CPU:0", "CPU:1", "--cross-device-ops", "hierarchical_copy")
    process = mirrored.start("worker", 0, *SHORT, "32", *options, before=("-c", TWO_CPUS))
    finish(process, mirrored, "worker", 0)
    must_agree(mirrored, "worker", by_one_process)


def test_one_worker_without_gpu_trains_mirrored_on_the_cpu(make_job, mlflow_store, tmp_path):
    store = f"sqlite:///{shutil.copy(mlflow_store, tmp_path)}"
    client = MlflowClient(store)
    run = client.create_run(client.create_experiment("training")).info.run_id
    job = make_job("one", worker=1)
    options = ("--strategy", "multi_worker", "--devices", "GPU:0", "--cross-device-ops", "nccl")
    tracking = {"MLFLOW_TRACKING_URI": store, "MLFLOW_RUN_ID": run}
    finish(job.start("worker", 0, *options, **tracking), job, "worker", 0)
    assert "reduction_to_one_device instead of nccl" in job.log("worker", 0)
    assert "no GPU: the CPU instead of GPU:0" in job.log("worker", 0)
    logged = client.get_metric_history(run, "loss")
    assert [metric.step for metric in logged] == list(range(1, 16))
    losses = [metric.value for metric in logged]
    assert losses == pytest.approx(job.losses("worker", 0), abs=1e-4)
    assert job.accuracy() >= 0.95


def test_parameter_servers_lose_a_worker_and_go_on(make_job, eventually):
    job = make_job("parameter-server", chief=1, ps=1, worker=2)
    replicas = {
        (role, index): job.start(role, index)
        for role, count in (("ps", 1), ("worker", 2), ("chief", 1))
        for index in range(count)
    }
    assert eventually(lambda: "epoch 2/15" in job.log("chief", 0), 120), job.log("chief", 0)
    lost = replicas["worker", 1]
    lost.send_signal(signal.SIGKILL)
    lost.wait()
    replicas["worker", 1] = job.start("worker", 1)

    finish(replicas.pop(("chief", 0)), job, "chief", 0)
    assert "epoch 15/15" in job.log("chief", 0)
    assert job.accuracy() >= 0.95
    for (role, index), replica in replicas.items():
        assert replica.poll() is None, job.log(role, index)
        assert job.losses(role, index) == []
        replica.terminate()
        assert replica.wait(timeout=20) == -signal.SIGTERM


def test_training_that_was_killed_goes_on_after_its_last_checkpoint(
    make_job, by_one_process, eventually
):
    job = make_job("killed")
    arguments = ("--strategy", "single", *SHORT, "64")
    killed = job.start("worker", 0, *arguments)
    assert eventually(lambda: "epoch 2/3" in job.log("worker", 0), 120), job.log("worker", 0)
    killed.kill()
    killed.wait()
    finish(job.start("worker", 0, *arguments), job, "worker", 0)
    assert "going on after epoch 2" in job.log("worker", 0)
    assert job.losses("worker", 0) == by_one_process.losses("worker", 0)
    assert job.accuracy() == by_one_process.accuracy()
