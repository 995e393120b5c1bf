"""The PyTorch training pipeline."""

from functools import partial
from typing import Any

from trireme.parameters import OF_A_SWEEP, pipeline
from trireme.pipelines import training
from trireme.steps import ENTRYPOINT

check = partial(training.check, "pytorch")
trainings = partial(training.trainings, "pytorch")


@pipeline(
    "pytorch-training",
    "PyTorch training",
    without=("framework", "parameter_servers", "warm_start", "force", "deploy", *OF_A_SWEEP),
    entrypoint=(ENTRYPOINT, "The training program, a .py file in the repository."),
    workers="Replicas besides the master, at most 999. -1: none, but one for the reference "
    "trainers.",
    processes_per_worker="Processes in each replica, the master included.",
    model_factory="module:callable that builds the network, needed if only weights are saved.",
)
def pytorch_training(given: dict[str, Any]) -> None:
    """Trains a PyTorch model on one or many processes and keeps it if it is good enough."""
    training.add_steps("pytorch-training", "pytorch", given)
