"""Read what MLflow has recorded of runs, to compare them."""

import re
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

from trireme.comparing.comparison import RecordedRun
from trireme.errors import TriremeError
from trireme.evaluation.options import BY_CLASS
from trireme.report import of_mlflow
from trireme.report.picture import numbers, state_of
from trireme.step_names import TRIAL, without_index
from trireme.tracking import arguments, journal, machine
from trireme.tracking.client import client
from trireme.tracking.store import reason_of

if TYPE_CHECKING:
    from mlflow.entities import Run

_ORIGIN = {
    "pipeline": "pipeline",
    "git.commit": "commit",
    "git.url": "code",
    "dataset.fingerprint": "dataset fingerprint",
    "dataset.uri": "dataset",
    "base_model.fingerprint": "base model fingerprint",
    "base_model.uri": "base model",
    "image": "image",
    "packages": "packages",
    "python": "Python",
    "cpu": "CPU",
}
"""Tags of a run that say where it came from, and what they are called."""

_TWICE = ("image", "dataset_uri", "base_model")
"""Parameters that the tags say better: of an image that is empty, which one was meant."""

_OF_A_STEP = re.compile(
    r"(cpu|duration|replica)_seconds|peak_memory_bytes|cost|(requested|dataset|difference)_.*"
    r"|.*_(low|high)|champion_.*|gain|preflight/.*|goodput/.*|(failed_|stopped_)?trials"
)
"""Metrics of a step alone by which nobody compares runs: what it used, and what is of another."""

_OF_A_LEDGER = re.compile(f"{journal.GOODPUT}(?!share)")
"""Metrics of a run's ledger of which only the goodput is compared."""

_PACKAGE = re.compile(r"([\w.-]+)(?:\[.*?\])?==([^\s;\\]+)")


def read(run: "Run") -> tuple[RecordedRun, str]:
    """Returns what MLflow has of a run, and why its packages are not among it."""
    tags, steps = run.data.tags, _steps(run)
    trained = _training(run, steps)
    params = arguments.each(run.data.params)
    if trained:  # which knows better what it was given
        of_program = {name for name in params if name.startswith(arguments.PREFIX)}
        params = {name: params[name] for name in params if name not in of_program}
        params |= arguments.each(trained.data.params)
    drawn = next((step for step in steps if step.info.run_name == tags.get("trial")), trained)
    packages, why = _packages(run, trained)
    recorded = RecordedRun(
        run_id=run.info.run_id,
        name=run.info.run_name or run.info.run_id,
        state=state_of(run.info.status),
        origin={word: tags[tag] for tag, word in _ORIGIN.items() if tag in tags},
        parameters={name: value for name, value in params.items() if name not in _TWICE},
        packages=packages,
        metrics=_metrics(run, steps, drawn),
        curves=of_mlflow.curves_of(drawn) if drawn else {},
    )
    return recorded, why


def _steps(run: "Run") -> "list[Run]":
    """Returns the runs of a run's steps, also those in the runs of conditions; not of trials."""
    experiment, runs = run.info.experiment_id, [run]
    for step in runs:  # it grows
        if not _is_trial(step) and "world_size" not in step.data.params:
            runs += client.nested_in(step, [experiment])
    return runs[1:]


def _is_trial(step: "Run") -> bool:
    return without_index(step.info.run_name or "") == TRIAL


def _training(run: "Run", steps: "list[Run]") -> "Run | None":
    """Returns the run of the step that trained, or chose the best of many trainings."""
    named = run.data.tags.get(journal.TRAINING)
    trained = [step for step in steps if "world_size" in step.data.params and not _is_trial(step)]
    return next((step for step in steps if step.info.run_id == named), next(iter(trained), None))


def _metrics(run: "Run", steps: "list[Run]", drawn: "Run | None") -> dict[str, float]:
    """Returns the metrics of the whole run, of its training, and of the other steps, in order."""
    of_whole = numbers(run.data.metrics)
    of_whole = {k: v for k, v in of_whole.items() if not _OF_A_LEDGER.match(k)}
    # Those of the training are in its own run, with their steps.
    metrics = {
        k: v for k, v in of_whole.items() if not (drawn and k.startswith(journal.OF_TRAINING))
    }
    others = [step for step in steps if step is not drawn and not _is_trial(step)]
    for step in filter(None, [drawn, *others]):
        for name, value in numbers(step.data.metrics).items():
            if not (_OF_A_STEP.fullmatch(name) or name.startswith(BY_CLASS)):
                clashes = name in metrics and metrics[name] != value
                metrics[f"{name} of {step.info.run_name}" if clashes else name] = value
    return metrics


def _packages(run: "Run", trained: "Run | None") -> tuple[dict[str, str], str]:
    """Returns the versions that a run had; those that it has installed itself come first."""
    files = [(run, machine.PACKAGES)]
    if trained and "packages" in run.data.tags:
        files.append((trained, journal.PACKAGES))
    versions: dict[str, str] = {}
    try:
        for of, name in files:
            if any(file.path == name for file in client.list_artifacts(of.info.run_id)):
                with tempfile.TemporaryDirectory() as directory:
                    file = Path(client.download_artifacts(of.info.run_id, name, directory))
                    lines = file.read_text(errors="replace").splitlines()
                matches = filter(None, map(_PACKAGE.match, lines))
                versions |= {match[1]: match[2] for match in matches}
    except (TriremeError, OSError, client.refusal) as error:
        return {}, f"The packages of {run.info.run_name} are not compared: {reason_of(error)}"
    return versions, ""
