"""The registered models that there are: their versions, how good each is, and which is in use."""

from collections.abc import Iterator
from typing import Any, NamedTuple

from trireme.errors import InputError
from trireme.tracking import store
from trireme.tracking.client import every
from trireme.tracking.model_versions import said_in_a_sentence
from trireme.tracking.registry import CHAMPION, LOCK, RUN_NAME, SINCE

HELD_OUT = "held_out_"
"""How the metric begins that a model was judged by, among the tags of its version."""


class Version(NamedTuple):
    """A version of a registered model.

    Attributes:
        aliases: Such as champion and challenger.
        metric: What it was judged by, as in ``accuracy 0.9722``; empty where that is not known.
        created: When it was registered, in seconds since the epoch.
        since: When it became the champion that it is; 0 where it is none, or nobody wrote it down.
        run: The run that it comes from.
    """

    model: str
    number: int
    aliases: list[str]
    metric: str
    created: float
    since: float
    run: str


def versions(model: str = "") -> list[Version]:
    """Returns the versions of a model, or of all models, the newest first."""
    uri = store.use()
    with said_in_a_sentence(uri):
        found_versions = [version for entry in _models(model) for version in _versions_of(entry)]
    if model and not found_versions:
        raise InputError(f"there is no registered model {model!r}")
    return found_versions


def _models(name: str) -> Iterator[Any]:
    from mlflow import MlflowClient

    for model in every(MlflowClient().search_registered_models):
        is_lock = (model.description or "").startswith(LOCK)
        if not is_lock and name in ("", model.name):
            yield model


def _versions_of(model: Any) -> list[Version]:
    from mlflow import MlflowClient

    aliases: dict[int, list[str]] = {}
    for alias, number in model.aliases.items():
        aliases.setdefault(int(number), []).append(alias)
    quoted = model.name.replace("'", "''")
    listed = every(MlflowClient().search_model_versions, f"name = '{quoted}'")
    read = [_read(version, sorted(aliases.get(int(version.version), []))) for version in listed]
    return sorted(read, key=lambda version: version.number, reverse=True)


def _read(version: Any, aliases: list[str]) -> Version:
    measured = (
        f"{name.removeprefix(HELD_OUT).replace('_', ' ')} {value}"
        for name, value in sorted(version.tags.items())
        if name.startswith(HELD_OUT)
    )
    since = float(version.tags.get(SINCE) or 0) if CHAMPION in aliases else 0.0
    return Version(
        model=version.name,
        number=int(version.version),
        aliases=aliases,
        metric=next(measured, ""),
        created=version.creation_timestamp / 1000,
        since=since,
        run=version.tags.get(RUN_NAME) or version.tags.get("pipeline_run") or "",
    )
