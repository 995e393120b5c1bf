"""Follow a run on Kubeflow Pipelines to its end, in the words of a run here."""

import time

from trireme.components.errors import StepFailed, TriremeError
from trireme.pipelines.console import Console
from trireme.pipelines.targets.kubeflow import reading, runs
from trireme.pipelines.targets.kubeflow.connection import Connection
from trireme.pipelines.targets.kubeflow.reading import ENDED, Run, Step
from trireme.pipelines.targets.steps import Part

PAUSE = 2.0  # seconds between two looks


def follow(connection: Connection, run: Run, steps: dict[str, list[Part]], console: Console) -> Run:
    """Shows a run's steps as they start and end; returns it as it has ended.

    Args:
        connection: The server.
        run: The run.
        steps: The ways to all steps it may have, by their names.
        console: Where it is shown.
    """
    shown: dict[str, str] = {}
    with console.showing(list(steps)):
        while True:
            run = runs.get(connection, run.id)
            has_ended = run.state in ENDED
            for step in reading.steps_of(run, steps):
                shown[step.name] = _show(step, shown.get(step.name, ""), has_ended, console)
            if has_ended:
                return run
            time.sleep(PAUSE)


def error_of(run: Run, steps: dict[str, list[Part]], said: dict[str, str]) -> TriremeError | None:
    """Returns why a run that has ended has not done what it should; None if it has.

    Args:
        run: The run.
        steps: The ways to all steps it may have, by their names.
        said: What steps have said of how they ended, by their names, as far as that is known.
    """
    if run.state == "FINISHED":
        return None
    if run.state == "KILLED":
        return TriremeError(f"run {run.name} was cancelled")
    failed = [step.name for step in reading.steps_of(run, steps) if step.state == "FAILED"]
    at = f" at {', '.join(failed)}" if failed else ""
    reasons = [said[name] for name in failed if name in said] + [run.error]
    why = (
        f": {reasons[0]}" if reasons[0] else ""
    )  # Kubeflow itself says no more than that it failed
    return StepFailed(f"run {run.name} failed{at}{why}")


def _show(step: Step, before: str, run_has_ended: bool, console: Console) -> str:
    """Shows what is new about a step; returns what is known of it now."""
    state = step.state
    if run_has_ended and state and state not in ENDED:
        state = "KILLED"  # with the run, before it could say so
    if state in ("", "pending", "skipped") or state == before:
        return before
    if not before:
        console.started(step.name, step.loop)
    if state in ENDED:
        console.ended(step.name, state, "", step.seconds)
    return state
