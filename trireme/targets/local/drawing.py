"""The picture of a run here: kept beside the report on its model, and with its record in MLflow."""

import traceback
from dataclasses import replace
from pathlib import Path
from typing import Any

from trireme.files.whole_file import write_whole
from trireme.finish import note
from trireme.pages import REPORT, RUN_LINK
from trireme.pipeline.pipeline import Pipeline
from trireme.report import of_workspace, page
from trireme.report.picture import MODEL, Picture, commands, describe_given
from trireme.tracking import journal, store
from trireme.tracking.runs import PAGE, Conclusion, PipelineRunId

_LINK = '<p><a href="{}">The run</a></p>'


def keep(
    directory: Path,
    pipeline: Pipeline,
    arguments: dict[str, Any],
    status: str,
    message: str,
    mlflow: str,
) -> None:
    """Draws a run that has ended, into its workspace; that this fails is no fault of the run's.

    Args:
        mlflow: The run's page there; empty for none.
    """
    workspace = directory / "workspace"
    report = workspace / REPORT
    links = {MODEL: REPORT} if report.exists() else {}
    links |= {store.called("MLflow", store.uri()): mlflow} if mlflow else {}
    try:
        picture = replace(_drawn(directory, pipeline, arguments, status, message), links=links)
        write_whole(workspace / PAGE, page.render(picture), is_lasting=False)
        if report.exists():
            text = report.read_text().replace(RUN_LINK, _LINK.format(PAGE), 1)
            write_whole(report, text, is_lasting=False)
    except Exception:
        traceback.print_exc()  # where what libraries print goes


def conclusion(
    directory: Path,
    pipeline: Pipeline,
    arguments: dict[str, Any],
    message: str,
    status: str,
    parent: PipelineRunId,
) -> Conclusion:
    """Returns what MLflow is to show of a run that has ended."""
    picture = _drawn(directory, pipeline, arguments, status, message)
    written = note.write(directory / "workspace", status, message, picture.commands, parent)
    return Conclusion(written, page.render(picture, is_framed=True))


def _drawn(
    directory: Path, pipeline: Pipeline, arguments: dict[str, Any], status: str, message: str
) -> Picture:
    workspace = directory / "workspace"
    picture = of_workspace.picture(directory.name, workspace, status)
    picture.message = message
    if registered := journal.registered(workspace):
        picture.tags |= {"model": registered["model"], "model.version": registered["version"]}
    describe_given(picture, pipeline, arguments)
    picture.commands = commands(picture.name, picture.state, picture.tags)
    picture.close()
    return picture
