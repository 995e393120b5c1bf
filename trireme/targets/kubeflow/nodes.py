"""The nodes of a run's workflow: of which step each is, and of which turn of the loops around it.

A turn is counted from 0, as in ``train-003``; of loops in loops, as in ``train-003-000``. What
Kubeflow Pipelines tells of a run has no numbers, only nodes that are called alike, each with the
ids of those below it. An id is made from the node's name in the workflow, which the pipeline tells.
Where Argo may try a template again, as all of them since Kubeflow Pipelines 2.17, each try is a
node of its own below, ``flow(0).root(0).train(0).executor(0)``:
https://github.com/kubeflow/pipelines/blob/2.17.0/backend/src/v2/compiler/argocompiler/dag.go
https://github.com/kubeflow/pipelines/blob/2.17.0/manifests/kustomize/third-party/argo/base/workflow-controller-configmap-patch.yaml
https://github.com/argoproj/argo-workflows/blob/v4.0.5/workflow/controller/operator.go
"""

from collections.abc import Sequence
from datetime import datetime
from functools import lru_cache
from itertools import product
from typing import Any, NamedTuple

from trireme.graph.model import StepPath
from trireme.kubernetes.pods import moment
from trireme.kubernetes.step_pods import iteration
from trireme.targets.workflow_nodes import nodes

_STATES = {
    "Pending": "PENDING",
    "Running": "RUNNING",
    "Succeeded": "SUCCEEDED",
    "Skipped": "SKIPPED",
    "Omitted": "SKIPPED",
    "Failed": "FAILED",
    "Error": "FAILED",
}
"""What Kubeflow Pipelines says for each phase of a node."""


class Child(NamedTuple):
    """A node below another one, by its id."""

    pod_name: str


class Task(NamedTuple):
    """A node, as Kubeflow Pipelines tells of it."""

    display_name: str
    state: str
    start_time: datetime | None
    end_time: datetime | None
    child_tasks: list[Child]


def tasks_of(status: dict[str, Any]) -> list[Task]:
    """Returns what Kubeflow Pipelines would tell of the nodes in the status of a Workflow."""
    return [
        Task(
            node.get("displayName", ""),
            _STATES.get(node.get("phase", ""), ""),
            _moment(node.get("startedAt")),
            _moment(node.get("finishedAt")),
            [Child(child) for child in node.get("children") or []],
        )
        for node in nodes(status).values()
    ]


def tasks_by_turn(tasks: Sequence[Any], path: StepPath) -> dict[tuple[int, ...], Any]:
    """Returns what is told of the turns of a step, in their order, as far as they have begun."""
    counted = sorted(
        {int(turn[1]) for task in tasks if (turn := iteration(task.display_name or ""))}
    )
    loops = sum(task.is_loop for task in path)
    parents = {
        child.pod_name: task for task in tasks for child in task.child_tasks or [] if child.pod_name
    }
    if not parents:
        return {}
    workflow = next(iter(parents)).rpartition("-")[0]
    tasks_of_turns = {}
    for turns in product(counted, repeat=loops):
        if task := _last_try_of(workflow, _node_names(path, turns), parents):
            tasks_of_turns[turns] = task
    return tasks_of_turns


def _node_names(path: StepPath, turns: tuple[int, ...]) -> list[str]:
    """Returns what the nodes from the one below the workflow down to a step are called."""
    left = iter(turns)
    names = ["root"]
    for task in path:
        names.append(task.name)
        if task.is_loop:
            turn = next(left)
            names += [f"iteration-iterations({turn}:{turn})", "iteration-item"]
    return names


def _last_try_of(workflow: str, names: list[str], parents: dict[str, Any]) -> Any:
    """Returns what is told of a node, or of all its tries, by what is told of each one's parent."""

    def last_try(node: str) -> str:
        tries = 0
        while _id(workflow, f"{node}({tries})") in parents:
            tries += 1
        return f"{node}({tries - 1})" if tries else node

    node = workflow
    for name in names:
        node = f"{last_try(node)}.{name}"
    return parents.get(_id(workflow, f"{node}(0)")) or parents.get(
        _id(workflow, f"{node}.executor")
    )


@lru_cache(maxsize=100_000)
def _id(workflow: str, node: str) -> str:
    return f"{workflow}-{_number(node)}"


def _number(node: str) -> str:
    """Returns what a node's id ends in: the 32-bit FNV-1a hash of its name."""
    number = 0x811C9DC5
    for byte in node.encode():
        number = (number ^ byte) * 0x01000193 & 0xFFFFFFFF
    return str(number)


def _moment(text: str | None) -> datetime | None:
    return moment(text) if text else None
