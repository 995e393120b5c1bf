"""Train again from a run's commit, data and seed, and compare the models bit by bit."""

import os
import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any

from trireme.compiling.loading import ready
from trireme.errors import InputError, StepFailed
from trireme.pipelines import reproduction
from trireme.pipelines.reproduction import Load
from trireme.targets.base import Target
from trireme.terminal.console import Console
from trireme.text.say import say
from trireme.tracking import lineage as lineages
from trireme.tracking import store
from trireme.tracking.lineage import Lineage

if TYPE_CHECKING:
    from trireme.models.comparison import Comparison

SHOWN = 10  # differences between then and now that are told
ASYNCHRONOUS = (
    "parameter servers take the workers' updates as they come, in another order every time, so "
    "the models will differ"
)


def reproduce(target: Target[Any], run: str, reference: str, console: Console, load: Load) -> int:
    """Trains again as a run in MLflow did; returns the exit status.

    Args:
        target: Where it trains.
        run: Id or name of the run.
        reference: The run's pipeline; empty for one of Trireme's own.
        console: Where it is shown.
        load: Loads pipelines as they are for the target.
    """
    if not target.is_here and not os.environ.get("MLFLOW_TRACKING_URI"):
        raise InputError(
            f"--target {target.name}: MLFLOW_TRACKING_URI has to name the server that has the "
            "record of the run, and that runs there are recorded on"
        )
    store.use()
    lineage = lineages.read(run)
    if lineage.start and not lineages.has_trained(lineage.start):
        raise InputError(
            f"the model that {lineage.name} started from, of run {lineage.start}, is no longer "
            "in MLflow"
        )
    pipeline = reproduction.pipeline(lineage, reference, load)
    pipeline, arguments = ready(pipeline, reproduction.arguments(pipeline, lineage), target)
    if pipeline.bundle and pipeline.bundle.commit != lineage.commit:
        raise InputError(
            f"{lineage.name} was trained with the commit {lineage.commit} of {lineage.code}, and "
            f"{pipeline.name} has no parameter code_revision that would say so; check it out there"
        )
    if target.is_here:  # what a cluster has is known when it has run
        if "webhook_secret" in arguments:
            arguments["webhook_secret"] = ""  # which is told of a run that is cancelled here
        if not reference:
            reproduction.check_data(arguments, lineage)
        _warn(lineage, lineages.this_machine())
    if arguments.get("parameter_servers"):
        say(f"warning: {ASYNCHRONOUS}")
    name = pipeline.name_of_a_run()
    if status := target.run(pipeline, arguments, name, console, wait=True):
        return status
    # A run here goes on with that of MLflow which is named to it.
    repeated = lineages.read((target.is_here and os.environ.get("MLFLOW_RUN_ID")) or name)
    comparison = _compared(lineage, repeated)
    if comparison.identical:
        console.print(f"the model {comparison.in_words}, as that of {lineage.name}")
        return 0
    sys.stdout.flush()
    if not target.is_here:
        _warn(lineage, repeated.machine)
    raise StepFailed(
        f"the model {comparison.in_words}; MLflow has both, as runs:/{lineage.training_id}/model "
        f"and runs:/{repeated.training_id}/model"
    )


def _warn(lineage: Lineage, now: dict[str, str]) -> None:
    """Names what may keep the last bits from being the same."""
    changes = lineages.changes(lineage, now)
    for change in changes[:SHOWN]:
        say(f"warning: {change}")
    if len(changes) > SHOWN:
        say(f"warning: and {len(changes) - SHOWN} more such differences")


def _compared(lineage: Lineage, repeated: Lineage) -> "Comparison":
    """Compares the models and records what is found."""
    from trireme.models.comparison import compare

    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "1")  # else it tells of this CPU's instructions
    for what, of in (
        ("code", "commit"),
        ("dataset", "fingerprint"),
        ("base model", "base_model"),
        ("packages", "packages"),
    ):
        reproduction.check_same(what, getattr(lineage, of), getattr(repeated, of), lineage.name)
    with tempfile.TemporaryDirectory(prefix="trireme-") as directory:
        places = [Path(directory, name) for name in ("original", "again")]
        models = map(lineages.download_model, (lineage, repeated), places)
        comparison = compare(*models)
    lineages.link(repeated.run_id, lineage, comparison.in_words)
    return comparison
