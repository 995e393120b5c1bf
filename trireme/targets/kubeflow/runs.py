"""Runs on Kubeflow Pipelines: start, find, list, cancel and try them again."""

import json
import re
from collections.abc import Callable
from typing import Any

from trireme.errors import InputError
from trireme.graph.model import StepPath
from trireme.graph.reading import AFTER_FAILURE, paths_of
from trireme.kubernetes.errors import Invalid, NotFound
from trireme.targets.base import ENDED, NoSuchRun
from trireme.targets.kubeflow import experiments, reading
from trireme.targets.kubeflow.connection import Connection
from trireme.targets.kubeflow.reading import Run
from trireme.targets.kubeflow.uploading import Version
from trireme.tracking.environment import SECRET

LIMIT = 20  # runs that are listed

_ID = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}")


def start(
    connection: Connection, version: Version, name: str, experiment: str, parameters: dict[str, Any]
) -> Run:
    """Starts a run."""
    body = {
        "display_name": name,
        "experiment_id": experiments.ensure(connection, experiment),
        "pipeline_version_reference": {
            "pipeline_id": version.pipeline_id,
            "pipeline_version_id": version.id,
        },
        "runtime_config": {"parameters": parameters},
    } | experiments.for_mlflow(experiment)
    created = connection.ask(
        "runs.run_service_create_run",
        run=body,
        happened=lambda: next(iter(_named(connection, name)), None),
    )
    return reading.run(connection, created)


def recording_note(run: Run, has_secret: Callable[[], bool]) -> str:
    """Says why a new run may not be recorded in MLflow; empty where nothing is known of that.

    Args:
        has_secret: Tells whether its namespace is known to have the Secret that runs are recorded
            by where Kubeflow Pipelines' plugin is off.
    """
    plugin = (run.source.plugins_output or {}).get("mlflow")
    if plugin is None and not has_secret():
        return (
            "Kubeflow's MLflow plugin is off: the run is recorded if its namespace has a Secret "
            f"{SECRET} with MLFLOW_TRACKING_URI, and otherwise not"
        )
    if plugin and plugin.state == "PLUGIN_FAILED":
        return f"Kubeflow's MLflow plugin does not record the run: {plugin.state_message}"
    return ""


def get(connection: Connection, run_id: str) -> Run:
    """Returns a run, as it is now."""
    return reading.run(connection, connection.ask("runs.run_service_get_run", run_id=run_id))


def find(connection: Connection, name: str) -> Run:
    """Returns a run by its id or name."""
    if _ID.fullmatch(name):
        try:
            return get(connection, name)
        except NotFound:
            raise NoSuchRun(f"there is no run with the id {name} at {connection.host}") from None
    candidates = _named(connection, name)
    if len(candidates) > 1:
        ids = ", ".join(sorted(run.run_id for run in candidates))
        raise InputError(f"{len(candidates)} runs are called {name!r}; give the id of one: {ids}")
    if not candidates:
        raise NoSuchRun(
            f"there is no run {name!r} at {connection.host}; 'trireme list --target kfp' shows "
            "the latest"
        )
    return get(connection, candidates[0].run_id)


def latest(connection: Connection) -> list[Run]:
    """Returns the latest runs, the newest first."""
    page = connection.ask(
        "runs.run_service_list_runs",
        page_size=LIMIT,
        sort_by="created_at desc",
        **connection.in_namespace(),
    )
    return [reading.run(connection, run) for run in page.runs or []]


def every(connection: Connection) -> list[Run]:
    """Returns all runs that are not archived, the newest first."""
    listed = connection.pages(
        "runs.run_service_list_runs",
        "runs",
        sort_by="created_at desc",
        **connection.in_namespace(),
    )
    return [reading.run(connection, run) for run in listed]


def cancel(connection: Connection, run: Run) -> None:
    """Has a run ended; it takes the server a while."""
    run.check_cancel()
    _change(connection, run, "terminate", lambda state: state in (*ENDED, "stopping"))


def retry(connection: Connection, run: Run) -> None:
    """Has a run tried again from the steps on that have failed."""
    _change(connection, run, "retry", lambda state: state not in ENDED)


def step_paths_of(connection: Connection, run: Run) -> dict[str, StepPath]:
    """Returns the paths to all steps that a run may have, by the steps' names, in order."""
    return paths_of(_spec_of(connection, run))


def has_hooks(connection: Connection, run: Run) -> bool:
    """Tells whether a run has tasks that are hooks of others, as exit handlers are."""
    return AFTER_FAILURE in json.dumps(_spec_of(connection, run))


def _spec_of(connection: Connection, run: Run) -> dict[str, Any]:
    """Returns kfp's ``PipelineSpec`` of a run as JSON."""
    spec = run.source.pipeline_spec
    reference = run.source.pipeline_version_reference
    if spec is None and reference is not None:
        spec = connection.ask(
            "pipelines.pipeline_service_get_pipeline_version",
            pipeline_id=reference.pipeline_id,
            pipeline_version_id=reference.pipeline_version_id,
        ).pipeline_spec
    spec = spec or {}
    found: dict[str, Any] = spec.get("pipeline_spec", spec)
    return found


def _change(connection: Connection, run: Run, verb: str, is_done: Any) -> None:
    def happened() -> bool:
        return bool(is_done(get(connection, run.id).state))

    try:
        connection.ask(f"runs.run_service_{verb}_run", run_id=run.id, happened=happened)
    except Invalid:
        if not happened():  # by somebody else, or by a request whose answer was lost
            raise


def _named(connection: Connection, name: str) -> list[Any]:
    return connection.named("runs.run_service_list_runs", "runs", name)
