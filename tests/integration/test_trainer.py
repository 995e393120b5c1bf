"""The reference trainer by itself, as somebody who copies it would run it."""

import os
import subprocess
import sys
from pathlib import Path

import pytest
import torch

from components.dataset.staging import stage

TRAINER = (
    Path(__file__).resolve().parents[2] / "components" / "trainers" / "pytorch" / "classifier.py"
)

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def digits(tmp_path_factory):
    return Path(stage("builtin://digits", tmp_path_factory.mktemp("digits") / "data").path)


@pytest.fixture
def start(digits, tmp_path):
    """Starts the trainer as one process, in a folder with nothing of ours on the path."""

    def start(name, *arguments):
        kept = {key: value for key, value in os.environ.items() if not key.startswith("MLFLOW_")}
        environment = kept | {
            "DATA_DIR": str(digits),
            "CHECKPOINT_DIR": str(tmp_path / name / "checkpoints"),
            "MODEL_DIR": str(tmp_path / name / "model"),
            "OMP_NUM_THREADS": "1",
        }
        return subprocess.Popen(
            [sys.executable, str(TRAINER), *arguments],
            env=environment,
            cwd=tmp_path,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )

    return start


def weights(directory):
    return torch.load(directory / "model" / "model.pt", weights_only=True)["state_dict"]


def test_training_that_was_killed_ends_with_the_same_weights(start, tmp_path):
    whole = start("whole", "--epochs", "4")
    printed, _ = whole.communicate(timeout=120)
    assert whole.returncode == 0, printed

    killed = start("killed", "--epochs", "4")
    for line in killed.stdout:
        if line.startswith("epoch 2/4"):
            killed.kill()
            break
    killed.communicate()
    assert not (tmp_path / "killed" / "model").exists()

    resumed = start("killed", "--epochs", "4")
    printed, _ = resumed.communicate(timeout=120)
    assert resumed.returncode == 0, printed
    assert "going on after epoch" in printed
    assert "epoch 1/4" not in printed

    expected = weights(tmp_path / "whole")
    for name, value in weights(tmp_path / "killed").items():
        assert torch.equal(value, expected[name]), name
