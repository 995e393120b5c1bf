"""Shares of a sweep's trials: one each here, on a cluster every fourth, one after another.

There a step has a pod, on Kubeflow three, which take longer to start than a small trial takes, and
the Workflow of a run has room for the nodes of a few dozen steps.
"""

import json
from collections.abc import Iterator
from pathlib import Path

from trireme.evaluation.trials import RESULT, trial_folder
from trireme.files.home import in_a_pod
from trireme.files.whole_file import write_whole
from trireme.sweep.search_space import Trial

TRIALS = "trials.json"
"""The file in the run workspace that says what the sweep tries."""


def shares(trials: list[Trial], workspace: Path, at_once: int) -> list[str]:
    """Keeps what a sweep tries, and returns the share of each of its steps, for ``trials_of``."""
    write_whole(workspace / TRIALS, json.dumps([trial._asdict() for trial in trials]))
    steps = min(at_once, len(trials)) if in_a_pod() else len(trials)
    numbers = [trial.number for trial in trials]
    return [json.dumps(numbers[first::steps]) for first in range(steps)]


def is_many(share: str) -> bool:
    """Tells whether a share is of more than one trial."""
    return len(json.loads(share)) > 1


def trials_of(share: str, workspace: Path) -> Iterator[Trial]:
    """Yields the trials of a share; of many those that its step, if started again, has not made."""
    tried = json.loads((workspace / TRIALS).read_text())
    for number in json.loads(share):
        if not (is_many(share) and (trial_folder(workspace, number) / RESULT).exists()):
            yield Trial(**tried[number])
