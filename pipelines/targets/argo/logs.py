"""What the steps of a workflow have printed: the logs of its pods."""

from collections.abc import Iterable
from typing import Any

from trireme.components.errors import InputError
from trireme.components.kubernetes.connection import Cluster
from trireme.components.kubernetes.resources import PODS
from trireme.components.kubernetes.step_pods import WORKFLOW, node_of, untried
from trireme.components.step_names import without_index
from trireme.pipelines.targets import pod_logs
from trireme.pipelines.targets.argo import workflows
from trireme.pipelines.targets.argo.workflows import Workflow
from trireme.pipelines.targets.base import ENDED, OnLine


def logs(cluster: Cluster, workflow: Workflow, step: str, on_line: OnLine, *, follow: bool) -> None:
    """Passes on what the steps of a workflow have printed; see ``Target.logs``.

    Of a workflow that runs a step is waited for that has not begun.
    """
    if follow and workflow.state not in ENDED:

        def look() -> tuple[bool, list[tuple[str, dict[str, Any]]]]:
            now = workflows.find(cluster, workflow.name)
            mine = [each for each in pods(cluster, now) if pod_logs.is_of(each[0], step)]
            return now.state in ENDED, mine

        pod_logs.follow(cluster, look, on_line)
        workflow = workflows.find(cluster, workflow.name)
        pod_logs.check(step, _names(name for name, _ in pods(cluster, workflow)))
        return
    pod_logs.check(step, _names(each.name for each in workflow.begun))
    there = pods(cluster, workflow)
    if not there:
        raise InputError(
            f"run {workflow.name} has no pods in namespace {cluster.namespace}: either no step "
            "has started, or they are gone"
        )
    pod_logs.read(cluster, [each for each in there if pod_logs.is_of(each[0], step)], on_line)


def _names(steps: Iterable[str]) -> list[str]:
    return list(dict.fromkeys(map(without_index, steps)))


def pods(cluster: Cluster, workflow: Workflow) -> list[tuple[str, dict[str, Any]]]:
    """Returns the pods that do a step's work, with its name and turn, the oldest first."""
    names = {each.node: each.name for each in workflow.begun}
    listing = cluster.list(PODS, cluster.namespace, labelSelector=f"{WORKFLOW}={workflow.name}")
    found = sorted(listing["items"], key=lambda pod: str(pod["metadata"]["creationTimestamp"]))
    nodes = [(untried(node_of(pod)), pod) for pod in found]
    return [(names[node], pod) for node, pod in nodes if node in names]
