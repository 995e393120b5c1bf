"""Records in this machine's own MLflow store of runs that are gone here, and their removal."""

import contextlib
import re
from collections.abc import Collection, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from trireme.errors import InputError
from trireme.files.home import home
from trireme.tracking import store
from trireme.tracking.client import PARENT, client, every
from trireme.tracking.lineage import START
from trireme.tracking.registry import BEFORE

if TYPE_CHECKING:
    from mlflow.entities import Run
    from mlflow.entities.model_registry import ModelVersion

WHOLE = "pipeline_run"  # the tag of a model's version with the run that registered it

_OURS = re.compile(r"(.+-)?\d{8}-\d{6}-[0-9a-f]{4}(-.+)?")
"""What ``Pipeline.name_of_a_run`` calls a run, or did in 0.1; others have opened the rest."""


class OldRecord(NamedTuple):
    """The MLflow runs of a pipeline's run and its steps, and the models that they hold."""

    name: str
    ended: float
    runs: list[str]
    models: list[str]
    versions: "list[ModelVersion]"
    artifacts: list[Path]


def find(before: float, kept_names: Collection[str]) -> list[OldRecord]:
    """Returns the records of runs that ended before a moment and are not kept.

    Those stay that hold a version with an alias, such as the champion, or the version whose place
    a champion took, or the model that a run which stays began with.

    Raises:
        InputError: The store is a server's, or a database that others may have.
    """
    at = store.uri()
    if at != store.default_uri(home()):
        raise InputError(
            f"--records: those in {store.public(at)} are not only of this machine's runs; "
            "'mlflow gc' removes them, or unset MLFLOW_TRACKING_URI to remove those here"
        )
    if not (home() / "mlflow.db").exists():
        return []
    store.use()
    return list(_found(before, kept_names))


def remove(record: OldRecord) -> None:
    """Removes a record for good, with its versions of models."""
    from mlflow.store.artifact.artifact_repository_registry import get_artifact_repository
    from mlflow.tracking._tracking_service.utils import _get_store

    for version in record.versions:
        client.delete_model_version(version.name, version.version)
    for model in record.models:
        client.delete_logged_model(model)
    for run in record.runs:
        client.delete_run(run)
    # As ``mlflow gc``, which takes along whatever somebody has deleted besides.
    database = _get_store(store.uri())
    for model in record.models:
        location = database.get_logged_model(model, allow_deleted=True).artifact_location
        get_artifact_repository(location).delete_artifacts()
        database._hard_delete_logged_model(model)
    for run in record.runs:
        get_artifact_repository(database.get_run(run).info.artifact_uri).delete_artifacts()
        database._hard_delete_run(run)
    for folder in record.artifacts:
        with contextlib.suppress(OSError):
            folder.rmdir()


def _found(before: float, kept_names: Collection[str]) -> Iterator[OldRecord]:
    experiments = client.experiment_ids()
    runs = list(client.every_run(experiments, "tags.`pipeline` LIKE '%'"))
    wholes = [run for run in runs if PARENT not in run.data.tags]
    versions = list(every(client.search_model_versions))
    stays = {run.info.run_id for run in wholes if not _is_old(run, before, kept_names)}
    stays |= {version.tags.get(WHOLE, "") for version in _in_use(versions)}
    starts = {run.data.tags.get(START, "") for run in wholes if run.info.run_id in stays}
    for run in wholes:
        run_id = run.info.run_id
        if run_id not in stays | starts:
            its_versions = [version for version in versions if version.tags.get(WHOLE) == run_id]
            yield _record(run, experiments, its_versions)


def _is_old(run: "Run", before: float, kept_names: Collection[str]) -> bool:
    name, ended = run.info.run_name, run.info.end_time or run.info.start_time
    return name not in kept_names and ended < 1000 * before and bool(_OURS.fullmatch(name))


def _in_use(versions: "list[ModelVersion]") -> "Iterator[ModelVersion]":
    """Returns the versions with an alias, and those which a rollback makes champion again."""
    aliased = {
        (name, str(version))
        for name in {version.name for version in versions}
        for version in client.get_registered_model(name).aliases.values()
    }
    by_version = {(version.name, str(version.version)): version for version in versions}
    for key in aliased & by_version.keys():
        yield (in_use := by_version[key])
        before = by_version.get((in_use.name, in_use.tags.get(BEFORE, "")))
        if before:
            yield before


def _record(parent: "Run", experiments: list[str], versions: "list[ModelVersion]") -> OldRecord:
    runs = [parent]
    for run in runs:  # it grows
        runs += client.nested_in(run, experiments)
    models = [
        model
        for run in runs
        for model in client.search_logged_models(
            experiments, filter_string=f"source_run_id = '{run.info.run_id}'"
        )
    ]
    locations = [run.info.artifact_uri for run in runs]
    locations += [model.artifact_location for model in models]
    return OldRecord(
        parent.info.run_name,
        (parent.info.end_time or parent.info.start_time) / 1000,
        [run.info.run_id for run in runs],
        [model.model_id for model in models],
        versions,
        [Path(location).parent for location in locations if location.startswith(str(home()))],
    )
