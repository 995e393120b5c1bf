"""Reading what Kubeflow Pipelines says of a run, in the words of a run here."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from trireme.graph.model import StepPath
from trireme.step_names import in_a_loop
from trireme.targets import base
from trireme.targets.base import Step
from trireme.targets.kubeflow import nodes
from trireme.targets.kubeflow.connection import Connection
from trireme.text import json_values

WORDS = {
    "PENDING": "pending",
    "RUNNING": "running",
    "PAUSED": "paused",
    "CANCELING": "stopping",
    "SUCCEEDED": "FINISHED",
    "SKIPPED": "skipped",
    "FAILED": "FAILED",
    "CANCELED": "KILLED",
}
"""What a local run would say, for each of Kubeflow Pipelines' states."""

# Nodes of the workflow with the same name, as in a loop, are shown as one: the first of these.
_FIRST = ("FAILED", "running", "stopping", "paused", "pending", "KILLED", "FINISHED", "skipped")


@dataclass(frozen=True, kw_only=True)
class Run(base.Run):
    """A run, as the server has it.

    Attributes:
        tasks: What the server tells of the nodes of its Workflow.
    """

    page: str
    tasks: Sequence[Any]
    source: Any

    @property
    def pipeline(self) -> str:
        """The id of its pipeline."""
        reference = self.source.pipeline_version_reference
        return str(reference.pipeline_id) if reference else ""

    @property
    def parameters(self) -> Mapping[str, Any]:
        """Values of its pipeline's parameters."""
        config = self.source.runtime_config
        values: dict[str, Any] = json_values.whole((config.parameters if config else None) or {})
        return values

    @property
    def facts(self) -> dict[str, str]:
        """Its id and its page."""
        return {"Id": self.id, "Page": self.page}


def run(connection: Connection, source: Any) -> Run:
    """Returns a run as the server has told it."""
    details = source.run_details.task_details if source.run_details else None
    return Run(
        id=source.run_id,
        name=source.display_name or "",
        state=_state(source),
        created=source.created_at.timestamp() if source.created_at else 0.0,
        seconds=_seconds(source.created_at, source.finished_at),
        message=" ".join((source.error.message or "").split()) if source.error else "",
        page=connection.page(f"/runs/details/{source.run_id}"),
        tasks=details or (),
        source=source,
    )


def begun_steps(run: Run, step_paths: dict[str, StepPath]) -> list[Step]:
    """Returns the steps of a run that have begun, each turn of a loop a step of its own."""
    steps_by_name: dict[str, Step] = {}
    for task in run.tasks:
        step = _step(task.display_name or "", task)
        other = steps_by_name.get(step.name)
        if other is None or _rank(step) < _rank(other):
            steps_by_name[step.name] = step
    steps = []
    for name, path in step_paths.items():
        is_in_a_loop, has_its_name = any(task.is_loop for task in path), path[-1].name == name
        loop = name if is_in_a_loop else ""
        # Of a pipeline that is used twice the nodes are called alike, as those of a loop's turns.
        alike = is_in_a_loop or not has_its_name
        if turns := nodes.tasks_by_turn(run.tasks, path) if alike else {}:
            steps += [_step(in_a_loop(name, *turn), task, loop) for turn, task in turns.items()]
        elif has_its_name and name in steps_by_name:
            steps.append(steps_by_name[name])
    return steps


def _step(name: str, task: Any, loop: str = "") -> Step:
    seconds = _seconds(task.start_time, task.end_time)
    began = task.start_time.timestamp() if task.start_time and seconds else 0.0
    return Step(name, WORDS.get(task.state or "", ""), seconds, loop=loop, began=began)


def _state(source: Any) -> str:
    """Returns a run's state; of one that was terminated the server says that it failed."""
    history = [status.state for status in source.state_history or []]
    if source.state == "FAILED" and history[-2:-1] == ["CANCELING"]:
        return "KILLED"
    return WORDS.get(source.state or "", "")


def _rank(step: Step) -> int:
    return _FIRST.index(step.state) if step.state else len(_FIRST)


def _seconds(started: datetime | None, ended: datetime | None) -> float:
    """Returns how long something took, or has taken; what has not ended ended in 1970."""
    if started is None or started.timestamp() <= 0:
        return 0.0
    over = ended is not None and ended.timestamp() > 0
    end = ended if over and ended else datetime.now(UTC)
    return max(0.0, (end - started).total_seconds())
