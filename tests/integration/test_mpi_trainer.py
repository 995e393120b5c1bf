"""The trainer over MPI, as an MPIJob: two processes compute what one does, also after a kill."""

import os
import re
import shutil
import signal
from pathlib import Path

import numpy as np
import pytest
import torch
from line_by_line import line_by_line

import trainers
from trireme.job.job import TrainingJob
from trireme.manifests import render
from trireme.runner.local import runner

SAMPLES = 37  # in one batch of 64: of two processes one has 32 and the other 5
STEPS = 20  # each an epoch, so that the loss of every one of them is printed
TOLERANCE = 1e-5

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(not shutil.which("mpirun"), reason="needs OpenMPI"),
]


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A folder with a dataset, in which each training has one of its own."""
    folder = tmp_path_factory.mktemp("mpi")
    draw = np.random.default_rng(0)
    x = draw.random((SAMPLES, 1, 8, 8)).astype(np.float32)
    np.savez(folder / "train.npz", x=x, y=draw.integers(0, 10, SAMPLES))
    return folder


def arguments(each):
    return ["--epochs", str(STEPS), "--batch-size", str(each)]


@pytest.fixture(scope="module")
def train(folder):
    """Trains with two processes, as a job; returns what was printed as the loss of each step."""

    def train(name, listen=lambda line: None, **more):
        job = TrainingJob.create(
            name=name,
            framework="mpi",
            entrypoint="mpi_classifier.py",
            args=arguments(32),
            workers=2,
            code_dir=str(trainers.FOLDER),
            data_dir=str(folder),
            checkpoint_dir=str(folder / name / "checkpoints"),
            model_dir=str(folder / name / "model"),
            time_limit=240,
            **more,
        )
        said = []

        def on_line(_, line):
            said.append(line)
            listen(line)

        runner.run(render(job), folder / name / "logs", line_by_line(on_line))
        return losses("\n".join(said))

    return train


@pytest.fixture(scope="module")
def whole(train):
    return train("whole")


def losses(text):
    found = re.findall(r"^epoch (\d+)/\d+ loss (\S+)", text, re.MULTILINE)
    return {int(epoch): loss for epoch, loss in found}


def weights(directory):
    return torch.load(directory / "model" / "model.pt", weights_only=True)["state_dict"]


def test_two_processes_compute_what_one_does(folder, whole):
    data = {"DATA_DIR": str(folder)}
    single = trainers.start("pytorch_classifier", folder / "single", 0, 0, *arguments(64), **data)
    assert single.end() == [0], single.output()
    by_one = losses(single.output())
    assert list(whole) == list(by_one) == list(range(1, STEPS + 1))
    assert float(by_one[STEPS]) < 0.9 * float(by_one[1])
    for step, loss in whole.items():
        assert float(loss) == pytest.approx(float(by_one[step]), rel=TOLERANCE), step
    final = weights(folder / "single")
    for name, value in weights(folder / "whole").items():
        assert (value - final[name]).norm() <= TOLERANCE * final[name].norm(), name


def test_training_that_was_killed_and_reclaimed_goes_on_as_if_it_had_not_been(folder, train, whole):
    signals = {7: signal.SIGKILL, 13: signal.SIGTERM}
    said = []

    def send(line):
        """Sends each signal to the second process, once; the line of its epoch may be lost."""
        said.append(line)
        epoch = re.match(r"epoch (\d+)/", line)
        for first in list(signals):
            if epoch and int(epoch[1]) >= first:
                for pid in ranks(folder / "stopped" / "checkpoints", 1):
                    os.kill(pid, signals.pop(first))
                return

    again = train("stopped", send, retries=2)
    assert signals == {}
    assert sum(line.startswith("resuming after epoch") for line in said) == 2
    stops = {line for line in said if line.startswith("stopped after step")}
    assert len(stops) == 1, stops
    assert any(re.search(r"Exit code: +143$", line) for line in said), said
    assert again == whole
    final = weights(folder / "whole")
    for name, value in weights(folder / "stopped").items():
        assert torch.equal(value, final[name]), name


def ranks(checkpoints: Path, number: int):
    """Returns the processes that have this rank, among those with this CHECKPOINT_DIR."""
    wanted = {f"CHECKPOINT_DIR={checkpoints}", f"OMPI_COMM_WORLD_RANK={number}"}
    for entry in Path("/proc").glob("[0-9]*"):
        try:
            if wanted <= set((entry / "environ").read_text(errors="replace").split("\0")):
                yield int(entry.name)
        except OSError:
            continue
