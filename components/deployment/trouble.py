"""What keeps a pod from becoming ready, and for how long that may be waited out."""

from typing import Any, NamedTuple

from urllib3.exceptions import HTTPError

from trireme.components.errors import TriremeError
from trireme.components.kubernetes.connection import Cluster
from trireme.components.kubernetes.log_tail import log_tail
from trireme.components.kubernetes.pods import exit_words, is_running, joined

Pod = dict[str, Any]

UNSCHEDULABLE = 120.0  # seconds that a pod may find no node: one may be on its way
UNCREATED = 20.0  # seconds that no pod may be made, or a pod's Secret may be missing
UNREADY = 60.0  # seconds that a server may run without predicting
CRASHES = 2  # of a container, after which it is given up; one may be bad luck
TAIL = 20  # lines of a container that are shown
LINE = 300  # characters of the last of them that the sentence has
CRASH = "crash"

# https://github.com/kubernetes/kubernetes/blob/v1.36.0/pkg/kubelet/images/types.go
_NO_IMAGE = ("ImagePullBackOff", "InvalidImageName", "ErrImageNeverPull")
# https://github.com/kubernetes/kubernetes/blob/v1.36.0/pkg/kubelet/kuberuntime/kuberuntime_container.go
_NO_CONTAINER = ("CreateContainerConfigError", "CreateContainerError", "RunContainerError")


class Trouble(NamedTuple):
    """What keeps a new version from coming up.

    Attributes:
        kind: What sort of trouble, the same for as long as it lasts.
        words: It, in words.
        patience: Seconds that it may last.
        pod: The pod that has it, if one does.
        container: The container of that whose log may say more.
    """

    kind: str
    words: str
    patience: float = 0.0
    pod: Pod | None = None
    container: str = ""


def worst(pods: list[Pod]) -> Trouble | None:
    """Returns what pods have that may last the least; ``None`` if they may only need time."""
    found = [trouble for pod in pods if (trouble := _of(pod))]
    return min(found, key=lambda trouble: trouble.patience, default=None)


def in_full(cluster: Cluster, trouble: Trouble) -> tuple[str, str]:
    """Returns what keeps a pod in a sentence, and the last lines of its container.

    Args:
        cluster: The cluster.
        trouble: What keeps it.

    Returns:
        The sentence with what a container said last that crashed; and the lines, of which there
        may be none.
    """
    if trouble.pod is None or not trouble.container:
        return trouble.words, ""
    crashed = trouble.kind == CRASH
    try:
        lines = log_tail(cluster, trouble.pod, trouble.container, TAIL, previous=crashed)
    except (TriremeError, HTTPError) as error:
        return trouble.words, f"(its log cannot be read: {error})"
    last = lines[-1][:LINE] if crashed and lines else ""
    text = "\n".join(f"[{trouble.container}] {line}" for line in lines)
    return joined(trouble.words, last), text


def _of(pod: Pod) -> Trouble | None:
    status, name = pod.get("status", {}), pod["metadata"]["name"]
    for condition in status.get("conditions") or []:
        if condition["type"] == "PodScheduled" and condition["status"] == "False":
            said = joined(condition.get("reason", ""), condition.get("message", ""))
            return Trouble("unschedulable", f"pod {name} gets no node: {said}", UNSCHEDULABLE, pod)
    containers = [
        *(status.get("initContainerStatuses") or []),
        *(status.get("containerStatuses") or []),
    ]
    found = (_of_container(pod, container) for container in containers)
    return next(filter(None, found), None)


def _of_container(pod: Pod, status: dict[str, Any]) -> Trouble | None:
    name = status["name"]
    who = f"container {name} of pod {pod['metadata']['name']}"
    waiting = status.get("state", {}).get("waiting", {})
    reason = waiting.get("reason", "")
    said = joined(reason, waiting.get("message", ""))
    if reason in _NO_IMAGE:
        return Trouble("image", f"{who} gets no image: {said}", pod=pod)
    if reason in _NO_CONTAINER:
        return Trouble("container", f"{who} cannot be made: {said}", UNCREATED, pod)
    ended = status.get("lastState", {}).get("terminated", {})
    # The count is of restarts: it lacks the last end.
    if reason == "CrashLoopBackOff" and ended and status["restartCount"] + 1 >= CRASHES:
        words = f"{who} {exit_words(ended, pod, name)}, again and again"
        return Trouble(CRASH, words, pod=pod, container=name)
    if is_running(pod, name) and status.get("started") and not status["ready"]:
        return Trouble("unready", f"{who} runs, but does not predict", UNREADY, pod, name)
    return None
