"""What the steps of a workflow have printed: the logs of its pods."""

from collections.abc import Callable

from components.errors import InputError
from components.training.cluster.connection import Cluster
from components.training.cluster.logs import PodLog
from components.training.cluster.resources import PODS
from components.training.cluster.streams import Stop
from pipelines.targets.argo.workflows import Workflow

WORKFLOW = "workflows.argoproj.io/workflow"
NODE = "workflows.argoproj.io/node-name"
CONTAINER = "main"


def logs(
    cluster: Cluster, workflow: Workflow, step: str, on_line: Callable[[str, str], None]
) -> None:
    """Passes on what the steps of a workflow have printed so far, in the order they started in.

    Args:
        cluster: The cluster.
        workflow: The workflow.
        step: The only one to read; empty for all.
        on_line: Called with a step's name and each line.

    Raises:
        InputError: There is no such step, or no pod of the workflow is left.
    """
    names = {each.node: each.name for each in workflow.steps}
    if step and step not in names.values():
        known = ", ".join(dict.fromkeys(names.values())) or "none yet"
        raise InputError(f"step {step!r}: the run has {known}")
    listing = cluster.list(PODS, cluster.namespace, labelSelector=f"{WORKFLOW}={workflow.name}")
    pods = sorted(listing["items"], key=lambda pod: str(pod["metadata"]["creationTimestamp"]))
    if not pods:
        raise InputError(
            f"run {workflow.name} has no pods in namespace {cluster.namespace}: either no step "
            "has started, or they are gone"
        )
    for pod in pods:
        node = (pod["metadata"].get("annotations") or {}).get(NODE, "")
        name = names.get(node, node)
        if step in ("", name):
            PodLog(
                cluster,
                pod,
                CONTAINER,
                lambda line, name=name: on_line(name, line),  # type: ignore[misc]
                lambda: None,
                Stop(),
                follow=False,
            ).run()
