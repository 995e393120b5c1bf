"""The nodes of a run's workflow: of which step each is, and of which turn of the loops around it.

A turn is counted from 0, as in ``train-003``; of loops in loops, as in ``train-003-000``. What
Kubeflow Pipelines tells of a run has no numbers, only nodes that are called alike, each with the
ids of those below it. An id is made from the node's name in the workflow, which the pipeline tells:
https://github.com/kubeflow/pipelines/blob/2.17.0/backend/src/v2/compiler/argocompiler/dag.go
https://github.com/argoproj/argo-workflows/blob/v3.7.0/pkg/apis/workflow/v1alpha1/workflow_types.go
"""

import re
from functools import lru_cache
from itertools import product
from typing import Any

from components.step import in_a_loop
from pipelines.targets.steps import Part

_TURN = re.compile(r"iteration-iterations\((\d+):.*\)")

# The pod that does a step's work is the node "executor" below the step's own, or one of its tries.
_EXECUTOR = re.compile(r"(?P<above>.*)\.(?P<step>[^.]+)\.executor(\(\d+\))?")


def step_of(node: str) -> str:
    """Returns the step whose work a node does, with its turn; empty for a driver's.

    Args:
        node: The node's whole name.
    """
    found = _EXECUTOR.fullmatch(node)
    if not found:
        return ""
    parts = found["above"].split(".")
    return in_a_loop(found["step"], *(int(turn[1]) for part in parts if (turn := _turn(part))))


def by_turn(tasks: list[Any], way: list[Part]) -> dict[tuple[int, ...], Any]:
    """Returns what is told of the turns of a step, in their order, as far as they have begun.

    Args:
        tasks: All that is told of a run's nodes.
        way: The way to the step.
    """
    counted = sorted({int(turn[1]) for task in tasks if (turn := _turn(task.display_name or ""))})
    loops = sum(part.is_loop for part in way)
    below = {
        child.pod_name: task
        for task in tasks
        if task.display_name == way[-1].task
        for child in task.child_tasks or []
    }
    if not below:
        return {}
    workflow = next(iter(below)).rpartition("-")[0]
    found = {}
    for turns in product(counted, repeat=loops):
        number = _number(f"{workflow}.root.{_place(way, turns)}.executor")
        if task := below.get(f"{workflow}-{number}"):
            found[turns] = task
    return found


def _turn(part: str) -> re.Match[str] | None:
    return _TURN.fullmatch(part)


def _place(way: list[Part], turns: tuple[int, ...]) -> str:
    """Returns what a node is called below the workflow's root."""
    left = iter(turns)
    names = []
    for part in way:
        names.append(part.task)
        if part.is_loop:
            turn = next(left)
            names += [f"iteration-iterations({turn}:{turn})", "iteration-item"]
    return ".".join(names)


@lru_cache(maxsize=100_000)
def _number(node: str) -> str:
    """Returns what a node's id ends in: the 32-bit FNV-1a hash of its name."""
    number = 0x811C9DC5
    for byte in node.encode():
        number = (number ^ byte) * 0x01000193 & 0xFFFFFFFF
    return str(number)
