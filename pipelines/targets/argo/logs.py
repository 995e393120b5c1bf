"""What the steps of a workflow have printed: the logs of its pods."""

from typing import Any

from trireme.components.errors import InputError
from trireme.components.kubernetes.connection import Cluster
from trireme.components.kubernetes.resources import NODE, PODS
from trireme.components.step import without_index
from trireme.pipelines.targets import pod_logs
from trireme.pipelines.targets.argo import workflows
from trireme.pipelines.targets.argo.workflows import ENDED, Workflow
from trireme.pipelines.targets.pod_logs import OnLine

WORKFLOW = "workflows.argoproj.io/workflow"


def logs(cluster: Cluster, workflow: Workflow, step: str, on_line: OnLine) -> None:
    """Passes on what the steps of a workflow have printed so far, in the order they started in.

    Args:
        cluster: The cluster.
        workflow: The workflow.
        step: The only one to read, or one turn of it; empty for all.
        on_line: Called with a step's name, and its turn in a loop, and each line.

    Raises:
        InputError: There is no such step, or no pod of the workflow is left.
    """
    begun = list(dict.fromkeys(without_index(each.name) for each in workflow.steps))
    pod_logs.check(step, begun)
    there = pods(cluster, workflow)
    if not there:
        raise InputError(
            f"run {workflow.name} has no pods in namespace {cluster.namespace}: either no step "
            "has started, or they are gone"
        )
    wanted = [(name, pod) for name, pod in there if pod_logs.is_of(name, step)]
    pod_logs.read(cluster, wanted, on_line)


def follow(cluster: Cluster, workflow: Workflow, step: str, on_line: OnLine) -> None:
    """Passes on what the steps of a workflow print, until it has ended.

    Args:
        cluster: The cluster.
        workflow: The workflow.
        step: As for ``logs``; one that has not begun is waited for.
        on_line: As for ``logs``, from several threads; ends it all with a BrokenPipeError.

    Raises:
        InputError: As for ``logs``, where the workflow has ended already.
    """
    if workflow.state in ENDED:
        logs(cluster, workflow, step, on_line)
        return

    def look() -> tuple[bool, list[tuple[str, dict[str, Any]]]]:
        now = workflows.find(cluster, workflow.name)
        mine = [each for each in pods(cluster, now) if pod_logs.is_of(each[0], step)]
        return now.state in ENDED, mine

    pod_logs.follow(cluster, look, on_line)
    begun = [name for name, _ in pods(cluster, workflows.find(cluster, workflow.name))]
    pod_logs.check(step, list(dict.fromkeys(map(without_index, begun))))


def pods(cluster: Cluster, workflow: Workflow) -> list[tuple[str, dict[str, Any]]]:
    """Returns the pods that do a step's work, with its name and turn, the oldest first."""
    names = {each.node: each.name for each in workflow.steps}
    listing = cluster.list(PODS, cluster.namespace, labelSelector=f"{WORKFLOW}={workflow.name}")
    found = sorted(listing["items"], key=lambda pod: str(pod["metadata"]["creationTimestamp"]))
    nodes = [
        (workflows.untried((pod["metadata"].get("annotations") or {}).get(NODE, "")), pod)
        for pod in found
    ]
    return [(names[node], pod) for node, pod in nodes if node in names]
