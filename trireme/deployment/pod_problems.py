"""Problems that keep a pod from becoming ready, and for how long they may be waited out."""

from typing import Any, NamedTuple

from urllib3.exceptions import HTTPError

from trireme.errors import TriremeError
from trireme.kubernetes.connection import Cluster
from trireme.kubernetes.log_tail import log_tail
from trireme.kubernetes.pods import NO_IMAGE, exit_words, is_running, joined

Pod = dict[str, Any]

UNSCHEDULABLE = 120.0  # seconds that a pod may find no node: one may be on its way
UNCREATED = 20.0  # seconds that no pod may be made, or a pod's Secret may be missing
UNREADY = 60.0  # seconds that a server may run without predicting
CRASHES = 2  # of a container, after which it is given up; one may be bad luck
TAIL = 20  # lines of a container that are shown
LINE = 300  # characters of the last of them that the sentence has
CRASH = "crash"

# https://github.com/kubernetes/kubernetes/blob/v1.36.0/pkg/kubelet/kuberuntime/kuberuntime_container.go
_NO_CONTAINER = ("CreateContainerConfigError", "CreateContainerError", "RunContainerError")


class PodProblem(NamedTuple):
    """What keeps a new version from coming up.

    Attributes:
        kind: What sort of problem, the same for as long as it lasts.
        patience: Seconds that it may last.
        container: The container of that whose log may say more.
    """

    kind: str
    words: str
    patience: float = 0.0
    pod: Pod | None = None
    container: str = ""


def worst(pods: list[Pod]) -> PodProblem | None:
    """Returns what pods have that may last the least; ``None`` if they may only need time."""
    problems = [problem for pod in pods if (problem := _of(pod))]
    return min(problems, key=lambda problem: problem.patience, default=None)


def describe(cluster: Cluster, problem: PodProblem) -> tuple[str, str]:
    """Returns what keeps a pod in a sentence, and the last lines of its container.

    Returns:
        The sentence with what a container said last that crashed; and the lines, of which there
        may be none.
    """
    if problem.pod is None or not problem.container:
        return problem.words, ""
    crashed = problem.kind == CRASH
    try:
        lines = log_tail(cluster, problem.pod, problem.container, TAIL, previous=crashed)
    except (TriremeError, HTTPError) as error:
        return problem.words, f"(its log cannot be read: {error})"
    last = lines[-1][:LINE] if crashed and lines else ""
    text = "\n".join(f"[{problem.container}] {line}" for line in lines)
    return joined(problem.words, last), text


def _of(pod: Pod) -> PodProblem | None:
    status, name = pod.get("status", {}), pod["metadata"]["name"]
    for condition in status.get("conditions") or []:
        if condition["type"] == "PodScheduled" and condition["status"] == "False":
            reason = joined(condition.get("reason", ""), condition.get("message", ""))
            return PodProblem(
                "unschedulable", f"pod {name} is not scheduled: {reason}", UNSCHEDULABLE, pod
            )
    containers = [
        *(status.get("initContainerStatuses") or []),
        *(status.get("containerStatuses") or []),
    ]
    problems = (_of_container(pod, container) for container in containers)
    return next(filter(None, problems), None)


def _of_container(pod: Pod, status: dict[str, Any]) -> PodProblem | None:
    name = status["name"]
    subject = f"container {name} of pod {pod['metadata']['name']}"
    waiting = status.get("state", {}).get("waiting", {})
    reason = waiting.get("reason", "")
    message = joined(reason, waiting.get("message", ""))
    if reason in NO_IMAGE:
        return PodProblem("image", f"{subject} cannot get its image: {message}", pod=pod)
    if reason in _NO_CONTAINER:
        return PodProblem("container", f"{subject} cannot be created: {message}", UNCREATED, pod)
    ended = status.get("lastState", {}).get("terminated", {})
    # The count is of restarts: it lacks the last end.
    if reason == "CrashLoopBackOff" and ended and status["restartCount"] + 1 >= CRASHES:
        words = f"{subject} {exit_words(ended, pod, name)}, again and again"
        return PodProblem(CRASH, words, pod=pod, container=name)
    if is_running(pod, name) and status.get("started") and not status["ready"]:
        return PodProblem("unready", f"{subject} runs, but does not predict", UNREADY, pod, name)
    return None
