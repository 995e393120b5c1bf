"""Logs of the steps of a run on Kubeflow Pipelines: those of its pods.

The REST API has none, so they are the Kubernetes API server's. A pod's labels and the place of its
node in the workflow are those that Kubeflow Pipelines' compiler gives them:
https://github.com/kubeflow/pipelines/tree/2.17.0/backend/src/v2/compiler/argocompiler
"""

from collections.abc import Mapping

from trireme.graph.model import StepPath
from trireme.kubernetes.connection import Cluster
from trireme.kubernetes.pods import failure
from trireme.kubernetes.step_pods import (
    CONTAINER,
    driven_by,
    node_of,
    step_of,
    tasks_of,
    turns_of,
    untried,
)
from trireme.step_names import in_a_loop, is_of
from trireme.targets import pod_logs
from trireme.targets.kubeflow.reading import Run

RUN = "pipeline/runid"


def pods(cluster: Cluster, run: Run, steps: Mapping[str, StepPath]) -> list[pod_logs.Named]:
    """Returns the pods that do a step's work, with its name and turn, the oldest first."""
    return of_steps(every(cluster, run), steps)


def every(cluster: Cluster, run: Run) -> list[pod_logs.Pod]:
    """Returns all pods of a run, the oldest first."""
    return pod_logs.pods(cluster, f"{RUN}={run.id}")


def of_steps(run_pods: list[pod_logs.Pod], steps: Mapping[str, StepPath]) -> list[pod_logs.Named]:
    """Returns those that do a step's work, with its name and turn."""
    names = _by_tasks(steps)
    named = []
    for pod in run_pods:
        step = step_of(pod)
        if step and (name := names.get(tasks_of(pod))):
            named.append((in_a_loop(name, *turns_of(pod)), pod))
        elif any(is_of(step, name) for name in steps):
            named.append((step, pod))
    return named


def drivers(run_pods: list[pod_logs.Pod], steps: Mapping[str, StepPath]) -> list[pod_logs.Named]:
    """Returns those that prepare a task, with its name: that of the step, if it is one."""
    names = _by_tasks(steps)
    named = [(driven_by(pod), pod) for pod in run_pods]
    return [(names.get(tasks_of(pod), task), pod) for task, pod in named if task]


def _by_tasks(steps: Mapping[str, StepPath]) -> dict[tuple[str, ...], str]:
    return {tuple(task.name for task in path): name for name, path in steps.items()}


def failed(drivers: list[pod_logs.Named]) -> list[pod_logs.Named]:
    """Returns those whose last try has failed."""
    last = {untried(node_of(pod)): (task, pod) for task, pod in drivers}
    return [driver for driver in last.values() if failure(driver[1], CONTAINER)]
