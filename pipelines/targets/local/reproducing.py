"""Train again from a run's commit, data and seed, and compare the models bit by bit."""

import os
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from trireme.components.errors import InputError, StepFailed
from trireme.components.packages.use import AGAIN
from trireme.components.say import say
from trireme.components.tracking import lineage as lineages
from trireme.components.tracking import store
from trireme.components.tracking.lineage import Lineage
from trireme.pipelines import reproduction
from trireme.pipelines.console import Console
from trireme.pipelines.pipeline import Pipeline
from trireme.pipelines.targets.local import running
from trireme.pipelines.targets.local.result import Result

SHOWN = 10  # differences between then and now that are told
ASYNCHRONOUS = (
    "parameter servers take the workers' updates as they come, in another order every time, so "
    "the models will differ"
)


def reproduce(run: str, given: Pipeline | None, console: Console) -> int:
    """Trains again as a run in MLflow did; returns the exit status."""
    store.use()
    lineage = lineages.read(run)
    pipeline = reproduction.pipeline(lineage, given)
    arguments = reproduction.arguments(pipeline, lineage)
    if given is None:
        reproduction.check_data(arguments, lineage)
    _warn(lineages.changes(lineage))
    if arguments.get("parameter_servers"):
        say(f"warning: {ASYNCHRONOUS}")
    with _packages(lineage), _start(lineage) as start:
        if start:
            arguments |= {"start": start}
        result = running.run(pipeline, arguments, console)
    facts = {"Run": str(result.directory), "MLflow": result.mlflow_page}
    try:
        if result.status == "FINISHED":
            facts = {"Model": _compared(result, lineage)} | facts
    finally:
        console.print()
        console.print(f"{result.name} {result.status}", "bold")
        console.facts(facts)
        sys.stdout.flush()
    if result.error:
        raise result.error
    return result.exit_status


@contextmanager
def _packages(lineage: Lineage) -> Iterator[None]:
    """Has the steps install the packages that the run had, not what is newest now."""
    if not lineage.packages:
        yield
        return
    with tempfile.TemporaryDirectory(prefix="trireme-") as directory:
        os.environ[AGAIN] = str(lineages.download_packages(lineage, Path(directory)))
        try:
            yield
        finally:
            del os.environ[AGAIN]


@contextmanager
def _start(lineage: Lineage) -> Iterator[str]:
    """Brings what the run started from; gives the folder, or nothing."""
    if not lineage.start:
        yield ""
        return
    with tempfile.TemporaryDirectory(prefix="trireme-") as directory:
        place = Path(directory, "start")
        lineages.download_trained(lineage.start, place)
        found = next(place.glob("*/"), None)
        if found is None:
            raise InputError(
                f"the model that {lineage.name} started from, of run {lineage.start}, is no longer "
                "in MLflow"
            )
        yield str(found)


def _warn(changes: list[str]) -> None:
    """Names what may keep the last bits from being the same."""
    for change in changes[:SHOWN]:
        say(f"warning: {change}")
    if len(changes) > SHOWN:
        say(f"warning: and {len(changes) - SHOWN} more such differences")


def _compared(result: Result, lineage: Lineage) -> str:
    """Compares the models and records what is found."""
    from trireme.components.training.result.comparison import compare

    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "1")  # else it tells of this CPU's instructions
    again = lineages.read(result.run_id)
    reproduction.check_same("code", lineage.commit, again.commit, lineage.name)
    reproduction.check_same("dataset", lineage.fingerprint, again.fingerprint, lineage.name)
    reproduction.check_same("packages", lineage.packages, again.packages, lineage.name)
    original = lineages.download_model(lineage, result.directory / "original")
    comparison = compare(original, result.workspace / "model")
    lineages.link(result.run_id, lineage, comparison.in_words)
    if not comparison.identical:
        raise StepFailed(
            f"the model {comparison.in_words}; that of {lineage.name} is in {original}"
        )
    return f"{comparison.in_words}, as that of {lineage.name}"
