"""What the steps of a run on Kubeflow Pipelines have printed: the logs of its pods.

The REST API has none, so they are the Kubernetes API server's. A pod's labels and the place of its
node in the workflow are those that Kubeflow Pipelines' compiler gives them:
https://github.com/kubeflow/pipelines/tree/2.17.0/backend/src/v2/compiler/argocompiler
"""

from collections.abc import Collection

from trireme.components.kubernetes.connection import Cluster
from trireme.components.kubernetes.pods import failure
from trireme.components.kubernetes.step_pods import CONTAINER, driven_by, node_of, step_of, untried
from trireme.components.step_names import is_of
from trireme.pipelines.targets import pod_logs
from trireme.pipelines.targets.kubeflow.reading import Run

RUN = "pipeline/runid"


def pods(cluster: Cluster, run: Run, steps: Collection[str]) -> list[pod_logs.Named]:
    """Returns the pods that do a step's work, with its name and turn, the oldest first."""
    return of_steps(every(cluster, run), steps)


def every(cluster: Cluster, run: Run) -> list[pod_logs.Pod]:
    """Returns all pods of a run, the oldest first."""
    return pod_logs.pods(cluster, f"{RUN}={run.id}")


def of_steps(found: list[pod_logs.Pod], steps: Collection[str]) -> list[pod_logs.Named]:
    """Returns those that do a step's work, with its name and turn."""
    named = [(step_of(pod), pod) for pod in found]
    return [(name, pod) for name, pod in named if any(is_of(name, step) for step in steps)]


def drivers(found: list[pod_logs.Pod]) -> list[pod_logs.Named]:
    """Returns those that prepare a task, with its name."""
    return [(task, pod) for pod in found if (task := driven_by(pod))]


def failed(drivers: list[pod_logs.Named]) -> list[pod_logs.Named]:
    """Returns those whose last try has failed."""
    last = {untried(node_of(pod)): (task, pod) for task, pod in drivers}
    return [each for each in last.values() if failure(each[1], CONTAINER)]
