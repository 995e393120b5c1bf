"""Logs of the steps of a workflow: those of its pods."""

from collections.abc import Callable
from functools import partial

from trireme.kubernetes.connection import Cluster
from trireme.kubernetes.step_pods import WORKFLOW, node_of, untried
from trireme.step_names import without_index
from trireme.targets import pod_logs
from trireme.targets.argo import workflows
from trireme.targets.argo.workflows import Workflow
from trireme.targets.base import ENDED, OnLine


def logs(
    cluster: Cluster,
    workflow: Workflow,
    step: str,
    on_line: OnLine,
    waits: Callable[[Workflow], dict[str, str]],
    *,
    follow: bool,
) -> None:
    """Passes on the output of a workflow's steps, waiting for them; see ``Target.logs``."""
    refresh = partial(workflows.find, cluster, workflow.name)
    is_followed = follow and workflow.state not in ENDED
    if not is_followed:
        _check(step, [node.name for node in workflow.begun])
    of_it = partial(pods, cluster)
    pod_logs.logs(cluster, workflow, step, of_it, refresh, on_line, waits, follow=follow)
    if is_followed:
        _check(step, [name for name, _ in pods(cluster, refresh())])


def _check(step: str, steps: list[str]) -> None:
    pod_logs.check(step, [*dict.fromkeys(map(without_index, steps))])


def pods(cluster: Cluster, workflow: Workflow) -> list[pod_logs.Named]:
    """Returns the pods that do a step's work, with its name and turn, the oldest first."""
    names = {node.node: node.name for node in workflow.begun}
    all_pods = pod_logs.pods(cluster, f"{WORKFLOW}={workflow.name}")
    nodes = [(untried(node_of(pod)), pod) for pod in all_pods]
    return [(names[node], pod) for node, pod in nodes if node in names]
