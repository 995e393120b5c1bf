"""Follow a run on Kubeflow Pipelines to its end, in the words of a run here."""

import time

from components.errors import StepFailed, TriremeError
from pipelines.console import Console
from pipelines.targets.kubeflow import runs
from pipelines.targets.kubeflow.connection import Connection
from pipelines.targets.kubeflow.reading import ENDED, Run, Step

PAUSE = 2.0  # seconds between two looks


def follow(connection: Connection, run: Run, steps: list[str], console: Console) -> Run:
    """Shows a run's steps as they start and end; returns it as it has ended.

    Args:
        connection: The server.
        run: The run.
        steps: The names of all steps it may have.
        console: Where it is shown.
    """
    shown: dict[str, str] = {}
    with console.showing(steps):
        while True:
            run = runs.get(connection, run.id)
            has_ended = run.state in ENDED
            for name in steps:
                if step := run.steps.get(name):
                    shown[name] = _show(step, shown.get(name, ""), has_ended, console)
            if has_ended:
                return run
            time.sleep(PAUSE)


def error_of(run: Run, steps: list[str]) -> TriremeError | None:
    """Returns why a run that has ended has not done what it should; None if it has.

    Args:
        run: The run.
        steps: The names of all steps it may have.
    """
    if run.state == "FINISHED":
        return None
    if run.state == "KILLED":
        return TriremeError(f"run {run.name} was cancelled")
    failed = [name for name in steps if name in run.steps and run.steps[name].state == "FAILED"]
    at = f" at {', '.join(failed)}" if failed else ""
    why = f": {run.error}" if run.error else ""
    return StepFailed(f"run {run.name} failed{at}{why}")


def _show(step: Step, before: str, run_has_ended: bool, console: Console) -> str:
    """Shows what is new about a step; returns what is known of it now."""
    state = step.state
    if run_has_ended and state and state not in ENDED:
        state = "KILLED"  # with the run, before it could say so
    if state in ("", "pending", "skipped") or state == before:
        return before
    if not before:
        console.started(step.name)
    if state in ENDED:
        console.ended(step.name, state, "", step.seconds)
    return state
