"""The champion of a registered model: the version in use, and how another takes its place.

A version is ``challenger`` when it is registered, and ``champion`` only when it has beaten the
champion of that moment. MLflow sets an alias whatever it was before, so whoever changes the
champion holds a lock: a registered model called ``NAME.promotion``, which only one can create.
"""

import json
import os
import re
import shutil
import time
import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, NamedTuple

from trireme.errors import InputError, StepFailed, first_line
from trireme.files.home import TRACKER
from trireme.files.workspace import written_whole
from trireme.tracking import environment
from trireme.tracking.client import client, patiently

CHAMPION, CHALLENGER = "champion", "challenger"

NO_CHAMPION = "there is no champion to compare it with"
"""What is said of the first model."""

BEFORE = "champion.before"
"""The tag of a champion with the version whose place it took; empty where there was none."""

SINCE = "champion.since"
"""The tag of a champion with when it became one, in seconds since the epoch."""

RUN_NAME = "pipeline_run.name"
"""The tag of a version with the name of the run that it comes from."""

LOCK = "Held for a moment by whoever changes the champion: "
"""How the description of a lock begins, before the id of its holder."""

POLL = 0.2  # seconds between two tries to get the lock
STALE = 300.0  # seconds after which its holder, who needs a moment, must be dead


def check_name(name: str) -> None:
    """Refuses a name that MLflow's model registry does not take."""
    if not name.strip() or re.search(r"[/:?\x00-\x1f\x7f'\"]", name):
        raise InputError(
            f"model_name {name!r}: must be a name, without slash, colon, question mark, quotes or "
            "line breaks"
        )


class Champion(NamedTuple):
    """The champion, and where its files are: as ONNX, and as trained; None where they are not."""

    version: str
    onnx: Path | None
    tags: dict[str, str]
    trained: Path | None = None


def champion_for(name: str, workspace: Path, trained: bool = False) -> Champion | None:
    """Returns the champion that a step's model is to be compared with, with its files."""
    directory = champion_folder(workspace)
    if TRACKER in os.environ:
        environment.variables()  # which are there when the champion is
    elif "MLFLOW_TRACKING_URI" in os.environ:
        download_champion(name, directory, trained)
    return load_champion(directory)


def champion_folder(workspace: Path) -> Path:
    """Returns where the champion is in a run workspace."""
    return workspace / "champion"


def download_champion(name: str, directory: Path, trained: bool = False) -> None:
    """Brings the champion to a directory, which is removed if there is none."""
    import mlflow

    from trireme.tracking import store

    store.quiet()
    shutil.rmtree(directory, ignore_errors=True)
    version = version_at(name, CHAMPION)
    if version is None:
        return
    with written_whole(directory) as partial:
        uri = f"models:/{name}/{version.version}"
        try:
            (files := partial / "files").mkdir()
            patiently(lambda: mlflow.artifacts.download_artifacts(uri, dst_path=str(files)))
            describe(version, partial, trained)
        except (client.refusal, OSError) as error:
            raise StepFailed(
                f"the champion, {name} version {version.version}, cannot be read: {error}"
            ) from None


def describe(version: Any, directory: Path, trained: bool) -> None:
    """Writes down which version the champion is; brings what its training left, where wanted."""
    from trireme.tracking import lineage

    about = {"version": str(version.version), "tags": dict(version.tags)}
    (directory / "champion.json").write_text(json.dumps(about))
    if trained:
        lineage.download_trained(version.tags.get("pipeline_run", ""), directory / "trained")


def load_champion(directory: Path) -> Champion | None:
    """Returns what ``download_champion`` has brought; None where there is no champion."""
    about = directory / "champion.json"
    if not about.exists():
        return None
    onnx = next(iter(sorted((directory / "files").rglob("*.onnx"))), None)
    trained = next((directory / "trained").glob("*/"), None)
    return Champion(**json.loads(about.read_text()), onnx=onnx, trained=trained)


def promote(name: str, version: str, instead_of: str | None = None) -> str:
    """Makes a version the champion; returns the champion before, empty for none.

    Args:
        instead_of: The champion that it has to replace, empty for none; None for any.
    """
    _must_exist(name, version)
    with _locked(name) as check_lock:
        before = champion(name)
        if instead_of is not None and before != instead_of:
            raise StepFailed(
                f"{name} version {version} is not promoted: it was compared with "
                f"{_in_words(instead_of)}, and the champion is {_in_words(before)} by now"
            )
        if before != version:
            client.set_model_version_tag(name, version, BEFORE, before)
            client.set_model_version_tag(name, version, SINCE, f"{time.time():.0f}")
            check_lock()
            client.set_registered_model_alias(name, CHAMPION, version)
        _retire_challenger(name, version)
    return before


def rollback(name: str) -> tuple[str, str]:
    """Makes the previous champion champion again; returns the one of before and the one of now."""
    with _locked(name) as check_lock:
        current = version_at(name, CHAMPION)
        if not current:
            raise InputError(f"there is no registered model {name!r} with a champion")
        before = current.tags.get(BEFORE, "")
        if not before:
            raise InputError(
                f"{name} version {current.version} is the first champion; there is none to roll "
                "back to"
            )
        _must_exist(name, before)
        client.set_model_version_tag(name, before, SINCE, f"{time.time():.0f}")
        check_lock()
        client.set_registered_model_alias(name, CHAMPION, before)
    return str(current.version), before


def challenge(name: str, version: str) -> None:
    """Makes a new version the challenger."""
    client.set_registered_model_alias(name, CHALLENGER, version)


def champion(name: str) -> str:
    """Returns the version of the champion; empty where there is none."""
    version = version_at(name, CHAMPION)
    return str(version.version) if version else ""


def version_at(name: str, alias: str) -> Any:
    """Returns the version of a registered model that has an alias, as MLflow has it, or None.

    Raises:
        StepFailed: MLflow does not say.
    """
    model = _model(name)
    try:
        # By the alias alone MLflow has one error for one that is not set, and for much else.
        version = model.aliases.get(alias) if model else None
        return client.get_model_version(name, version) if version else None
    except client.refusal as error:
        raise _unreadable(name, error) from None


def _model(name: str) -> Any:
    """Returns a registered model, or None where there is none of that name."""
    try:
        return client.get_registered_model(name)
    except client.refusal as error:
        if error.error_code != "RESOURCE_DOES_NOT_EXIST":
            raise _unreadable(name, error) from None
        return None


def _unreadable(name: str, error: Exception) -> StepFailed:
    return StepFailed(f"the registered model {name!r} cannot be read: {first_line(error)}")


def _must_exist(name: str, version: str) -> None:
    try:
        client.get_model_version(name, version)
    except client.refusal:
        raise InputError(f"there is no version {version} of a registered model {name!r}") from None


def _retire_challenger(name: str, version: str) -> None:
    challenger = version_at(name, CHALLENGER)
    if challenger and str(challenger.version) == version:
        client.delete_registered_model_alias(name, CHALLENGER)


@contextmanager
def _locked(name: str) -> Iterator[Callable[[], None]]:
    """Holds the lock; gives what fails where another has taken it, as from a dead holder."""
    lock, holder = f"{name}.promotion", f"{LOCK}{uuid.uuid4().hex}"

    def is_held() -> bool:
        model = _model(lock)
        return model is not None and model.description == holder

    def check() -> None:
        if not is_held():
            raise StepFailed(f"the champion of {name} is being changed by another; try again")

    while not _created(lock, holder):
        if lock_model := _model(lock):
            if not (lock_model.description or "").startswith(LOCK.removesuffix(": ")):
                raise InputError(
                    f"there is a registered model {lock!r}, whose name is needed to change the "
                    f"champion of {name}; rename it"
                )
            if time.time() - lock_model.creation_timestamp / 1000 > STALE:
                _break(lock, lock_model)
        time.sleep(POLL)
    try:
        yield check
    finally:
        if is_held():
            with suppress(client.refusal):  # it is gone
                client.delete_registered_model(lock)


def _break(lock: str, stale: Any) -> None:
    """Deletes the lock of a dead holder; of several who try it, one does."""
    breaking = f"{lock}.{stale.creation_timestamp}"
    if not _created(breaking, f"{LOCK}{uuid.uuid4().hex}"):
        return
    with suppress(client.refusal):  # it is gone
        now = _model(lock)
        # Another may have deleted it, and a third hold the next, before this name was free.
        if now and now.description == stale.description:
            client.delete_registered_model(lock)
        client.delete_registered_model(breaking)


def _created(lock: str, description: str) -> bool:
    try:
        client.create_registered_model(lock, description=description)
    except client.refusal as error:
        # The second: it was there, and gone again when MLflow looked whose it is.
        if error.error_code not in ("RESOURCE_ALREADY_EXISTS", "RESOURCE_DOES_NOT_EXIST"):
            raise
        return False
    return True


def _in_words(version: str) -> str:
    return f"version {version}" if version else "none"
