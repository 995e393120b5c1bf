"""End a run on a cluster however it went: its record in MLflow, its jobs, and word of it.

Of a run here this draws the picture and sends word; ``targets/local/running.py`` decides how it has
ended, and records it.
"""

import math
import os
import traceback
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from trireme.credentials import secrets
from trireme.errors import StepFailed, TriremeError, first_line
from trireme.files.home import TRACKER, in_a_pod
from trireme.finish import outcome, webhook
from trireme.last_words import LAST_STEP
from trireme.tracking import journal, on_kubeflow, runs
from trireme.tracking.client import hurry
from trireme.tracking.sync import StepRun, pipeline_run, sync

PATIENCE = 15.0  # seconds that an API server may be away; the run's record and webhook wait

STATES = {
    "SUCCEEDED": "FINISHED",  # our engine's and Argo's word
    "COMPLETE": "FINISHED",
    "CACHED": "FINISHED",
    "FAILED": "FAILED",
    "CANCELLED": "KILLED",
    "CANCELED": "KILLED",
}
"""States of a run that say how it has ended, and what MLflow calls them."""


def finish(
    state: str,
    message: str,
    pipeline: str,
    run: str,
    webhook_secret: str,
    workspace: Path,
    report: Path,
    step: str = LAST_STEP,
) -> None:
    """Ends a run: afterwards its record is closed, nothing of it runs, and who asked was told.

    That one of these fails is printed, and makes no failure of a run that was none.

    Args:
        state: How the other steps have ended, as kfp has it, such as COMPLETE. Kubeflow says
            RUNNING where the last of them was skipped, and where one or a driver was killed; then
            what the steps have recorded decides, unless somebody has stopped the run.
        report: Where its picture goes.
        step: The step that does so: the last one, or one that has failed where none comes after.
    """
    if in_a_pod():
        if step == LAST_STEP or (run and not _others_run(workspace, step)):
            _attempt(lambda: _stop_jobs(run))
    else:
        run = workspace.parent.name  # as "trireme list" has it
    status = STATES.get(state) or _as_steps_tell(workspace)
    if in_a_pod() and (status == "FAILED" or state not in STATES) and _is_stopped():
        status = "KILLED"
    _attempt(lambda: _draw(workspace, pipeline, run, status, report))
    is_recorded_here = TRACKER not in os.environ and "MLFLOW_RUN_ID" in os.environ
    if is_recorded_here:
        _attempt(lambda: _close_record(workspace, status, step))
    if name := secrets.given(webhook_secret, "webhook"):
        _attempt(lambda: _tell(name, workspace, pipeline, run, status, message))
    if is_recorded_here:
        _attempt(lambda: _conclude(workspace, pipeline, run, status, message, report))
    if in_a_pod():  # here whoever runs it looks into the workspace
        _attempt(lambda: _leave_outcome(workspace, status))


def _as_steps_tell(workspace: Path) -> str:
    ends = {
        journal.end_of(workspace, step) for step in journal.steps(workspace) if step != LAST_STEP
    }
    return next((status for status in ("FAILED", "KILLED") if status in ends), "FINISHED")


def _others_run(workspace: Path, step: str) -> bool:
    """Tells whether steps run beside one that has failed, or were killed."""
    return any(
        not journal.has_ended(workspace, each) for each in journal.steps(workspace) if each != step
    )


def _is_stopped() -> bool:
    """Tells whether somebody has stopped the run, which is a failure to Argo's exit handler.

    Where its Workflow may not be asked for, it was not stopped.
    """
    from trireme.kubernetes import owner

    workflow = _workflow()
    return bool(workflow) and owner.is_stopped(workflow["spec"])


def _workflow() -> dict[str, Any]:
    """Returns the Workflow of this pod's run; empty where it may not be asked for."""
    from trireme.kubernetes import connection, owner
    from trireme.kubernetes.resources import WORKFLOWS

    try:
        cluster = connection.Cluster(patience=PATIENCE)
        name = os.environ.get(runs.RUN) or owner.workflow_of_this_pod(cluster)
        return cluster.get(WORKFLOWS, name, cluster.namespace) if name else {}
    except TriremeError as error:
        print(f"warning: {first_line(error)}", flush=True)
        return {}


def _attempt(work: Callable[[], None]) -> None:
    """Does a part of what is to be done; whatever happens to it, the other parts are done, too."""
    try:
        work()
    except Exception as error:
        if not isinstance(error, TriremeError):
            traceback.print_exc()
        print(f"warning: {first_line(error)}", flush=True)
        journal.log_tags({"finish": first_line(error)})
        journal.summarize(first_line(error))
        hurry()


def _draw(workspace: Path, pipeline: str, run: str, status: str, report: Path) -> None:
    """Draws the run as ``trireme report`` does, for engines that show pages."""
    from trireme.report import of_workspace, page

    name = outcome.heading(pipeline, _name_of(run)) if in_a_pod() else run
    picture = of_workspace.picture(name, workspace, status)
    picture.steps.pop(LAST_STEP, None)
    picture.tags = {"pipeline": pipeline} | picture.tags
    picture.commands = _commands(run, status, picture.tags)
    picture.close()
    report.parent.mkdir(parents=True, exist_ok=True)
    report.write_text(page.render(picture, is_framed=True), encoding="utf-8")


def _name_of(run: str) -> str:
    """Returns what a person calls a run on a cluster, of which Kubeflow tells steps the id."""
    if of_argo := os.environ.get(runs.RUN, ""):
        return of_argo
    workflow = _workflow()
    return on_kubeflow.parse_workflow(workflow).run if workflow else run


def _commands(run: str, status: str, tags: Mapping[str, str], recorded: str = "") -> dict[str, str]:
    """Returns what a person may do with a run, wherever it is.

    Args:
        recorded: Its id in MLflow, as far as that is known.
    """
    from trireme.report.picture import commands

    if not in_a_pod():
        return commands(run, status, tags)
    of_argo = os.environ.get(runs.RUN, "")
    if of_argo:
        return commands(of_argo, status, tags, "argo")
    return commands(run, status, tags, "kfp", recorded)


def _tell(secret: str, workspace: Path, pipeline: str, run: str, status: str, message: str) -> None:
    told = outcome.read(workspace, pipeline, run, status, message)
    if webhook.send(secret, told):
        journal.summarize(f"sent to the webhook: {told.sentence}")


def _conclude(
    workspace: Path, pipeline: str, run: str, status: str, message: str, report: Path
) -> None:
    """Has MLflow show what came of the run."""
    from trireme.finish import note
    from trireme.report import of_workspace

    whole = runs.PipelineRunId(os.environ.get("MLFLOW_EXPERIMENT_ID", ""), pipeline_run())
    reason = outcome.read(workspace, pipeline, run, status, message).reason
    tags = {"pipeline": pipeline} | of_workspace.whole(workspace)[0]
    commands = _commands(run, status, tags, whole.run_id)
    written = note.write(workspace, status, "" if status == "FINISHED" else reason, commands, whole)
    drawn = report.read_text(encoding="utf-8") if report.exists() else ""
    runs.conclude(whole.run_id, runs.Conclusion(written, drawn))


def _leave_outcome(workspace: Path, status: str) -> None:
    last_lines = outcome.last_lines(workspace) if status == "FAILED" else ""
    journal.log_outcome(outcome.facts(workspace), last_lines)


def _stop_jobs(run: str) -> None:
    """Deletes the run's training jobs that still run: their step was killed, or timed out."""
    from trireme.job import names
    from trireme.kubernetes.connection import Cluster
    from trireme.runner.cluster import jobs

    for name in jobs.delete_running(Cluster(), {names.of_run(run): math.inf}):
        print(f"deleted the training job {name}, which still existed", flush=True)


def _close_record(workspace: Path, status: str, last: str) -> None:
    """Brings what could not be recorded earlier to MLflow, and ends the run there.

    Args:
        last: The step that does so, whose own record is brought when it has ended. Beside one that
            is not the last of all others may run, which end their records themselves.
    """
    own = StepRun.from_environment()
    if in_a_pod() and runs.is_ours():
        from trireme.finish import own_steps

        _attempt(lambda: own_steps.keep(workspace))
    for step in journal.steps(workspace):
        if step != last and (last == LAST_STEP or journal.has_ended(workspace, step)):
            _complete(step, workspace, own.pipeline_id)
    if status == "FINISHED":
        runs.clear_error(own.pipeline_id)  # of a first attempt
    if own.pipeline_id != own.step_id:
        runs.end(own.pipeline_id, status)


def _complete(step: str, workspace: Path, pipeline_id: str) -> None:
    """Makes the record of a step whole that was killed, or that MLflow was away for."""
    named = journal.run_path(workspace, step)
    began, ended = journal.span_of(workspace, step)
    if named.exists():
        run_id = named.read_text()
    elif runs.is_ours():
        whole = runs.PipelineRunId(os.environ["MLFLOW_EXPERIMENT_ID"], pipeline_id)
        run_id = runs.step_run(step, workspace, whole, began)
    else:
        return
    try:
        sync(workspace, step, StepRun(run_id, pipeline_id))
    except ModuleNotFoundError as error:  # this step's image is not made for models
        raise StepFailed(
            f"the model of step {step} is not registered: MLflow was unavailable, and this step "
            f"lacks {error.name} to do it now; resume the run"
        ) from None
    if (status := journal.status_of(workspace, step)) == "FINISHED":
        runs.clear_error(run_id)
    if runs.is_ours():
        runs.end_if_open(run_id, status, ended)
