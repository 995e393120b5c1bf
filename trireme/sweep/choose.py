"""Take the best model of a sweep for the model of the run."""

import shutil
from pathlib import Path
from typing import NamedTuple

from trireme.errors import StepFailed
from trireme.evaluation.trials import TrialResult, results, trial_folder
from trireme.runner.inputs import TAG
from trireme.runner.training_step import fix_links
from trireme.step_names import TRIAL, in_a_loop
from trireme.sweep.search_space import study_path
from trireme.tracking import journal, unsent_metrics
from trireme.tracking.arguments import PREFIX

LOGS = "steps/train"
"""What a trial leaves in its folder, and a training in the run workspace."""


class Chosen(NamedTuple):
    """The best model of a sweep."""

    model: str
    entrypoint: str


def choose(workspace: Path) -> Chosen:
    """Puts what the best trial left where a training without a sweep would have left it."""
    tried = results(workspace)
    for result in sorted(tried, key=lambda result: result.number):
        print(result.words, flush=True)
    failed = [result for result in tried if result.failed]
    stopped = [result for result in tried if result.stopped]
    best = tried[0]
    if not best.has_model:  # none is stopped before one has come to its end, so all have failed
        reason = f"all {len(tried)} trials failed, as the first did: {best.failed or best.stopped}"
        raise StepFailed(reason, best.detail)
    folder = trial_folder(workspace, best.number)
    for name in ("model", "checkpoints"):
        _move(folder / name, workspace / name)
    # The trial's own record may still have to be brought to MLflow.
    shutil.copytree(folder / LOGS, workspace / LOGS, dirs_exist_ok=True)
    if (unsent := workspace / "checkpoints" / unsent_metrics.NAME).is_file():
        (folder / "checkpoints").mkdir(exist_ok=True)
        unsent.rename(folder / "checkpoints" / unsent.name)
    _record(best, len(tried), len(failed), len(stopped))
    journal.log_metrics({"replica_seconds": _replica_seconds(tried, workspace)})
    model = workspace / "model"
    journal.log_artifact(model, journal.MODEL)
    if (searched := study_path(workspace)).exists():
        journal.log_artifact(searched)
    return Chosen(str(model), best.entrypoint)


def _move(source: Path, destination: Path) -> None:
    """Moves what a trial has left, unless an earlier attempt of this step has done it."""
    # Which has put the trial's metrics back.
    if source.exists() and [path.name for path in source.iterdir()] != [unsent_metrics.NAME]:
        shutil.rmtree(destination, ignore_errors=True)
        source.rename(destination)
        fix_links(destination, source)


def _replica_seconds(tried: list[TrialResult], workspace: Path) -> float:
    """Returns what all trainings together took."""
    steps = (in_a_loop(TRIAL, result.number) for result in tried)
    records = (record for step in steps for record in journal.read(workspace, step))
    return sum(record.get("metrics", {}).get("replica_seconds", 0.0) for record in records)


def _record(best: TrialResult, count: int, failed: int, stopped: int) -> None:
    journal.log_params(best.params)
    args = {name: value for name, value in best.params.items() if name.startswith(PREFIX)}
    journal.log_run_params(args)
    journal.log_metrics({"trials": count, "failed_trials": failed, "stopped_trials": stopped})
    name = in_a_loop(TRIAL, best.number)
    journal.log_tags({"trial": name, "image": str(best.params["image"]), TAG: best.inputs})
    note = f", {failed} of which failed" if failed else ""
    note += f", {stopped} of which were stopped early" if stopped else ""
    journal.summarize(f"the best of {count}{note}: {name} {best.words}")
