"""The variables that lead a step and its training program to their MLflow run.

On Kubeflow they are in the step's environment when it starts. Here ``trireme run`` loads MLflow
while the first steps are working already, so it hands them over in a file as soon as it has
them.
"""

import json
import os
import time
from pathlib import Path
from urllib.parse import urlsplit

from components.errors import InputError, TrackingUnavailable

TRACKER = "TRIREME_TRACKER"
"""Names the file that the variables appear in, where somebody else keeps this step's record."""

VARIABLES = ("MLFLOW_TRACKING_URI", "MLFLOW_EXPERIMENT_ID", "MLFLOW_RUN_ID")

_WHOLE = "pipeline_run"

WAIT = 180.0  # seconds to wait for the file
POLL = 0.02  # seconds between two looks


def variables() -> dict[str, str]:
    """Returns the variables, or none where nothing is tracked.

    A tracking URI that holds a password is left out, because these end up in a manifest; the
    training program finds it in the environment it inherits.

    Raises:
        InputError: MLflow refused the run.
        TrackingUnavailable: MLflow could not be opened in time.
    """
    if TRACKER in os.environ:
        return {name: value for name, value in _announced().items() if name in VARIABLES}
    return _public({name: os.environ[name] for name in VARIABLES if name in os.environ})


def pipeline_run() -> str:
    """Returns the id of the whole pipeline's run, of which that of this step is a part.

    Raises:
        TriremeError: MLflow could not be opened, or does not answer.
    """
    if TRACKER in os.environ:
        return _announced()[_WHOLE]
    from components.tracking.sync import Run

    return Run.from_environment().pipeline_id


def _announced() -> dict[str, str]:
    file = Path(os.environ[TRACKER])
    limit = time.monotonic() + WAIT
    while not file.exists():
        if time.monotonic() > limit:
            raise TrackingUnavailable(f"MLflow did not open a run within {WAIT:.0f} s")
        time.sleep(POLL)
    found: dict[str, str] = json.loads(file.read_text())
    if "error" in found:
        raise InputError(found["error"])
    return found


def announce(file: Path, content: dict[str, str], pipeline_run: str = "") -> None:
    """Hands the variables, or an ``error``, to the step that waits for them."""
    file.parent.mkdir(parents=True, exist_ok=True)
    partial = file.with_suffix(".partial")
    partial.write_text(json.dumps(_public(content) | {_WHOLE: pipeline_run}))
    partial.rename(file)


def _public(variables: dict[str, str]) -> dict[str, str]:
    if "@" in urlsplit(variables.get("MLFLOW_TRACKING_URI", "")).netloc:
        return {name: value for name, value in variables.items() if name != "MLFLOW_TRACKING_URI"}
    return variables
