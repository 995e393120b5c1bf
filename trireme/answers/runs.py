"""Answers on runs of pipelines."""

from dataclasses import dataclass
from datetime import datetime
from typing import Literal

from trireme.answers.answer import Answer, Part
from trireme.answers.goodput import Goodput


@dataclass(frozen=True, kw_only=True)
class ListedRun(Part):
    """A run in a list."""

    name: str
    id: str
    """What else it can be named by, as on Kubeflow; empty for nothing."""
    state: str
    """FINISHED, FAILED or KILLED; before that pending, running, paused or stopping; or lost."""
    created: datetime
    seconds: float
    """How long it has taken."""
    parameters: dict[str, str]
    """Those of its parameters that not all listed runs of its pipeline share."""
    result: str
    """What came of it, or why it failed, in a few words; empty where nothing is known."""


@dataclass(frozen=True, kw_only=True)
class RunList(Answer):
    """Runs of a target, the latest first."""

    kind: Literal["run-list"] = "run-list"
    target: str
    runs: list[ListedRun]


@dataclass(frozen=True, kw_only=True)
class StepStatus(Part):
    """A step of a run."""

    name: str
    """In a loop with its turn, as in trial-003."""
    state: str
    """FINISHED, FAILED, KILLED or skipped; pending, running, stopping, paused; or lost."""
    seconds: float
    """How long it has run; 0 where that is not known."""
    result: str
    """What came of it, how far it is, or what it waits for, in a few words."""


@dataclass(frozen=True, kw_only=True)
class RunStatus(Answer):
    """A run and its steps."""

    kind: Literal["run-status"] = "run-status"
    target: str
    name: str
    id: str
    """What else it can be named by, as on Kubeflow; empty for nothing."""
    state: str
    """FINISHED, FAILED or KILLED; before that pending, running, paused or stopping; or lost."""
    has_ended: bool
    created: datetime
    seconds: float
    """How long it has taken."""
    message: str
    """What the target says of how it is; empty for nothing."""
    result: str
    """What came of it, or why it failed, in a few words; empty where nothing is known."""
    steps: list[StepStatus]
    """Those that have begun, in order."""
    goodput: Goodput | None
    """What its trainings' time went to; null where none has begun, and of runs on a cluster, of
    which MLflow has it: see trireme goodput."""
    outcome: dict[str, str]
    """What came of it, in a person's words, and where its things are."""
    last_lines: list[str]
    """Of what has failed: the last lines that it printed."""
    next: dict[str, str]
    """Commands that help, by what they do."""


@dataclass(frozen=True, kw_only=True)
class StepLine(Part):
    """A line that a step has printed: an object a line, with neither kind nor version."""

    step: str
    replica: str
    """Of a training, such as worker-0; empty where no replica has printed it."""
    line: str
