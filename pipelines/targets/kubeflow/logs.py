"""What the steps of a run on Kubeflow Pipelines have printed: the logs of its pods.

The REST API has none, so they are the Kubernetes API server's. A pod's labels and the place of its
node in the workflow are those that Kubeflow Pipelines' compiler gives them:
https://github.com/kubeflow/pipelines/tree/2.17.0/backend/src/v2/compiler/argocompiler
"""

from typing import Any

from trireme.components.errors import InputError
from trireme.components.kubernetes.connection import Cluster
from trireme.components.kubernetes.resources import NODE, PODS
from trireme.components.step import without_index
from trireme.pipelines.targets import pod_logs
from trireme.pipelines.targets.kubeflow import nodes, runs
from trireme.pipelines.targets.kubeflow.connection import Connection
from trireme.pipelines.targets.kubeflow.reading import ENDED, Run
from trireme.pipelines.targets.pod_logs import OnLine

RUN = "pipeline/runid"


def logs(cluster: Cluster, run: Run, steps: list[str], step: str, on_line: OnLine) -> None:
    """Passes on what the steps of a run have printed so far, in the order they started in.

    Args:
        cluster: Where the run's pods are, in its namespace.
        run: The run.
        steps: The names of all steps it may have.
        step: The only one to read, or one turn of it; empty for all.
        on_line: Called with a step's name, and its turn in a loop, and each line.

    Raises:
        InputError: There is no such step, or no pod of the run is left.
        Refused: The API server does not show them to this user.
    """
    pod_logs.check(step, steps)
    found = pods(cluster, run, steps)
    if not found:
        raise InputError(
            f"run {run.name} has no pods in namespace {cluster.namespace}: either no step has "
            f"started, or they are gone; what is left of them is at {run.page}"
        )
    wanted = [(name, pod) for name, pod in found if pod_logs.is_of(name, step)]
    pod_logs.read(cluster, wanted, on_line)


def follow(
    connection: Connection,
    cluster: Cluster,
    run: Run,
    steps: list[str],
    step: str,
    on_line: OnLine,
) -> None:
    """Passes on what the steps of a run print, until it has ended.

    Args:
        connection: The server that knows the run.
        cluster: As for ``logs``.
        run: The run.
        steps: As for ``logs``.
        step: As for ``logs``.
        on_line: As for ``logs``, from several threads; ends it all with a BrokenPipeError.

    Raises:
        InputError: As for ``logs``.
        Refused: The server or the API server does not show it to this user.
        Unavailable: One of them was away for too long.
    """
    if run.state in ENDED:
        logs(cluster, run, steps, step, on_line)
        return
    pod_logs.check(step, steps)

    def look() -> tuple[bool, list[tuple[str, dict[str, Any]]]]:
        has_ended = runs.get(connection, run.id).state in ENDED
        return has_ended, [
            each for each in pods(cluster, run, steps) if pod_logs.is_of(each[0], step)
        ]

    pod_logs.follow(cluster, look, on_line)


def pods(cluster: Cluster, run: Run, steps: list[str]) -> list[tuple[str, dict[str, Any]]]:
    """Returns the pods that do a step's work, with its name and turn, the oldest first.

    Args:
        cluster: As for ``logs``.
        run: The run.
        steps: As for ``logs``.
    """
    listing = cluster.list(PODS, cluster.namespace, labelSelector=f"{RUN}={run.id}")
    found = sorted(listing["items"], key=lambda pod: str(pod["metadata"]["creationTimestamp"]))
    named = [
        (nodes.step_of((pod["metadata"].get("annotations") or {}).get(NODE, "")), pod)
        for pod in found
    ]
    return [(name, pod) for name, pod in named if without_index(name) in steps]
