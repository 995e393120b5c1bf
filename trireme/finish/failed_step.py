"""End a run in the step that has failed, where no other comes after it: on Kubeflow Pipelines.

What ``finish`` does at the end of a run that has succeeded is done there for one that has failed.
Steps that run beside the one that failed go on, and bring their records to MLflow themselves.
"""

import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from trireme.credentials.secrets import DEFAULTS
from trireme.errors import Cancelled, PodLost, TriremeError, first_line
from trireme.files.home import in_a_pod
from trireme.finish.finish import PATIENCE, finish
from trireme.last_words import ENDS_RUN
from trireme.text.say import say
from trireme.tracking.runs import PAGE

RUN = "pipeline/runid"
"""The label of a pod of Kubeflow Pipelines that has the run's id."""


@contextmanager
def ending_run(step: str, workspace: Path) -> Iterator[None]:
    """Ends the run if the step in it fails, and is not tried again."""
    if ENDS_RUN not in os.environ or not in_a_pod():
        yield
        return
    told = _told(workspace)
    with suppress(FileNotFoundError):
        if told.read_text() == step:  # which is resumed
            told.unlink()
    try:
        yield
    except (Exception, SystemExit) as error:
        status = error.code if isinstance(error, SystemExit) else 1
        if not isinstance(error, PodLost) and status not in (None, 0, Cancelled.exit_status):
            try:
                _end(step, workspace, error)
            except Exception as fault:  # as of a full disk; what a person needs is the step's error
                say(f"warning: the run is not ended by this step: {_in_words(fault)}")
        raise


def _end(step: str, workspace: Path, error: BaseException) -> None:
    from trireme.kubernetes import owner
    from trireme.kubernetes.connection import Cluster

    run = ""
    try:
        pod = owner.this_pod(Cluster(patience=PATIENCE))
        if owner.tries_failures_again(pod):
            return
        run = (pod["metadata"].get("labels") or {}).get(RUN, "")
    except TriremeError as refused:
        say(f"warning: jobs of the run are not looked for: {first_line(refused)}")
    secret = DEFAULTS["webhook"]  # which is mounted, whatever it is called
    try:
        with _told(workspace).open("x") as file:
            file.write(step)
    except FileExistsError:  # by another step that has failed, beside this one
        secret = ""
    message = "" if isinstance(error, SystemExit) else f"step {step} failed: {_in_words(error)}"
    finish("FAILED", message, os.environ[ENDS_RUN], run, secret, workspace, workspace / PAGE, step)


def _told(workspace: Path) -> Path:
    """Returns the file that names the step which has told the webhook that the run has failed."""
    return workspace / "webhook-told"


def _in_words(error: BaseException) -> str:
    return f"{type(error).__name__}: {error}".partition("\n")[0]
