"""The smallest jobs of the frameworks, and how one is made or refused."""

from typing import Any

import pytest

from trireme.errors import InputError
from trireme.job.job import TrainingJob

PYTORCH: dict[str, Any] = {"image": "example.org/team/trainer:1.2", "entrypoint": "train.py"}
TENSORFLOW = PYTORCH | {"framework": "tensorflow"}
MPI = PYTORCH | {"framework": "mpi"}
CLAIM = {"claim": "workspace"}


def job(**changes):
    return TrainingJob.create(**PYTORCH | changes)


def refusal(fields):
    with pytest.raises(InputError) as caught:
        TrainingJob.create(**fields)
    message = str(caught.value)
    assert "\n" not in message
    assert caught.value.exit_status == 2
    return message
