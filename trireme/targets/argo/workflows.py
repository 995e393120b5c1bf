"""Workflows on a cluster: upload what they are made from, start, find, list and stop them."""

import json
import re
import time
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from hera.workflows import WorkflowTemplate

from trireme.kubernetes.connection import Cluster
from trireme.kubernetes.errors import AlreadyThere, NotFound
from trireme.kubernetes.resources import WORKFLOWS, Resource
from trireme.kubernetes.step_pods import turns, untried
from trireme.pipeline.pipeline import Pipeline
from trireme.step_names import in_a_loop
from trireme.targets import workflow_nodes
from trireme.targets.argo.compiling import PIPELINE, VERSION, as_given
from trireme.targets.argo.expressions import EXECUTOR_OUTPUT
from trireme.targets.base import NoSuchRun, Run, Step

TEMPLATES = Resource("argoproj.io", "v1alpha1", "workflowtemplates")
_NAME = re.compile(r"[a-z0-9]([-a-z0-9.]*[a-z0-9])?")  # of any object
LIMIT = 20  # workflows that are listed

_STATES = {"Succeeded": "FINISHED", "Failed": "FAILED", "Error": "FAILED", "": "pending"}


@dataclass(frozen=True)
class Node(Step):
    """A step of a workflow, and its node without the numbers of the tries."""

    node: str = field(default="", kw_only=True)


@dataclass(frozen=True, kw_only=True)
class Workflow(Run):
    """A run, as the API server has it, and its steps that have begun, in order."""

    begun: list[Node] = field(default_factory=list)
    uid: str = ""
    finished: float = 0.0
    made_from: str = ""
    given: dict[str, str] = field(default_factory=dict)

    @property
    def pipeline(self) -> str:
        """The name of its pipeline."""
        return self.made_from

    @property
    def parameters(self) -> dict[str, str]:
        """Values of its pipeline's parameters, those that are no texts as JSON."""
        return self.given

    @property
    def ended_at(self) -> float:
        """When it ended, or now; of a run that was resumed, ``seconds`` are those since then."""
        return self.finished or time.time()


def upload(cluster: Cluster, template: WorkflowTemplate) -> bool:
    """Applies a WorkflowTemplate; returns whether there was anything to do."""
    labels = template.labels or {}
    existing = cluster.find(TEMPLATES, str(template.name), cluster.namespace)
    if existing and (existing["metadata"].get("labels") or {}).get(VERSION) == labels[VERSION]:
        return False
    apply(cluster, template)
    return True


def apply(cluster: Cluster, template: WorkflowTemplate, **query: str) -> None:
    """Has a WorkflowTemplate be there as given."""
    body = json.loads(json.dumps(template.to_dict()))
    cluster.apply(TEMPLATES, body, cluster.namespace, force="true", **query)


def start(
    cluster: Cluster,
    pipeline: Pipeline,
    template: WorkflowTemplate,
    arguments: dict[str, Any],
    name: str,
) -> Workflow:
    """Starts a workflow of a pipeline."""
    # All that it runs is in the Workflow itself: what a name leads to may be changed by somebody
    # else meanwhile, and Argo's controller finds what was there before for a while.
    compiled: dict[str, Any] = json.loads(json.dumps(template.to_dict()))
    body = {
        "apiVersion": "argoproj.io/v1alpha1",
        "kind": "Workflow",
        "metadata": {"name": name, "labels": compiled["metadata"]["labels"]},
        "spec": with_arguments(compiled["spec"], pipeline, arguments),
    }
    try:
        return _read(cluster.create(WORKFLOWS, body, cluster.namespace))
    except AlreadyThere:  # the answer that it is made was lost; no other run has its name
        return find(cluster, name)


def as_parameters(pipeline: Pipeline, arguments: dict[str, Any]) -> list[dict[str, str]]:
    """Returns values of a pipeline's parameters as Argo is given them."""
    return [
        {"name": name, "value": as_given(value, pipeline.parameters[name].type)}
        for name, value in arguments.items()
    ]


def with_arguments(
    spec: dict[str, Any], pipeline: Pipeline, arguments: dict[str, Any]
) -> dict[str, Any]:
    """Returns what a Workflow runs with other values than its parameters' defaults."""
    values = {parameter["name"]: parameter for parameter in as_parameters(pipeline, arguments)}
    declared = (spec.get("arguments") or {}).get("parameters", [])
    parameters = [parameter | values.get(parameter["name"], {}) for parameter in declared]
    return spec | {"arguments": {"parameters": parameters}}


def every(cluster: Cluster) -> list[Workflow]:
    """Returns all workflows of pipelines, the newest first."""
    workflows = map(_read, cluster.each(WORKFLOWS, cluster.namespace, labelSelector=PIPELINE))
    return sorted(workflows, key=lambda workflow: workflow.created, reverse=True)


def delete(cluster: Cluster, workflow: Workflow) -> None:
    """Deletes a workflow, and with it its claims and pods."""
    with suppress(NotFound):  # as the answer that it is deleted may be lost
        cluster.delete(WORKFLOWS, workflow.name, cluster.namespace, workflow.uid)


def find(cluster: Cluster, name: str) -> Workflow:
    """Returns a workflow."""
    # What no object can be called would be another path to the API server.
    if _NAME.fullmatch(name) and (workflow := cluster.find(WORKFLOWS, name, cluster.namespace)):
        return _read(workflow)
    raise NoSuchRun(
        f"there is no run {name!r} in namespace {cluster.namespace}; 'trireme list --target argo' "
        "shows the latest"
    )


def cancel(cluster: Cluster, workflow: Workflow) -> None:
    """Stops a workflow: its steps are ended, and its exit handlers run."""
    workflow.check_cancel()
    cluster.patch(WORKFLOWS, workflow.name, cluster.namespace, {"spec": {"shutdown": "Stop"}})


def _read(workflow: dict[str, Any]) -> Workflow:
    metadata, status = workflow["metadata"], workflow.get("status") or {}
    phase = status.get("phase", "")
    state = _STATES.get(phase, phase.lower())
    if state == "FAILED" and workflow["spec"].get("shutdown"):
        state = "KILLED"
    created = _seconds(metadata["creationTimestamp"])
    return Workflow(
        metadata["name"],
        state,
        created,
        _took(status),
        message=status.get("message", ""),
        begun=_steps(status),
        uid=metadata["uid"],
        made_from=(metadata.get("labels") or {}).get(PIPELINE, ""),
        given={argument["name"]: argument.get("value", "") for argument in _arguments(workflow)},
        finished=_seconds(status["finishedAt"]) if status.get("finishedAt") else 0.0,
    )


def _arguments(workflow: dict[str, Any]) -> list[dict[str, str]]:
    return (workflow["spec"].get("arguments") or {}).get("parameters") or []


def _steps(status: dict[str, Any]) -> list[Node]:
    nodes = workflow_nodes.nodes(status)
    pods = [node for node in nodes.values() if node.get("type") == "Pod"]
    pods.sort(key=lambda node: str(node.get("startedAt")))
    by_name = {node["name"]: node for node in nodes.values()}
    steps = []
    for name, last in {untried(pod["name"]): pod for pod in pods}.items():
        above = re.sub(r"\(\d+\)$", "", last["name"])
        node = by_name.get(above, last)  # what is above the tries, or the only one
        waits = node.get("phase") == "Running" and last.get("phase") == "Pending"
        phase = "Pending" if waits else node.get("phase", "")
        counted = turns(name)
        step = last.get("templateName", "")
        # Above the tries Argo says only why there is no further one.
        message = (last if phase in ("Failed", "Error") else node).get("message", "")
        steps.append(
            Node(
                in_a_loop(step, *counted),
                _STATES.get(phase, phase.lower()),
                _took(node),
                _result(last) or message,
                loop=step if counted else "",
                began=_seconds(node["startedAt"]) if node.get("startedAt") else 0.0,
                node=name,
            )
        )
    return steps


def _result(node: dict[str, Any]) -> str:
    """Returns what the gate has refused, as the step evaluate returns it."""
    for output in (node.get("outputs") or {}).get("parameters") or []:
        if output["name"] == EXECUTOR_OUTPUT:
            values = json.loads(output.get("value") or "{}").get("parameterValues", {})
            if values.get("passed") is False and values.get("reason"):
                return f"not exported: {values['reason']}"
    return ""


def _took(timed: dict[str, Any]) -> float:
    if not timed.get("startedAt"):
        return 0.0
    ended = timed.get("finishedAt")
    return (_seconds(ended) if ended else time.time()) - _seconds(timed["startedAt"])


def _seconds(stamp: str) -> float:
    return datetime.fromisoformat(stamp).timestamp()
