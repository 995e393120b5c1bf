"""What the steps of a run on Kubeflow Pipelines have printed: the logs of its pods.

The REST API has none, so they are the Kubernetes API server's. A pod's labels and the place of its
node in the workflow are those that Kubeflow Pipelines' compiler gives them:
https://github.com/kubeflow/pipelines/tree/2.17.0/backend/src/v2/compiler/argocompiler
"""

import re
from collections.abc import Callable
from typing import Any

from components.errors import InputError
from components.training.cluster.connection import Cluster
from components.training.cluster.logs import PodLog
from components.training.cluster.resources import PODS
from components.training.cluster.streams import Stop
from pipelines.targets.kubeflow.reading import Run

RUN = "pipeline/runid"
NODE = "workflows.argoproj.io/node-name"
CONTAINER = "main"

# The pod that does a step's work is the node "executor" below the step's own, or one of its tries.
_EXECUTOR = re.compile(r".*\.([^.]+)\.executor(\(\d+\))?")


def logs(
    cluster: Cluster, run: Run, steps: list[str], step: str, on_line: Callable[[str, str], None]
) -> None:
    """Passes on what the steps of a run have printed so far, in the order they started in.

    Args:
        cluster: Where the run's pods are, in its namespace.
        run: The run.
        steps: The names of all steps it may have.
        step: The only one to read; empty for all.
        on_line: Called with a step's name and each line.

    Raises:
        InputError: There is no such step, or no pod of the run is left.
        Refused: The API server does not show them to this user.
    """
    if step and step not in steps:
        raise InputError(f"step {step!r}: the run has {', '.join(steps)}")
    listing = cluster.list(PODS, cluster.namespace, labelSelector=f"{RUN}={run.id}")
    pods = sorted(listing["items"], key=lambda pod: str(pod["metadata"]["creationTimestamp"]))
    of_steps = [(name, pod) for pod in pods if (name := _step(pod)) in steps]
    if not of_steps:
        raise InputError(
            f"run {run.name} has no pods in namespace {cluster.namespace}: either no step has "
            f"started, or they are gone; what is left of them is at {run.page}"
        )
    for name, pod in of_steps:
        if step in ("", name):
            _pass_on(cluster, pod, lambda line, name=name: on_line(name, line))  # type: ignore[misc]


def _step(pod: dict[str, Any]) -> str:
    """Returns the step whose work a pod does; empty for a driver's."""
    node = (pod["metadata"].get("annotations") or {}).get(NODE, "")
    found = _EXECUTOR.fullmatch(node)
    return found[1] if found else ""


def _pass_on(cluster: Cluster, pod: dict[str, Any], on_line: Callable[[str], None]) -> None:
    PodLog(cluster, pod, CONTAINER, on_line, lambda: None, Stop(), follow=False).run()
