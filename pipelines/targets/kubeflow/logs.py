"""What the steps of a run on Kubeflow Pipelines have printed: the logs of its pods.

The REST API has none, so they are the Kubernetes API server's. A pod's labels and the place of its
node in the workflow are those that Kubeflow Pipelines' compiler gives them:
https://github.com/kubeflow/pipelines/tree/2.17.0/backend/src/v2/compiler/argocompiler
"""

from collections.abc import Collection
from typing import Any

from trireme.components.errors import InputError
from trireme.components.kubernetes.connection import Cluster
from trireme.components.kubernetes.resources import PODS
from trireme.components.kubernetes.step_pods import step_of
from trireme.components.step_names import without_index
from trireme.pipelines.targets import pod_logs
from trireme.pipelines.targets.base import ENDED, OnLine
from trireme.pipelines.targets.kubeflow import runs
from trireme.pipelines.targets.kubeflow.connection import Connection
from trireme.pipelines.targets.kubeflow.reading import Run

RUN = "pipeline/runid"


def logs(
    connection: Connection,
    cluster: Cluster,
    run: Run,
    steps: Collection[str],
    step: str,
    on_line: OnLine,
    *,
    follow: bool,
) -> None:
    """Passes on what the steps of a run have printed; see ``Target.logs``."""
    pod_logs.check(step, list(steps))

    def wanted() -> list[tuple[str, dict[str, Any]]]:
        return [each for each in pods(cluster, run, steps) if pod_logs.is_of(each[0], step)]

    if follow and run.state not in ENDED:
        pod_logs.follow(
            cluster, lambda: (runs.get(connection, run.id).state in ENDED, wanted()), on_line
        )
        return
    if not pods(cluster, run, steps):
        raise InputError(
            f"run {run.name} has no pods in namespace {cluster.namespace}: either no step has "
            f"started, or they are gone; what is left of them is at {run.page}"
        )
    pod_logs.read(cluster, wanted(), on_line)


def pods(cluster: Cluster, run: Run, steps: Collection[str]) -> list[tuple[str, dict[str, Any]]]:
    """Returns the pods that do a step's work, with its name and turn, the oldest first."""
    listing = cluster.list(PODS, cluster.namespace, labelSelector=f"{RUN}={run.id}")
    found = sorted(listing["items"], key=lambda pod: str(pod["metadata"]["creationTimestamp"]))
    named = [(step_of(pod), pod) for pod in found]
    return [(name, pod) for name, pod in named if without_index(name) in steps]
