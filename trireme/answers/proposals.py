"""Answers of an agent's tools alone."""

from dataclasses import dataclass
from typing import Literal

from trireme.answers.answer import Answer
from trireme.answers.jobs import JobStatus
from trireme.answers.plans import RunPlan
from trireme.answers.runs import RunStatus


@dataclass(frozen=True, kw_only=True)
class Lines(Answer):
    """The last lines of a log."""

    kind: Literal["lines"] = "lines"
    lines: list[str]
    """Each with its step or replica before it."""
    left_out: int
    """How many came before."""


@dataclass(frozen=True, kw_only=True)
class Proposal(Answer):
    """A change: first what it would be, then, once it is confirmed, that it was made."""

    kind: Literal["proposal"] = "proposal"
    what: str
    """What would happen, or has happened."""
    done: bool
    confirm: str
    """Give this with the same arguments to have it done; empty when it is done."""
    plan: RunPlan | None
    """What a new run would create, request and cost."""
    run: RunStatus | None
    """The run that it is about, as it is now."""
    job: JobStatus | None
    """The job that it is about, as it is now."""
