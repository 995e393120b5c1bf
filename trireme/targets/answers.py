"""Answers on a run: how it is, and the lines of its steps."""

import re
from typing import Any

from trireme.answers.answer import moment
from trireme.answers.goodput import goodput
from trireme.answers.runs import RunStatus, StepLine, StepStatus
from trireme.targets.base import ENDED, Run, Target

_OF_A_REPLICA = re.compile(r"\[(?P<replica>[a-z][a-z-]*-\d+)\] (?P<line>.*)", re.DOTALL)

STATES = ("pending", "running", "FINISHED", "FAILED", "KILLED")
"""The states of runs that can be waited for."""

STOPPED = ("FAILED", "KILLED", "lost")
"""The states of runs that have not come to their end."""


def run_status(target: Target[Any], run: Run) -> RunStatus:
    """Returns how a run and its steps are, what came of it, and what helps."""
    steps = target.told(run)
    is_stopped = run.state in STOPPED
    return RunStatus(
        target=target.name,
        name=run.name,
        id=run.id,
        state=run.state,
        has_ended=has_ended(run.state),
        created=moment(run.created),
        seconds=run.seconds,
        message=run.message,
        result=run.result,
        steps=[
            StepStatus(name=step.name, state=step.state, seconds=step.seconds, result=step.result)
            for step in steps
        ],
        goodput=goodput(of) if (of := target.goodput(run)) else None,
        outcome=(target.outcome(run) if run.state in ENDED else {}) | run.facts,
        last_lines=target.last_lines(run).splitlines() if is_stopped else [],
        next=target.what_helps(run, steps) if is_stopped else {},
    )


def has_ended(state: str) -> bool:
    """Tells whether a run in a state has come to an end, whichever."""
    return state in (*ENDED, *STOPPED)


def step_line(step: str, text: str) -> StepLine:
    """Returns a line that a step has printed."""
    match = _OF_A_REPLICA.fullmatch(text)
    return StepLine(
        step=step,
        replica=match["replica"] if match else "",
        line=match["line"] if match else text,
    )
