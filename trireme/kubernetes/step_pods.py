"""The step of a pipeline that a pod does the work of, by what Argo calls its node.

Argo names a node by the way to it, ``run.pipeline.steps.train(0)``: the number is that of the try.
Trireme's own compiler names a loop's turns ``round``; Kubeflow Pipelines' has an executor for each
step, and drivers beside it:
https://github.com/kubeflow/pipelines/tree/2.17.0/backend/src/v2/compiler/argocompiler
"""

import re
from typing import Any

from trireme.kubernetes.resources import NODE
from trireme.step_names import in_a_loop

CONTAINER = "main"
"""The container of such a pod that does the work."""

WORKFLOW = "workflows.argoproj.io/workflow"
"""The label of a pod that names its Workflow."""

ROUND = "round"
"""What Trireme's compiler calls a turn of a loop."""

_ROUND = re.compile(rf"\.{ROUND}\((\d+):index:")
_ITERATION = re.compile(r"iteration-iterations\((\d+):\d+\)(\(\d+\))?")
# The pod that does a step's work is the node "executor" below the step's own, or one of its tries.
_EXECUTOR = re.compile(r"(?P<above>.*)\.(?P<step>[^.()]+)(\(\d+\))?\.executor(\(\d+\))?")

# A driver is beside its task: train-driver, for-loop-1-driver; root-driver is that of all tasks.
_DRIVER = re.compile(r".*\.(?P<task>[^.()]+)-driver(\(\d+\))?")


def step_of(pod: dict[str, Any]) -> str:
    """Returns the step, with its turn in loops as in ``trial-003``; empty for what is none."""
    node = node_of(pod)
    if match := _EXECUTOR.fullmatch(node):
        return in_a_loop(match["step"], *turns_of(pod))
    if re.match(r"[^.]*\.root\b", node) or not node:  # another pod of Kubeflow Pipelines
        return ""
    return in_a_loop(untried(node).rpartition(".")[2], *turns(node))


def tasks_of(pod: dict[str, Any]) -> tuple[str, ...]:
    """Returns the names of the tasks down to the one that a pod of Kubeflow Pipelines is for."""
    node = untried(node_of(pod))
    node = node.removesuffix(".executor" if node.endswith(".executor") else "-driver")
    parts = node.split(".")[2:]
    return tuple(part for part in parts if part != "iteration-item" and not iteration(part))


def turns_of(pod: dict[str, Any]) -> list[int]:
    """Returns the numbers of the turns that a pod of Kubeflow Pipelines is in, outermost first."""
    return [int(turn[1]) for part in node_of(pod).split(".") if (turn := iteration(part))]


def driven_by(pod: dict[str, Any]) -> str:
    """Returns the task that a driver of Kubeflow Pipelines is for; empty for what is none."""
    match = _DRIVER.fullmatch(node_of(pod))
    return match["task"] if match else ""


def node_of(pod: dict[str, Any]) -> str:
    """Returns the whole name of a pod's node."""
    return str((pod["metadata"].get("annotations") or {}).get(NODE, ""))


def untried(node: str) -> str:
    """Returns the name of a pod's node without the numbers of its tries and its graphs'."""
    return re.sub(r"\(\d+\)", "", node)


def turns(node: str) -> list[int]:
    """Returns the numbers of the turns that a node of Trireme's compiler is in, outermost first."""
    return [int(turn) for turn in _ROUND.findall(node)]


def iteration(part: str) -> re.Match[str] | None:
    """Returns the match of a part of a node's name that is a turn on Kubeflow Pipelines."""
    return _ITERATION.fullmatch(part)
