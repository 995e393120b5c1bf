"""The variables that lead a step and its training program to their MLflow run.

On Kubeflow they are in the step's environment when it starts. Here ``trireme run`` loads MLflow
while the first steps are working already, so it hands them over in a file as soon as it has
them.
"""

import json
import os
import time
from pathlib import Path
from urllib.parse import unquote, urlsplit

from trireme.errors import TriremeError
from trireme.files.home import TRACKER
from trireme.files.whole_file import write_whole
from trireme.text.say import say

VARIABLES = (
    *("MLFLOW_TRACKING_URI", "MLFLOW_EXPERIMENT_ID", "MLFLOW_RUN_ID"),
    "MLFLOW_EXPERIMENT_NAME",  # for programs that call set_experiment with it, as ultralytics
)

SECRET = "trireme-mlflow"
"""The Secret of a namespace with MLFLOW_TRACKING_URI and what else leads to the server."""

CREDENTIALS = (
    "MLFLOW_TRACKING_USERNAME",
    "MLFLOW_TRACKING_PASSWORD",
    "MLFLOW_TRACKING_TOKEN",
    "AWS_ACCESS_KEY_ID",
    "AWS_SECRET_ACCESS_KEY",
    "MLFLOW_S3_ENDPOINT_URL",
)
"""Keys of it that a training program needs, too, where the server or its store asks for them."""

PLUGIN, PLUGINS_SECRET = "KFP_MLFLOW_CONFIG", "kfp-mlflow-credentials"
"""What Kubeflow Pipelines' MLflow plugin says of itself to a step, and its Secret:
https://github.com/kubeflow/pipelines/blob/2.17.0/backend/src/common/plugins/mlflow/config.go"""

_PLUGINS_KEYS = {
    "usernameKey": "MLFLOW_TRACKING_USERNAME",
    "passwordKey": "MLFLOW_TRACKING_PASSWORD",
    "tokenKey": "MLFLOW_TRACKING_TOKEN",
}

_WHOLE = "pipeline_run"

LONG = 10.0  # seconds of waiting for the file after which it is said
POLL = 0.02  # seconds between two looks


def separate_login() -> None:
    """Takes user and password out of a server's URI, which MLflow and programs print, for good.

    MLflow has variables of their own for them.
    """
    try:
        parts = urlsplit(os.environ.get("MLFLOW_TRACKING_URI", ""))
    except ValueError:  # which who uses it says
        return
    login, at, address = parts.netloc.rpartition("@")
    if not at or parts.scheme not in ("http", "https"):
        return
    user, _, password = login.partition(":")
    os.environ["MLFLOW_TRACKING_URI"] = parts._replace(netloc=address).geturl()
    os.environ.setdefault("MLFLOW_TRACKING_USERNAME", unquote(user))
    os.environ.setdefault("MLFLOW_TRACKING_PASSWORD", unquote(password))


def variables() -> dict[str, str]:
    """Returns the variables, or none where nothing is tracked; no URI with a password."""
    if TRACKER in os.environ:
        return announced(Path(os.environ[TRACKER]))
    return _public({name: os.environ[name] for name in VARIABLES if name in os.environ})


def credentials() -> dict[str, str]:
    """Returns where pods find the secret variables: names and keys of Secrets, NAME/KEY."""
    if TRACKER in os.environ or "MLFLOW_TRACKING_URI" not in os.environ:
        return {}
    if PLUGIN in os.environ:
        keys = json.loads(os.environ[PLUGIN]).get("credentialSecretRef") or {}
        return {
            variable: f"{PLUGINS_SECRET}/{keys[name]}"
            for name, variable in _PLUGINS_KEYS.items()
            if keys.get(name) and variable in os.environ
        }
    names = [name for name in ("MLFLOW_TRACKING_URI", *CREDENTIALS) if name not in variables()]
    return {name: f"{SECRET}/{name}" for name in names if name in os.environ}


def announced_pipeline_run() -> str:
    """Returns the id of the whole pipeline's run; empty where ``trireme run`` announces none."""
    return _found(Path(os.environ[TRACKER]))[_WHOLE] if TRACKER in os.environ else ""


def announced(file: Path) -> dict[str, str]:
    """Waits for the file that leads a step to its run, and returns the variables in it.

    It waits as long as it takes: ``trireme run``, without which no step goes on, may be bringing a
    large model of the step before to MLflow, and says here when that is away or refuses.
    """
    return {name: value for name, value in _found(file).items() if name in VARIABLES}


def _found(file: Path) -> dict[str, str]:
    began, is_told = time.monotonic(), False
    while not file.exists():
        if not file.parent.exists():
            raise TriremeError(f"MLflow's run of this step cannot be written to {file}")
        if time.monotonic() - began > LONG and not is_told:
            say("waits until MLflow opens this step's run")
            is_told = True
        time.sleep(POLL)
    run: dict[str, str] = json.loads(file.read_text())
    if "error" in run:
        refused = TriremeError(run["error"])
        refused.exit_status = int(run["exit_status"])
        raise refused
    return run


def announce(file: Path, content: dict[str, str], pipeline_run: str = "") -> None:
    """Hands the variables, or an ``error``, to the step that waits for them."""
    file.parent.mkdir(parents=True, exist_ok=True)
    write_whole(file, json.dumps(_public(content) | {_WHOLE: pipeline_run}))


def _public(variables: dict[str, str]) -> dict[str, str]:
    if "@" in urlsplit(variables.get("MLFLOW_TRACKING_URI", "")).netloc:
        return {name: value for name, value in variables.items() if name != "MLFLOW_TRACKING_URI"}
    return variables
