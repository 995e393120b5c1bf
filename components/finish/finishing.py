"""End a run however it went: its record in MLflow, its jobs on the cluster, and word of it."""

import os
from collections.abc import Callable
from pathlib import Path

from components import secrets
from components.errors import TriremeError
from components.finish import outcome, webhook
from components.home import in_a_pod
from components.tracking import journal, opening
from components.tracking.environment import TRACKER

STATES = {"SUCCEEDED": "FINISHED", "CANCELLED": "KILLED", "CANCELED": "KILLED"}
"""kfp's states of a run that are not a failure, and what MLflow calls them."""


def finish(
    state: str, message: str, pipeline: str, run: str, webhook_secret: str, workspace: Path
) -> None:
    """Ends a run: afterwards its record is closed, nothing of it runs, and who asked was told.

    That one of these fails is printed, and makes no failure of a run that was none.

    Args:
        state: How the other steps have ended, as kfp has it, such as SUCCEEDED.
        message: What kfp says of a failure.
        pipeline: The pipeline's name.
        run: Id of the run.
        webhook_secret: Name of the Secret that holds the ``url`` to tell; empty for none.
        workspace: The run workspace.
    """
    status = STATES.get(state, "FAILED")
    if in_a_pod():
        _attempt(lambda: _stop_jobs(run))
    if TRACKER not in os.environ and "MLFLOW_RUN_ID" in os.environ:
        _attempt(lambda: _close_record(workspace, status))
    if name := secrets.given(webhook_secret, "webhook"):
        _attempt(lambda: _tell(name, workspace, pipeline, run, status, message))


def _attempt(work: Callable[[], None]) -> None:
    try:
        work()
    except TriremeError as error:
        print(f"warning: {error}", flush=True)
        journal.log_tags({"finish": str(error)})


def _tell(secret: str, workspace: Path, pipeline: str, run: str, status: str, message: str) -> None:
    told = outcome.read(workspace, pipeline, run, status, message)
    webhook.send(secret, told)
    journal.summarize(f"told the webhook: {told.sentence}")


def _stop_jobs(run: str) -> None:
    """Deletes the run's training jobs that still run: their step was killed, or timed out."""
    from components.training.cluster import jobs
    from components.training.cluster.connection import Cluster

    for name in jobs.delete_running(Cluster(), f"train-{run}"):
        print(f"deleted the training job {name}, which was still there", flush=True)


def _close_record(workspace: Path, status: str) -> None:
    """Brings what could not be recorded earlier to MLflow, and ends the run there."""
    from components.tracking.sync import Run

    own = Run.from_environment()
    for step in journal.steps(workspace):
        if step != "finish":
            _complete(step, workspace, own.pipeline_id)
    if own.pipeline_id != own.step_id:
        opening.end(own.pipeline_id, status)


def _complete(step: str, workspace: Path, pipeline_id: str) -> None:
    """Makes the record of a step whole that MLflow was away for."""
    from components.tracking.sync import Run, sync

    named = journal.run_path(workspace, step)
    if opening.is_ours():
        whole = opening.Opened(os.environ["MLFLOW_EXPERIMENT_ID"], pipeline_id)
        run_id = opening.step_run(step, workspace, whole)
    elif named.exists():
        run_id = named.read_text()
    else:
        return
    sync(workspace, step, Run(run_id, pipeline_id))
    if opening.is_ours():
        failed = any("error" in record for record in journal.read(workspace, step))
        opening.end(run_id, "FAILED" if failed else "FINISHED")
