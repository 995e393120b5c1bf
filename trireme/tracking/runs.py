"""Open the MLflow runs of a pipeline and its steps, where nobody else has opened them.

``trireme run`` opens them here, and Kubeflow Pipelines' MLflow plugin there. On plain Argo, and
where that plugin is off, nobody does: the first step opens that of the pipeline, whose id is in the
run workspace from then on, and each step its own.
"""

import json
import os
import sys
import time
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from trireme.errors import TrackingUnavailable
from trireme.files.home import TRACKER
from trireme.files.whole_file import NO_LINKS
from trireme.text.say import say
from trireme.tracking import environment, journal, machine, on_kubeflow
from trireme.tracking.batch import log
from trireme.tracking.client import HURRY, PARENT, client, once, patiently
from trireme.tracking.store import reason_of

if TYPE_CHECKING:
    from mlflow import MlflowClient
    from mlflow.entities import Run

PIPELINE, RUN = "TRIREME_PIPELINE", "TRIREME_RUN"
PARAMETERS, TEXTS = "TRIREME_PARAMETERS", "TRIREME_TEXTS"
"""Variables of a step that opens its run itself: names of the pipeline and of the run; the
pipeline's parameters as people fill them in on Argo, a JSON object; and the names of those that are
texts. These are texts as they are, or where they begin with a quote JSON, as all others are."""

NAME = "MLFLOW_EXPERIMENT_NAME"
"""The variable with which programs such as ultralytics' call ``mlflow.set_experiment``."""

OF_NO_NAME = "pipeline"
"""The pipeline of a run that does not say which it is."""

KIND = {"mlflow.experimentKind": "custom_model_development"}
"""The tag with which MLflow 3's UI shows an experiment's training, and not what is for prompts."""


NOTE = "mlflow.note.content"
"""The tag that MLflow's UI shows as a run's description, in markdown."""

HEAD = "**{}**"
"""How a note of ours begins, with how the run has ended."""

PAGE = "run.html"
"""The picture of a run, among the artifacts of the pipeline's run and here in the workspace."""


class Conclusion(NamedTuple):
    """What MLflow shows of a run that has ended: a note in markdown, and a page, or none."""

    note: str
    page: str


class PipelineRunId(NamedTuple):
    """The MLflow run of a pipeline."""

    experiment_id: str
    run_id: str


def open_pipeline(
    pipeline: str,
    experiment: str,
    name: str,
    params: dict[str, Any],
    began: float | None = None,
) -> PipelineRunId:
    """Opens the run of a pipeline in an experiment; empty: the environment's, or its own."""
    experiment_id = _experiment(experiment, pipeline)
    run_id = create(experiment_id, name, began=began)
    describe(run_id, pipeline, params)
    return PipelineRunId(experiment_id, run_id)


def create(
    experiment_id: str, name: str, tags: dict[str, str] | None = None, began: float | None = None
) -> str:
    """Makes a run that began then, in seconds since the epoch, or now; returns its id."""
    at = int(1000 * (began or time.time()))
    items = (tags or {}).items()

    def find(mlflow: "MlflowClient") -> "Run | None":
        runs = mlflow.search_runs([experiment_id], f"attributes.start_time = {at}")
        return next(
            (run for run in runs if run.info.run_name == name and items <= run.data.tags.items()),
            None,
        )

    created = once(lambda mlflow: mlflow.create_run(experiment_id, at, tags, name), find)
    return str(created.info.run_id)


SOON = 5.0  # seconds that the store of MLflow's artifacts may be away when a run is opened


def describe(run_id: str, pipeline: str, params: dict[str, Any]) -> None:
    """Records on a pipeline's run what it runs and with what."""
    from mlflow import MlflowClient

    tags = {
        "pipeline": pipeline,
        "mlflow.source.name": f"trireme run {pipeline}",
        "python": sys.version.split()[0],
        "cpu": machine.cpu(),
    }
    log(run_id, params=params, tags=tags)
    list_packages = partial(MlflowClient().log_text, run_id, machine.packages(), machine.PACKAGES)
    try:
        patiently(list_packages, SOON)
    except (TrackingUnavailable, client.refusal) as error:
        say(f"warning: MLflow takes the run, and none of its files: {reason_of(error)}")


def conclude(run_id: str, conclusion: Conclusion) -> None:
    """Records on a pipeline's run what came of it; of files that MLflow does not take it is said.

    The run has ended: nothing of it hangs on this.
    """
    from mlflow import MlflowClient

    before = client.get_run(run_id).data.tags.get(NOTE, "")
    if not before or before.startswith(tuple(map(HEAD.format, ("FINISHED", "FAILED", "KILLED")))):
        log(run_id, tags={NOTE: conclusion.note})  # else a person has described the run
    if not conclusion.page:
        return
    try:
        patiently(partial(MlflowClient().log_text, run_id, conclusion.page, PAGE), SOON)
    except (TrackingUnavailable, client.refusal, OSError) as error:
        say(f"warning: MLflow does not take the picture of the run: {reason_of(error)}")


def is_ours() -> bool:
    """Tells whether this step has to see to its MLflow run itself."""
    if on_kubeflow.load_secret():
        os.environ[PIPELINE] = ""  # who opens the run asks for it
    is_configured = {"MLFLOW_TRACKING_URI", PIPELINE} <= os.environ.keys()
    return is_configured and TRACKER not in os.environ


def open_step(step: str, workspace: Path) -> bool:
    """Opens the run of this step, and that of its pipeline, and puts them into the environment.

    Returns whether it could.

    In the environment there may be one already in which this step is one of many.

    A step that is started again goes on with its run. Where MLflow is away, or refuses, the step's
    records stay in the workspace, and the last step brings them.
    """
    try:
        above = os.environ.get("MLFLOW_RUN_ID")
        experiment = os.environ.get("MLFLOW_EXPERIMENT_ID", "")
        parent = PipelineRunId(experiment, above) if above else pipeline_run(workspace)
        run_id = step_run(step, workspace, parent)
        experiment = client.get_experiment(parent.experiment_id).name
    except (TrackingUnavailable, client.refusal) as error:
        say(f"warning: this step is not in MLflow: {reason_of(error)}")
        return False
    os.environ |= {"MLFLOW_EXPERIMENT_ID": parent.experiment_id, "MLFLOW_RUN_ID": run_id}
    os.environ[NAME] = experiment
    return True


def variables_of_a_program() -> dict[str, str]:
    """Returns the variables that lead a step's program to its run, with the experiment's name.

    Kubeflow Pipelines' plugin leaves that out. A server that is away keeps no program from running.
    """
    variables = environment.variables()
    number = variables.get("MLFLOW_EXPERIMENT_ID", "")
    if not number or NAME in variables:
        return variables
    from mlflow import MlflowClient

    try:
        name = patiently(lambda: MlflowClient().get_experiment(number).name, HURRY)
    except (TrackingUnavailable, client.refusal) as error:
        say(f"warning: the program does not have {NAME}: {reason_of(error)}")
        return variables
    return variables | {NAME: name}


def step_run(step: str, workspace: Path, parent: PipelineRunId, began: float | None = None) -> str:
    """Returns the id of a step's run, which is opened if it is not there, as begun then or now."""
    file = journal.run_path(workspace, step)
    if file.exists():
        run_id = file.read_text()
        client.update_run(run_id, status="RUNNING")
        return run_id
    tags = {PARENT: parent.run_id}
    run_id = create(parent.experiment_id, step, tags, began)
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(run_id)
    return run_id


def end(run_id: str, status: str, ended: float | None = None) -> None:
    """Ends a run, in seconds since the epoch or now."""
    # Otherwise it prints where its server has the run, as seen from here, amid what we print.
    os.environ["MLFLOW_SUPPRESS_PRINTING_URL_TO_STDOUT"] = "true"
    client.set_terminated(run_id, status, None if ended is None else int(1000 * ended))


def end_if_open(run_id: str, status: str, ended: float | None) -> None:
    """Ends a run that has not ended yet."""
    if client.get_run(run_id).info.status == "RUNNING":
        end(run_id, status, ended)


def clear_error(run_id: str) -> None:
    """Takes away what an attempt has left that has failed, as another has succeeded."""
    tags = client.get_run(run_id).data.tags
    for name in ("error", journal.LAST_LINES):
        if name in tags:
            client.delete_tag(run_id, name)


def named_by(workspace: Path) -> Path:
    """Returns the file that names the run of the pipeline once that is open."""
    return workspace / "mlflow-run.json"


def pipeline_run(workspace: Path) -> PipelineRunId:
    """Returns the run of the pipeline, which the first step opens."""
    file = named_by(workspace)
    if file.exists():
        return PipelineRunId(**json.loads(file.read_text()))
    pipeline, name, params = os.environ[PIPELINE], os.environ.get(RUN, ""), _parameters()
    if not pipeline:
        pipeline, name, params = on_kubeflow.describe_run(OF_NO_NAME)
    experiment = str(params.get("experiment") or "")
    opened = open_pipeline(pipeline, experiment, name or workspace.name, params)
    written = workspace / f"mlflow-run-{opened.run_id}.json"
    written.write_text(json.dumps(opened._asdict()))
    try:
        os.link(written, file)  # whole, and only if there is none
    except FileExistsError:  # another step that began with this one has been faster
        client.delete_run(opened.run_id)
        return PipelineRunId(**json.loads(file.read_text()))
    except OSError as error:
        if error.errno not in NO_LINKS:
            raise
        written.replace(file)  # two first steps at once each have a run then
        return opened
    written.unlink()
    return opened


def _parameters() -> dict[str, Any]:
    """Returns the pipeline's parameters."""
    values = json.loads(os.environ.get(PARAMETERS) or "{}")
    texts = os.environ.get(TEXTS, "").split()
    return {
        name: text if name in texts and not text.startswith('"') else _value(text)
        for name, text in values.items()
    }


def _value(text: str) -> Any:
    """Returns the value of a JSON text, or what somebody has typed in its place."""
    try:
        return json.loads(text)
    except ValueError:
        return text


def _experiment(experiment: str, pipeline: str) -> str:
    """Returns the id of an experiment, made if it is not there."""
    preset = os.environ.get("MLFLOW_EXPERIMENT_ID", "")
    if preset and not experiment:
        return str(client.get_experiment(preset).experiment_id)
    name = experiment or pipeline
    if existing := client.get_experiment_by_name(name):
        return str(existing.experiment_id)
    try:
        return str(client.create_experiment(name, tags=KIND))
    except client.refusal as error:
        if error.error_code != "RESOURCE_ALREADY_EXISTS":
            raise
        return str(client.get_experiment_by_name(name).experiment_id)  # another run was faster
