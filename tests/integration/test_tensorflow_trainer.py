"""The TensorFlow trainer: however many replicas train, they compute what one process does."""

import random
import shutil
import signal
from pathlib import Path

import numpy as np
import pytest
from tensorflow_trainers import Server, Training, free_addresses

SAMPLES = 37  # in one batch of 64: of two replicas one has 32 and the other 5
STEPS = 20  # each an epoch, so that the loss of every one of them is printed
WHOLE = ("--epochs", str(STEPS), "--batch-size", "64")
HALF = ("--epochs", str(STEPS), "--batch-size", "32")
TOLERANCE = 1e-5

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def server():
    server = Server()
    yield server
    server.close()


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A folder with a dataset, in which each training has one of its own."""
    folder = tmp_path_factory.mktemp("classifier")
    draw = np.random.default_rng(0)
    x = draw.random((SAMPLES, 1, 8, 8)).astype(np.float32)
    np.savez(folder / "train.npz", x=x, y=draw.integers(0, 10, SAMPLES))
    return folder


@pytest.fixture(scope="module")
def make(server, folder):
    """Makes a training that can be looked up by its name."""
    return lambda name, data=folder, cpus=1, **roles: Training(
        server, folder / name, data, roles, cpus
    )


@pytest.fixture(scope="module")
def single(make):
    """What one process computes."""
    training = make("single").start(*WHOLE, "--strategy", "single")
    assert training.end() == [0], training.output()
    losses = training.losses()
    assert list(losses) == list(range(1, STEPS + 1))
    assert float(losses[STEPS]) < 0.9 * float(losses[1])
    return training


@pytest.fixture(scope="module")
def two_workers(make):
    """What two workers compute."""
    training = make("two-workers", worker=2).start(*HALF, "--communication", "nccl")
    assert training.end() == [0, 0], training.output()
    return training


def assert_same(training, other):
    """Compares the loss of each step, and the final parameters."""
    assert training.losses().keys() == other.losses().keys()
    for step, loss in training.losses().items():
        assert float(loss) == pytest.approx(float(other.losses()[step]), rel=TOLERANCE), step
    for value, theirs in zip(training.weights(), other.weights(), strict=True):
        assert np.linalg.norm(value - theirs) <= TOLERANCE * np.linalg.norm(theirs)


def assert_same_bits(training, other):
    losses = other.losses()
    assert all(losses[step] == loss for step, loss in training.losses().items())
    assert all(map(np.array_equal, training.weights(), other.weights()))


def test_one_worker_with_two_devices_computes_what_one_process_does(make, single):
    training = make("mirrored", cpus=2, worker=1)
    devices = ("--devices", "CPU:0", "CPU:1", "--cross-device-ops", "hierarchical_copy")
    training.start(*HALF, "--strategy", "multi_worker", *devices)
    assert training.end() == [0], training.output()
    assert_same(training, single)


def test_two_workers_compute_what_one_process_does(two_workers, single):
    assert_same(two_workers, single)
    assert two_workers.losses(1) == {}  # only the first tells
    for index in range(2):
        assert "no GPU: ring" in two_workers.output(index)
    assert [path.name for path in (two_workers.directory / "model").iterdir()] == ["model"]
    assert list((two_workers.directory / "tmp").iterdir()) == []


def test_a_parameter_server_with_one_worker_computes_what_one_process_does(make, single):
    training = make("one-served", chief=1, ps=1, worker=1).start(*WHOLE)
    chief, *others = training.replicas
    assert chief.end() == 0, training.output()
    assert_same(training, single)
    for replica in others:
        replica.signal(signal.SIGTERM)
        assert replica.end() == -signal.SIGTERM


def test_parameter_servers_lose_a_worker_and_their_chief_and_go_on(make):
    epochs = 12
    arguments = ("--epochs", str(epochs), "--batch-size", "2")
    training = make("served", chief=1, ps=1, worker=2).start(*arguments)
    chief, _, _, lost = training.replicas
    chief.reach("epoch 2/")
    lost.signal()
    assert lost.end() == -signal.SIGKILL
    training.replicas[3] = training.start_one("worker", 1, *arguments)
    chief.reach("epoch 7/")
    chief.signal(signal.SIGTERM)
    assert chief.end() == 128 + signal.SIGTERM, training.output()

    training.replicas[0] = training.start_one("chief", 0, *arguments)
    assert training.replicas[0].end() == 0, training.output()
    assert "resuming after epoch" in training.output()
    losses = training.losses()
    assert list(losses) == list(range(1, epochs + 1))
    assert float(losses[epochs]) < 0.5 * float(losses[1])
    for index, replica in enumerate(training.replicas[1:], 1):
        assert replica.is_alive, training.output(index)
        assert training.losses(index) == {}
        replica.signal(signal.SIGTERM)
        replica.end()


def test_workers_that_were_killed_or_reclaimed_go_on_as_if_they_had_not_been(make, two_workers):
    training, lost = make("killed", worker=2).start(*HALF), random.randrange(2)
    training.replicas[0].reach(f"epoch {random.randrange(4, 9)}/")
    training.replicas[lost].signal()
    statuses = training.end()
    assert (statuses.pop(lost), statuses) == (-signal.SIGKILL, [138]), training.output(1 - lost)
    assert "another replica was lost" in training.output(1 - lost)
    assert not (training.directory / "model").exists()

    training.start(*HALF).replicas[0].reach(f"epoch {random.randrange(11, 16)}/")
    training.replicas[lost].signal(signal.SIGTERM)
    assert training.end() == [128 + signal.SIGTERM] * 2, training.output()

    assert training.start(*HALF).end() == [0, 0], training.output()
    assert training.output().count("resuming after epoch") == 2
    assert_same_bits(training, two_workers)


def test_a_worker_that_sees_an_older_checkpoint_takes_that_of_the_first(make):
    training = make("stale", worker=2).start("--epochs", "3")
    assert training.end() == [0, 0], training.output()
    older = Path(shutil.copytree(training.directory / "checkpoints", training.directory / "older"))
    (older / "checkpoint").write_text('model_checkpoint_path: "ckpt-2"\n')

    training.cluster = free_addresses(training.roles)
    places = ({}, {"CHECKPOINT_DIR": str(older)})
    training.replicas = [
        training.start_one("worker", index, "--epochs", "4", **place)
        for index, place in enumerate(places)
    ]
    assert training.end() == [0, 0], training.output(1)
    assert "resuming after epoch 3 " in training.output()


def test_a_checkpoint_that_was_cut_off_is_not_loaded(make, single):
    training = make("cut-off")
    written = single.directory / "checkpoints"
    to = Path(shutil.copytree(written, training.directory / "checkpoints"))
    # TensorFlow writes data, then the index, then that they are there.
    named = (to / "checkpoint").read_text().replace(f'path: "ckpt-{STEPS}"', 'path: "ckpt-19"', 1)
    (to / "checkpoint").write_text(named)
    (to / f"ckpt-{STEPS}.index").unlink()
    (data,) = to.glob(f"ckpt-{STEPS}.data-*")
    data.write_bytes(data.read_bytes()[:1000])

    training.start(*WHOLE, "--strategy", "single")
    assert training.end() == [0], training.output()
    assert "resuming after epoch 19 and 0 samples" in training.output()
    assert_same_bits(training, single)
