"""The reference classifier of PyTorch: however it is stopped, it goes on as if it had not been."""

import random
import re
import signal

import numpy as np
import pytest
import torch
from stores import free_port

import trainers

SAMPLES, EPOCHS = 397, 6  # 397: the last batch of an epoch has 5 samples, not 8
ARGUMENTS = ("--epochs", str(EPOCHS), "--batch-size", "4", "--width", "4")

TOLERANCE = 1e-5

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A folder with a dataset, in which each training has one of its own."""
    folder = tmp_path_factory.mktemp("classifier")
    draw = np.random.default_rng(0)
    x = draw.random((SAMPLES, 1, 8, 8)).astype(np.float32)
    np.savez(folder / "train.npz", x=x, y=draw.integers(0, 10, SAMPLES))
    return folder


@pytest.fixture
def start(folder):
    """Starts a training, as a rule of two processes, that can be looked up by its name."""
    started = []

    def start(name, *arguments, world_size=2):
        data = {"DATA_DIR": str(folder)}
        given = (folder / name, free_port(), world_size, *ARGUMENTS, *arguments)
        training = trainers.start("pytorch_classifier", *given, **data)
        started.append(training)
        return training

    yield start
    for training in started:
        training.end()


def figures(training):
    """Returns what was printed of each epoch, but for how long it took."""
    said = re.findall(r"^epoch (\d+)/\d+ (loss .*) samples/s", training.output(), re.MULTILINE)
    return {int(epoch): text for epoch, text in said}


def weights(training):
    file = training.directory / "model" / "model.pt"
    return torch.load(file, weights_only=True)["state_dict"]


def test_processes_compute_what_one_does(start):
    """Over an epoch of 20 steps, the last with 17 samples in place of 20."""
    single = start("single", "--epochs", "1", "--batch-size", "20", world_size=0)
    assert single.end() == [0], single.output()
    for world_size in (2, 4):
        each = ("--epochs", "1", "--batch-size", str(20 // world_size))
        training = start(f"of-{world_size}", *each, world_size=world_size)
        assert set(training.end()) == {0}, training.output()
        loss, expected = float(training.losses()[1]), float(single.losses()[1])
        assert loss == pytest.approx(expected, rel=TOLERANCE)
        final = weights(single)
        for name, value in weights(training).items():
            assert (value - final[name]).norm() <= TOLERANCE * final[name].norm(), name


def test_training_that_was_killed_and_reclaimed_ends_as_if_it_had_not_been(start):
    whole = start("whole")
    assert whole.end() == [0, 0], whole.output()
    assert list(figures(whole)) == list(range(1, EPOCHS + 1))

    killed = start("stopped")
    killed.reach(2)
    killed.signal(random.randrange(2))
    assert all(killed.end())
    said = figures(killed)

    reclaimed = start("stopped")
    reclaimed.reach(4)
    reclaimed.signal(1, signal.SIGTERM)
    assert reclaimed.end() == [128 + signal.SIGTERM] * 2, reclaimed.output()
    assert 1 not in figures(reclaimed)
    said |= figures(reclaimed)
    assert not (reclaimed.directory / "model").exists()
    steps = [
        int(*re.findall(r"stopped after step (\d+)", reclaimed.output(each))) for each in (0, 1)
    ]
    checkpoints = sorted((reclaimed.directory / "checkpoints").iterdir())
    assert {f"step-{step:08}.pt" for step in steps} == {checkpoints[-1].name}

    resumed = start("stopped")
    assert resumed.end() == [0, 0], resumed.output()
    epoch, batches = divmod(steps[0], -(-SAMPLES // 8))
    assert f"resuming after epoch {epoch} and {8 * batches} samples" in resumed.output()
    assert said | figures(resumed) == figures(whole)
    expected = weights(whole)
    for name, value in weights(resumed).items():
        assert torch.equal(value, expected[name]), name
