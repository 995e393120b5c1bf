"""An XGBoostJob for real: the reference trainer on two processes, one with the tracker."""

import importlib.util
import os
import signal
import socket
import subprocess
import sys

import numpy as np
import pytest
from jobs_of_frameworks import LIMIT, ROOT, on_own_hosts, run
from stores import free_port

from trireme.frameworks import FRAMEWORKS

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(not importlib.util.find_spec("xgboost"), reason="needs XGBoost"),
]


@pytest.fixture(scope="module")
def digits(tmp_path_factory):
    """A job of a master and a worker that train for twelve rounds."""
    return run("xgboost", tmp_path_factory.mktemp("xgboost"), "--rounds", "12", workers=1)


def test_two_processes_learn_the_digits_and_leave_one_model(digits):
    import xgboost

    assert set(digits.seconds) == {"master-0", "worker-0"}
    assert digits.speaker == {"master-0"}
    assert digits.figures(12)[1] > 0.99
    with np.load(digits.folder / "data" / "test.npz") as test:
        images = xgboost.DMatrix(test["x"].reshape(len(test["x"]), -1))
        model = xgboost.Booster(model_file=digits.folder / "model" / "model.ubj")
        assert (model.predict(images).argmax(1) == test["y"]).mean() > 0.85


def test_training_goes_on_from_the_last_checkpoint(digits):
    again = run("xgboost", digits.folder, "--rounds", "13", workers=0)
    assert "resuming after round 10" in again.lines("master-0")
    assert again.figures(13)[0] < digits.figures(12)[0]


@pytest.fixture
def start(digits, tmp_path):
    """Starts processes that train together; returns those of each rank."""
    processes = []

    def begin(port, rounds=600, **last):
        places = {"DATA_DIR": digits.folder / "data"} | {
            f"{name}_DIR": tmp_path / name.lower() for name in ("CHECKPOINT", "MODEL")
        }
        for rank in range(3):
            place = {"RANK": rank, "WORLD_SIZE": 3, "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": port}
            place |= last if rank == 2 else {}
            variables = {name: str(value) for name, value in (places | place).items()}
            processes.append(
                subprocess.Popen(
                    [sys.executable, FRAMEWORKS["xgboost"].trainer, "--rounds", str(rounds)],
                    cwd=ROOT,
                    env=os.environ | variables | {"OMP_NUM_THREADS": "1"},
                    stdout=subprocess.PIPE,
                    stderr=subprocess.STDOUT,
                    text=True,
                )
            )
        return processes[-3:]

    yield begin
    for process in processes:
        process.kill()
        process.communicate()


def until(process, start):
    """Reads what a process prints, to the line that starts so; returns that."""
    return next(line for line in process.stdout if line.startswith(start))


@pytest.mark.timeout(900)
def test_when_one_is_gone_the_others_end_and_all_can_go_on(start):
    first, *_, last = processes = start(free_port())
    until(first, "round 13/")
    last.kill()
    # Now and then XGBoost notices by its time-out alone, of five minutes.
    assert [process.wait(LIMIT + 90) for process in processes] == [138, 138, -signal.SIGKILL]

    first, *_, last = processes = start(free_port())
    done = int(until(first, "resuming after round").split()[-1])
    assert done >= 10 and done % 10 == 0
    until(first, f"round {done + 3}/")
    last.terminate()
    assert [process.wait(LIMIT) for process in processes] == [143] * 3
    stopped = until(first, "stopped after round").split(";")[0]

    first, *_ = processes = start(free_port())
    assert until(first, "resuming").split()[2:] == stopped.split()[2:]
    assert int(stopped.split()[-1]) >= done + 3


def test_a_process_that_sees_no_checkpoint_starts_from_that_of_the_first(start, tmp_path):
    assert [process.wait(LIMIT) for process in start(free_port(), rounds=11)] == [0] * 3
    first, *_ = processes = start(free_port(), rounds=12, CHECKPOINT_DIR=tmp_path / "empty")
    assert [process.wait(LIMIT) for process in processes] == [0] * 3
    lines = first.stdout.read().splitlines()
    assert "resuming after round 10" in lines
    rounds = [line.split()[1] for line in lines if line.startswith("round ")]
    assert rounds == ["11/12", "12/12"]


def test_training_waits_for_the_port_of_a_tracker_that_has_just_ended(start):
    with socket.socket() as before:
        before.bind(("127.0.0.1", 0))
        first, *_ = start(before.getsockname()[1])
        with pytest.raises(subprocess.TimeoutExpired):
            first.wait(5)
    until(first, "round 1/")


@on_own_hosts
def test_processes_on_hosts_of_their_own_find_each_other(tmp_path):
    job = run("xgboost", tmp_path, "--rounds", "2", workers=1, isolated=True)
    assert job.figures(2)[0] < job.figures(1)[0]
