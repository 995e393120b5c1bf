"""Results of the trials of a sweep, in the run workspace."""

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from trireme.files.whole_file import write_whole

Value = str | int | float | bool

LINE = 200  # characters of the last words of a program that failed

RESULT = "trial.json"
"""The file in a trial's folder that says what came of it."""


@dataclass(frozen=True)
class TrialResult:
    """The result of a trial: its score, the greater the better, or why there is none.

    Attributes:
        failed: Why it failed.
        stopped: Why it was stopped early.
        is_validated: Whether the score is by other samples than those that judge the best trial.
    """

    number: int
    values: dict[str, Value]
    failed: str = ""
    detail: str = ""
    stopped: str = ""
    headline: str = ""
    score: float = 0.0
    entrypoint: str = ""
    params: dict[str, Any] = field(default_factory=dict)
    inputs: str = ""
    is_validated: bool = False

    @property
    def words(self) -> str:
        """All of it that a person wants to know first."""
        return f"{in_words(self.values)}: {self.came_of_it}"

    @property
    def came_of_it(self) -> str:
        """Its figures, or why there are none."""
        if self.failed:
            last = self.detail.strip().rpartition("\n")[2][:LINE]
            return ": ".join(["failed", self.failed, *filter(None, [last])])
        return f"stopped early: {self.stopped}" if self.stopped else self.headline

    @property
    def has_model(self) -> bool:
        """Whether it came to its end."""
        return not (self.failed or self.stopped)


def in_words(values: Mapping[str, Value]) -> str:
    """Returns what is different about a trial, for a person."""
    return " ".join(f"{name} {value}" for name, value in values.items())


def trial_folder(workspace: Path, number: int) -> Path:
    """Returns the folder of a trial in the run workspace, which is a workspace of its own."""
    return workspace / "trials" / f"{number:03}"


def save(tried: TrialResult, workspace: Path) -> None:
    """Keeps what came of a trial."""
    write_whole(trial_folder(workspace, tried.number) / RESULT, json.dumps(asdict(tried)))


def results(workspace: Path) -> list[TrialResult]:
    """Returns what came of the trials so far: the best first, those without a model last."""
    files = (workspace / "trials").glob(f"*/{RESULT}")
    trials = [TrialResult(**json.loads(file.read_text())) for file in files]
    return sorted(
        trials,
        key=lambda tried: (not tried.has_model, bool(tried.failed), -tried.score, tried.number),
    )
