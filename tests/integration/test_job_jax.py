"""A JAXJob for real: the reference trainer on two processes that find each other."""

import importlib.util
import os
import subprocess
import sys

import numpy as np
import pytest
from jobs_of_frameworks import LIMIT, ROOT, on_own_hosts, run
from stores import free_port

from trireme.frameworks import FRAMEWORKS

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(not importlib.util.find_spec("jax"), reason="needs JAX"),
]


@pytest.fixture(scope="module")
def digits(tmp_path_factory):
    """A job of two workers that train for three epochs."""
    return run("jax", tmp_path_factory.mktemp("jax"), "--epochs", "3", workers=2)


def test_two_processes_learn_the_digits_and_leave_one_model(digits):
    assert set(digits.seconds) == {"worker-0", "worker-1"}
    assert digits.speaker == {"worker-0"}
    loss, accuracy = digits.figures(3)
    assert accuracy > 0.95 and loss < 0.2
    with np.load(digits.folder / "model" / "model.npz") as weights:
        assert weights["head"].shape[1] == 10


def test_training_goes_on_from_the_last_checkpoint_with_another_number_of_processes(digits):
    again = run("jax", digits.folder, "--epochs", "4", workers=1)
    assert "resuming after epoch 3" in again.lines("worker-0")
    assert again.figures(4)[0] < digits.figures(3)[0]


def test_two_processes_compute_what_one_does(digits, tmp_path):
    alone = run("jax", tmp_path, "--epochs", "3", "--batch-size", "64", workers=1)
    assert alone.figures(3) == pytest.approx(digits.figures(3), rel=1e-3)


def test_a_process_that_sees_no_checkpoint_starts_from_that_of_the_first(tmp_path):
    run("jax", tmp_path, "--epochs", "1", workers=1)
    port, processes = free_port(), []
    for rank, checkpoints in enumerate(("checkpoints", "empty")):
        places = {"DATA": "data", "CHECKPOINT": checkpoints, "MODEL": "model"}
        variables = {f"{name}_DIR": str(tmp_path / place) for name, place in places.items()}
        variables |= {"COORDINATOR_ADDRESS": "127.0.0.1", "COORDINATOR_PORT": str(port)}
        variables |= {"NUM_PROCESSES": "2", "PROCESS_ID": str(rank)}
        command = [sys.executable, FRAMEWORKS["jax"].trainer, "--epochs", "2"]
        with (tmp_path / f"{rank}.log").open("w") as log:
            processes.append(
                subprocess.Popen(
                    command, cwd=ROOT, env=os.environ | variables, stdout=log, stderr=log
                )
            )
    try:
        ended = [process.wait(LIMIT) for process in processes]
    finally:
        for process in processes:
            process.kill()
    said = (tmp_path / "0.log").read_text()
    assert ended == [0, 0], said
    assert "resuming after epoch 1" in said and "epoch 2/2" in said


@on_own_hosts
def test_processes_on_hosts_of_their_own_find_each_other(tmp_path):
    job = run("jax", tmp_path, "--epochs", "2", workers=2, isolated=True)
    assert job.figures(2)[0] < job.figures(1)[0]
