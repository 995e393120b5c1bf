"""The answer that puts together what is known of a run or a job."""

from dataclasses import dataclass
from datetime import datetime
from typing import Literal

from trireme.answers.answer import Answer, Part
from trireme.answers.jobs import JobProgress

LiesWith = Literal["program", "machine", "limits", "input", "person", "unknown"]
"""What a failure lies with."""


@dataclass(frozen=True, kw_only=True)
class Cause(Part):
    """Why it failed."""

    kind: str
    """Such as exception or out-of-memory; docs/reference/causes.md lists them."""
    lies_with: LiesWith
    sentence: str
    step: str
    """The step of a run that failed first; empty of a job."""
    replica: str
    """The replica that is to blame; empty where none is known."""
    exit_status: int | None
    """With which that ended; null where that is not known."""
    exception: str
    """What its program has raised, with its words; empty for nothing."""
    place: str
    """Where in the program, as in train.py:88; empty where that is not known."""


@dataclass(frozen=True, kw_only=True)
class Wait(Part):
    """Something that is waited for."""

    what: str
    """A step or a replica; empty of the whole."""
    reason: str


@dataclass(frozen=True, kw_only=True)
class Evidence(Part):
    """Something that is known besides."""

    what: str
    """event, condition, node, memory, preflight, hang or step."""
    about: str
    """The replica, step or object."""
    sentence: str


@dataclass(frozen=True, kw_only=True)
class Tried(Part):
    """One start of the run or of a replica."""

    what: str
    """The replica's name, or run."""
    began: datetime
    seconds: float | None
    """Null while it lasts, or where nobody has seen its end."""
    result: str
    """How it ended; empty where that is not known."""


@dataclass(frozen=True, kw_only=True)
class Remedy(Part):
    """Something to do next."""

    what: str
    command: str
    """Empty where no command does it."""


@dataclass(frozen=True, kw_only=True)
class Explanation(Answer):
    """What is known of a run or a job, and what to do next."""

    kind: Literal["explanation"] = "explanation"
    of: Literal["run", "job"]
    name: str
    id: str = ""
    """What else it can be named by, as on Kubeflow; empty for nothing."""
    where: str
    """local, kfp, argo; of a job on a cluster its namespace."""
    state: str
    has_ended: bool
    created: datetime
    seconds: float
    summary: str
    """All of it in a sentence."""
    progress: JobProgress | None
    waits: list[Wait]
    cause: Cause | None
    """Null where it has not failed."""
    evidence: list[Evidence]
    last_lines: list[str]
    tried: list[Tried]
    advice: list[str]
    """What to change in its training job."""
    next: list[Remedy]
    notes: list[str]
    """What could not be asked, and why."""
