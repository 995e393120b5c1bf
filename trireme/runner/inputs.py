"""Inputs of a training besides its code and data, in a form that can be compared."""

import hashlib
import json
from pathlib import Path

from trireme.job.job import TrainingJob
from trireme.tracking.environment import CREDENTIALS, VARIABLES

TAG = "training.inputs"
"""The tag of a run, and of a model's version, that holds this."""

LIMIT = 5000  # characters of a tag that every MLflow keeps

RUN_FIELDS = {
    "name",
    "images",
    "code_dir",
    "data_dir",
    "checkpoint_dir",
    "model_dir",
    "packages",
    "secret_env",
    "time_limit",
    "queued_limit",
    "starting_limit",
}
"""Fields of a job that say where or when it runs, and change nothing about the model."""


def inputs_of(job: TrainingJob) -> str:
    """Returns the fields of a job that a model depends on, as JSON that can be compared."""
    fields = job.model_dump(mode="json", exclude=RUN_FIELDS, exclude_defaults=True)
    reserved = (*VARIABLES, *CREDENTIALS, WARM_START, BASE_MODEL)
    fields["env"] = {name: value for name, value in job.env.items() if name not in reserved}
    secret = {name: source for name, source in job.secret_env.items() if name not in reserved}
    fields |= {"secret_env": secret} if secret else {}
    fields |= {"packages": Path(job.packages).name} if job.packages else {}  # a hash
    return short(json.dumps(fields, sort_keys=True))


def short(text: str) -> str:
    """Returns a text as a tag can hold it: where it is too long, as JSON with its hash."""
    if len(text) <= LIMIT:
        return text
    return json.dumps({"sha256": hashlib.sha256(text.encode()).hexdigest()})


WARM_START = "WARM_START_DIR"
"""The variable that names the champion's MODEL_DIR, where training starts from it."""

BASE_MODEL = "BASE_MODEL_DIR"
"""The variable that names the run's base model, where it has one."""
