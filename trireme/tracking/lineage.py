"""The lineage of a run, as MLflow tells it: enough to make it again."""

import re
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import partial
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING

from trireme.errors import InputError, TriremeError
from trireme.files.workspace import written_whole
from trireme.tracking import journal, machine, store
from trireme.tracking.client import PARENT, client, every
from trireme.tracking.journal import MODEL, PACKAGES, TRAINING
from trireme.tracking.store import public, reason_of

if TYPE_CHECKING:
    from mlflow.entities import Run

VARIED = ("entrypoint", "args", "workers", "processes_per_worker", "seed")
"""Parameters that a sweep varies: those of the training count, not those of the pipeline."""

START, NOTHING = "warm_start.run", "none"
"""The tag with the run whose MODEL_DIR a warm start began with, and its value for no run."""

OF_A_RUN = "runs:/"
"""How a start begins that names the pipeline run whose MODEL_DIR it is, in place of a folder."""

PAGE = 200  # runs that MLflow is asked for at once

_ID = re.compile(r"[0-9a-f]{32}")
_NAME = re.compile(r"[\w.-]+")
_COMMITS = {
    "dataset_uri": ("dataset.commit",),
    "base_model": ("base_model.commit", "base_model.version"),
}
_NEEDED = {"git.commit": "commit", "dataset.fingerprint": "fingerprint of its dataset"}


@dataclass(frozen=True)
class Lineage:
    """What a pipeline run was made from.

    Attributes:
        pipeline: The pipeline's name.
        framework: What connected the replicas.
        has_bundle: Whether MLflow has the code itself, which may be on no server.
        trainers: The release of Trireme whose reference trainers it is; empty for a repository.
        start: The run whose MODEL_DIR a warm start began with; empty for none.
        base_model: The fingerprint of what training started from; empty where that is nothing.
        commits: Commits of the Hugging Face repositories that it read, and the version of a
            registered model, by the parameter that named each.
        packages: The hash of its packages' lock; empty where it required none.
        machine: What it computed with, by name: ``Python``, ``CPU`` and all packages.
    """

    run_id: str
    name: str
    experiment: str
    pipeline: str
    params: dict[str, str]
    framework: str
    code: str
    commit: str
    has_bundle: bool
    trainers: str
    fingerprint: str
    start: str
    base_model: str
    commits: dict[str, str]
    packages: str
    machine: dict[str, str]
    training_id: str


@contextmanager
def _refusals_explained() -> Iterator[None]:
    """Says in one sentence what MLflow refuses."""
    try:
        yield
    except client.refusal as error:
        from mlflow import get_tracking_uri

        uri = public(get_tracking_uri())
        raise TriremeError(f"MLflow at {uri} refuses: {reason_of(error)}") from None


@_refusals_explained()
def read(reference: str) -> Lineage:
    """Reads what a run, or a step of one, was made from, by its id or name."""
    run = _find(reference)
    while parent := run.data.tags.get(PARENT):
        run = _find(parent)  # of which this is one part
    tags, label = run.data.tags, f"run {run.info.run_name} ({run.info.run_id})"
    if "pipeline" not in tags:
        raise InputError(f"{label} is not a run of a Trireme pipeline")
    for tag, meaning in _NEEDED.items():
        if tag not in tags:
            raise InputError(f"{label} has no record of the {meaning}, the tag {tag}")
    training = _training(run)
    if training is None:
        raise InputError(f"{label} has no model to compare with: its training did not succeed")
    varied = {name: value for name, value in training.data.params.items() if name in VARIED}
    return Lineage(
        run_id=run.info.run_id,
        name=run.info.run_name,
        experiment=client.get_experiment(run.info.experiment_id).name,
        pipeline=tags["pipeline"],
        params=run.data.params | varied,
        framework=training.data.params["framework"],
        code=tags["git.url"],
        commit=tags["git.commit"],
        has_bundle="git.bundle" in tags,
        trainers=tags.get("trainers.version", ""),
        fingerprint=tags["dataset.fingerprint"],
        start=_start(run),
        base_model=tags.get("base_model.fingerprint", ""),
        commits={
            name: tags[tag] for name, names in _COMMITS.items() for tag in names if tag in tags
        },
        packages=tags.get("packages", ""),
        machine=_machine(run),
        training_id=training.info.run_id,
    )


@_refusals_explained()
def name_of_whole(run_id: str) -> str:
    """Returns the name of the run of a pipeline that a run is a part of."""
    return str(client.whole(client.get_run(run_id)).info.run_name)


def this_machine() -> dict[str, str]:
    """Returns what a run here would compute with."""
    return _versions(sys.version.split()[0], machine.cpu(), machine.packages())


def changes(lineage: Lineage, now: dict[str, str]) -> list[str]:
    """Says what another run computes with, where that is not what the run computed with."""
    return [
        f"{name} was {then} and is {now.get(name, 'not installed')}"
        for name, then in lineage.machine.items()
        if now.get(name) != then
    ]


@_refusals_explained()
def download_model(lineage: Lineage, directory: Path) -> Path:
    """Brings what the run's training program left in MODEL_DIR; returns where it is in there."""
    directory.mkdir()
    return Path(client.download_artifacts(lineage.training_id, MODEL, str(directory)))


@_refusals_explained()
def download_packages(training_id: str, directory: Path) -> Path:
    """Brings the lock of the packages that a training had; returns where it is."""
    return Path(client.download_artifacts(training_id, PACKAGES, str(directory)))


def start_folder(start: str, workspace: Path) -> str:
    """Returns the folder that a step's training starts from, brought first if it is of a run."""
    if not start.startswith(OF_A_RUN):
        return start
    run_id = start.removeprefix(OF_A_RUN)
    store.use()
    with written_whole(workspace / "start") as partial:
        download_trained(run_id, partial / "trained")
    trained = next((workspace / "start" / "trained").glob("*/"), None)
    if trained is None:
        raise InputError(f"start {start}: the model of that run is no longer in MLflow")
    journal.log_tags({START: run_id})
    return str(trained)


@_refusals_explained()
def has_trained(run_id: str) -> bool:
    """Tells whether MLflow has what the training of a pipeline run left in MODEL_DIR."""
    try:
        training = _training(client.get_run(run_id))
    except client.refusal:
        return False
    return training is not None and bool(client.list_artifacts(training.info.run_id, MODEL))


@_refusals_explained()
def download_trained(run_id: str, directory: Path) -> None:
    """Brings what the training of a pipeline run left in MODEL_DIR, if it is still there."""
    directory.mkdir()
    try:
        run = client.get_run(run_id)
    except client.refusal:
        return
    if training := _training(run):
        with suppress(client.refusal):  # it is gone
            client.download_artifacts(training.info.run_id, MODEL, str(directory))


@_refusals_explained()
def ended_since(
    experiment_id: str, since: int, tags: dict[str, str], having: str, limit: int
) -> "list[Run]":
    """Returns the pipelines' runs since a moment, in milliseconds, the latest first.

    Args:
        tags: Those that they have, with their values.
        having: A tag that they have, with any value.
        limit: How many of the latest.
    """
    conditions = [f"tags.`{name}` = '{value}'" for name, value in tags.items()]
    conditions += [f"tags.`{having}` LIKE '%'", f"attributes.start_time > {since}"]
    query = " and ".join([*conditions, "attributes.status = 'FINISHED'"])
    order = ["attributes.start_time DESC"]
    search = partial(client.search_runs, max_results=PAGE, order_by=order)
    runs = every(search, [experiment_id], query)
    # Not the runs of steps, which have the same tags.
    return list(islice((run for run in runs if PARENT not in run.data.tags), limit))


@_refusals_explained()
def link(run_id: str, lineage: Lineage, verdict: str) -> None:
    """Records on a run what it was compared with, and what was found."""
    client.set_tag(run_id, "reproduces", lineage.run_id)
    client.set_tag(run_id, "reproduction", verdict)


def _start(run: "Run") -> str:
    """Returns the run whose MODEL_DIR a run has started from."""
    start = run.data.tags.get(START, NOTHING)
    if START not in run.data.tags and run.data.params.get("warm_start") == "True":
        raise InputError(
            f"run {run.info.run_name} started from another's model, and which one is not recorded"
        )
    return "" if start == NOTHING else str(start)


def _find(reference: str) -> "Run":
    matches: list[Run] = []
    if _NAME.fullmatch(reference):
        experiments = client.experiment_ids()
        attribute = "run_id" if _ID.fullmatch(reference) else "run_name"
        matches = client.search_runs(experiments, f"attributes.{attribute} = '{reference}'")
    if len(matches) != 1:
        several = f"there are {len(matches)} runs of that name in MLflow; give the id of one"
        none = "there is no run of that id or name in MLflow"
        raise InputError(f"RUN {reference!r}: {several if matches else none}")
    return matches[0]


def _training(run: "Run") -> "Run | None":
    """Returns the run of the step that trained, if that kept a model."""
    step = run.data.tags.get(TRAINING)
    return client.get_run(step) if step else None


def _machine(run: "Run") -> dict[str, str]:
    with tempfile.TemporaryDirectory() as directory:
        file = client.download_artifacts(run.info.run_id, machine.PACKAGES, directory)
        packages = Path(file).read_text()
    return _versions(run.data.tags.get("python", ""), run.data.tags.get("cpu", ""), packages)


def _versions(python: str, cpu: str, packages: str) -> dict[str, str]:
    pairs = (line.partition("==") for line in packages.splitlines())
    versions = {"Python": python, "CPU": cpu} | {name: version for name, _, version in pairs}
    return {name: version for name, version in versions.items() if version}
