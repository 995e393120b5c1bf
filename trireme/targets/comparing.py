"""Compare runs of any places, by what MLflow has of them."""

import os
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any
from unittest.mock import patch

from trireme.comparing import comparison, reading
from trireme.comparing.comparison import Comparison
from trireme.errors import InputError, TriremeError
from trireme.process import extras
from trireme.report import curves, of_mlflow
from trireme.targets import registry
from trireme.targets.base import Target
from trireme.targets.meant import meant
from trireme.tracking import store
from trireme.tracking.client import client

if TYPE_CHECKING:
    from mlflow.entities import Run

    from trireme.targets.handle import RunHandle


@extras.explained()
def compare_runs(*runs: "str | RunHandle", target: str = "local", **options: Any) -> Comparison:
    """Returns what differs between runs, their metrics side by side, and their curves.

    Args:
        runs: Two or more: what ``trireme.run`` has returned, names in ``trireme list``, or names or
            ids in MLflow.
        target: Where they are: local, kfp or argo; MLflow knows runs of any place by name.
        options: Options of the target, such as ``namespace``.

    Raises:
        InputError: One of them is not there, or is given twice.
    """
    with _process_as_it_was():
        names = [run if isinstance(run, str) else run.name for run in runs]
        return compare(registry.open(target, options), names)


def compare(target: Target[Any], names: Sequence[str]) -> Comparison:
    """Compares runs by their names or ids."""
    if len(names) < 2:
        raise InputError(f"RUN {' '.join(names)}: give two runs or more, which are compared")
    if len(names) > curves.LINES:
        raise InputError(f"RUN: {len(names)} are too many; {curves.LINES} can be told apart")
    _refuse_twice(names, names)
    if not target.is_here and not os.environ.get("MLFLOW_TRACKING_URI"):
        raise InputError(
            f"--target {target.name}: MLFLOW_TRACKING_URI has to name the server that has the "
            "records of the runs"
        )
    store.use()
    try:
        runs = [_find(target, name) for name in names]
        _refuse_twice(names, [run.info.run_id for run in runs])
        read = [reading.read(run) for run in runs]
    except client.refusal as error:
        raise TriremeError(f"MLflow refuses: {store.reason_of(error)}") from None
    return comparison.compare([run for run, _ in read], [reason for _, reason in read if reason])


def _refuse_twice(names: Sequence[str], ids: Sequence[str]) -> None:
    for number, run_id in enumerate(ids):
        if (first := ids.index(run_id)) < number:
            also = "" if names[first] == names[number] else f", also as {names[number]!r}"
            raise InputError(f"RUN {names[first]!r}: is given twice{also}")


def _find(target: Target[Any], name: str) -> "Run":
    """Returns the record of a run that is known to a place, or to MLflow alone."""
    key, created, unknown = name, None, None
    try:
        run = target.find(meant(target, name))
        key, created = run.name, run.created
    except InputError as error:
        unknown = error
    if recorded := of_mlflow.find(key, created):
        return recorded
    raise unknown or InputError(
        f"RUN {name!r}: MLflow at {store.public(store.uri())} has no record of it; runs that are "
        "compared have theirs on one server, which MLFLOW_TRACKING_URI names"
    )


@contextmanager
def _process_as_it_was() -> Iterator[None]:
    """Leaves MLflow in this process with the server that it had before."""
    with patch.dict(os.environ):  # in which MLflow also keeps the URI that it is told
        try:
            yield
        finally:
            if mlflow := sys.modules.get("mlflow"):
                mlflow.set_tracking_uri(None)
