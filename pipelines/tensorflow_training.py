"""The TensorFlow training pipeline."""

from functools import partial
from typing import Any

from trireme.parameters import OF_A_SWEEP, pipeline
from trireme.pipelines import training

check = partial(training.check, "tensorflow")
trainings = partial(training.trainings, "tensorflow")

ENTRYPOINT = "trainers/tensorflow_classifier.py"


@pipeline(
    "tensorflow-training",
    "TensorFlow training",
    without=(
        *("framework", "processes_per_worker", "warm_start", "force", "model_factory", "deploy"),
        *OF_A_SWEEP,
    ),
    entrypoint=(ENTRYPOINT, "The training program, a .py file in the repository."),
    workers="Replicas of the role worker, at most 999. -1: one, but two for the reference trainer.",
    parameter_servers="0: the workers train by AllReduce. 1 or more: PS/Worker mode, with a chief "
    "that coordinates.",
    job='Further fields of the training job, a JSON object, such as {"gpu": 1} or {"retries": 3}; '
    "'trireme job schema' lists them.",
)
def tensorflow_training(given: dict[str, Any]) -> None:
    """Trains a TensorFlow model by AllReduce or with parameter servers, and keeps a good one."""
    training.add_steps("tensorflow-training", "tensorflow", given)
