"""Reading of pods: when one ran, why it does not, and how it ended."""

import re
import signal
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

from trireme.errors import exit_in_words

TIME_LIMIT = "ran into its pod's time limit (DeadlineExceeded)"
"""How a pod failed that had run as long as it may."""

NOT_OVER = "status.phase!=Succeeded,status.phase!=Failed"
"""The selector of the pods that wait or run."""

NOT_STARTED = "was not started"
"""How a pod failed whose container had to wait for another one that failed."""

# https://github.com/kubernetes/kubernetes/blob/v1.36.0/pkg/kubelet/eviction/helpers.go
_OVER_ITS_LIMIT = re.compile(r" exceeds the (total )?limit | exceeded its local ephemeral storage ")

# https://github.com/kubernetes/kubernetes/blob/v1.36.0/pkg/kubelet/images/types.go
NO_IMAGE = ("ImagePullBackOff", "InvalidImageName", "ErrImageNeverPull")
"""Why a container waits whose image cannot be had. ErrImagePull is tried once more before."""

_STARTING = ("ContainerCreating", "PodInitializing", "")
_KILLED = 128 + signal.SIGKILL
_NOT_STARTED = ("StartError", "ContainerCannotRun", "RunContainerError", "CreateContainerError")


@dataclass(frozen=True)
class Failure:
    """How a container failed; ``stopped`` with its pod, or ``taken`` with its node.

    Attributes:
        start: What tells this start of it from others; empty where nothing does.
        began: When that start began, where that is known.
        exit_status: The container's; 0 where that is not known.
    """

    at: datetime
    words: str
    stopped: bool
    taken: bool = False
    start: str = ""
    began: datetime | None = None
    exit_status: int = 0

    @property
    def is_lost(self) -> bool:
        """Whether its cluster has taken it for a reason of its own, which is no fault of it."""
        return self.taken and not is_over_its_limit(self.words)


@dataclass(frozen=True)
class Span:
    """When a container ran: one start of it to its end."""

    started: datetime
    finished: datetime | None


def container_status(pod: dict[str, Any], container: str) -> dict[str, Any]:
    """Returns the status of a pod's container; empty where there is none yet."""
    statuses = pod.get("status", {}).get("containerStatuses") or []
    return next((status for status in statuses if status["name"] == container), {})


def has_started(pod: dict[str, Any], container: str) -> bool:
    """Tells whether the container runs or has run in its present start."""
    return bool(
        {"running", "terminated"} & container_status(pod, container).get("state", {}).keys()
    )


def is_running(pod: dict[str, Any], container: str) -> bool:
    """Tells whether the container runs, which nobody knows where its node is lost."""
    return ran_last(pod, container) and not lost_node(pod)


def ran_last(pod: dict[str, Any], container: str) -> bool:
    """Tells whether the container runs by what its node, which may be lost, said last."""
    return "running" in container_status(pod, container).get("state", {})


def has_ended(pod: dict[str, Any], container: str) -> bool:
    """Tells whether the container has ended in its present start."""
    return "terminated" in container_status(pod, container).get("state", {})


def lost_node(pod: dict[str, Any]) -> str:
    """Returns the pod's node if that is NotReady, mostly as it is silent; empty if nothing says so.

    Only of pods that were ready: all others are as they were.
    """
    # The control plane takes the condition back for the kubelet, which would give a reason
    # (MarkPodsNotReady in pkg/controller/util/node, GeneratePodReadyCondition in
    # pkg/kubelet/status of Kubernetes 1.36).
    for condition in pod.get("status", {}).get("conditions") or []:
        if condition["type"] == "Ready" and condition["status"] == "False":
            is_marked = not (condition.get("reason") or is_over(pod))
            return pod["spec"].get("nodeName", "") if is_marked else ""
    return ""


def restarts(pod: dict[str, Any], container: str) -> int:
    """Returns how often the kubelet has restarted the container."""
    return container_status(pod, container).get("restartCount", 0)


def is_over(pod: dict[str, Any]) -> bool:
    """Tells whether no container of the pod will run again."""
    return pod.get("status", {}).get("phase") in ("Succeeded", "Failed")


def spans(pod: dict[str, Any], container: str) -> dict[int, Span]:
    """Returns when the container ran, by the number of restarts before; what is still known."""
    status = container_status(pod, container)
    count = status.get("restartCount", 0)
    spans_by_restarts: dict[int, Span] = {}
    for number, state in ((count - 1, "lastState"), (count, "state")):
        for kind in ("terminated", "running"):
            times = status.get(state, {}).get(kind, {})
            if began := _began(times):
                finished = times.get("finishedAt")
                spans_by_restarts[number] = Span(began, finished and moment(finished))
    return spans_by_restarts


def scheduled(pod: dict[str, Any]) -> datetime | None:
    """Returns when the pod got its node; ``None`` while it has none."""
    for condition in pod.get("status", {}).get("conditions") or []:
        if condition["type"] == "PodScheduled" and condition["status"] == "True":
            return moment(condition["lastTransitionTime"])
    return None


def pull(pod: dict[str, Any], container: str) -> tuple[datetime, datetime] | None:
    """Returns from when to when the image of a container was brought, and the container made.

    That is from the sandbox of its pod, or the end of its last init container, to its first start;
    ``None`` where that is no longer known, or not yet.
    """
    # PodReadyToStartContainers is told from Kubernetes 1.29 on:
    # https://kubernetes.io/docs/concepts/workloads/pods/pod-lifecycle/#pod-has-network
    status = pod.get("status", {})
    began = next(
        (
            moment(condition["lastTransitionTime"])
            for condition in status.get("conditions") or []
            if condition["type"] == "PodReadyToStartContainers" and condition["status"] == "True"
        ),
        None,
    )
    first = spans(pod, container).get(0)
    if began is None or first is None:
        return None
    for init in status.get("initContainerStatuses") or []:
        if finished := init.get("state", {}).get("terminated", {}).get("finishedAt"):
            began = max(began, moment(finished))
    return (began, first.started) if began < first.started else None


def failure(pod: dict[str, Any], container: str) -> Failure | None:
    """Returns how the pod failed last; ``None`` if it did not."""
    lost = taken_away(pod)
    if lost:
        return _taken(pod, container, lost)
    removed_at = removal(pod)
    ended = _failed_container(pod, container)
    if ended:
        at = moment(ended["finishedAt"]) if ended.get("finishedAt") else _changed(pod)
        # By its number it cannot be told: until it is started again the kubelet may have it in
        # ``lastState`` with the count of before (CrashLoopBackOff), or with that of after.
        start = ended.get("containerID") or ended.get("finishedAt") or ""
        stopped = removed_at is not None and removed_at <= at
        status = int(ended.get("exitCode") or 0)
        return Failure(
            at, ended["words"], stopped, start=start, began=_began(ended), exit_status=status
        )
    if pod.get("status", {}).get("phase") == "Failed":
        words = "failed for an unknown reason"
        return Failure(_changed(pod), words, stopped=removed_at is not None)
    return None


def _taken(pod: dict[str, Any], container: str, words: str) -> Failure:
    """Returns the failure of a pod that was taken from its node, where it may still run.

    What an earlier start of it failed with is a failure of its own.
    """
    status = container_status(pod, container)
    state = status.get("state", {})
    ended, running = state.get("terminated", {}), state.get("running", {})
    start = ""
    if ended or running:
        start = status.get("containerID") or ended.get("finishedAt") or ""
    if ended.get("exitCode") and ended.get("finishedAt"):
        at = moment(ended["finishedAt"])
    else:
        at = _changes(pod).get("DisruptionTarget") or _changed(pod)
    began = _began(ended or running)
    return Failure(at, words, stopped=False, taken=True, start=start, began=began)


def _began(times: dict[str, Any]) -> datetime | None:
    """Returns when a container started, by its state; ``None`` where it did not."""
    if times.get("startedAt") and times.get("reason") not in _NOT_STARTED:
        return moment(times["startedAt"])
    return None  # what could not be started says that it did so in 1970


def is_over_its_limit(words: str) -> bool:
    """Whether a kubelet has evicted a pod for what the pod has used, as it would again."""
    return bool(_OVER_ITS_LIMIT.search(words))


def taken_away(pod: dict[str, Any]) -> str:
    """Says why its cluster ended the pod, or takes it from its node; empty where it does not."""
    status = pod.get("status", {})
    reason, message = status.get("reason", ""), status.get("message", "")
    if reason == "Evicted":
        return joined("was evicted from its node", message)
    if reason == "DeadlineExceeded":
        return joined(TIME_LIMIT, message)
    for condition in status.get("conditions") or []:
        # https://kubernetes.io/docs/concepts/workloads/pods/disruptions/#pod-disruption-conditions
        if condition["type"] == "DisruptionTarget" and condition["status"] == "True":
            cause = condition.get("reason", "disruption")
            return joined(f"was removed from its node ({cause})", condition.get("message", ""))
    if reason:
        return joined(f"failed ({reason})", message)
    return ""


def removal(pod: dict[str, Any]) -> datetime | None:
    """Returns when it was asked for the pod to be deleted while it ran, or ``None``."""
    # The API server gives a pod that is over no time to end (pkg/registry/core/pod/strategy.go in
    # Kubernetes 1.36), and counts that time into ``deletionTimestamp``.
    metadata = pod["metadata"]
    grace = metadata.get("deletionGracePeriodSeconds")
    if "deletionTimestamp" not in metadata or not grace:
        return None
    return moment(metadata["deletionTimestamp"]) - timedelta(seconds=grace)


def waiting_reason(pod: dict[str, Any]) -> str:
    """Returns why a pod does not run yet, in the cluster's words; empty where it says nothing.

    Likewise of one that may run no more, as its node is lost.
    """
    if node := lost_node(pod):
        if "deletionTimestamp" not in pod["metadata"]:
            return f"its node {node} is NotReady"
        off = f"if that is off: kubectl delete node {node}"
        return f"its node {node} is NotReady, so it may run on; {off}"
    status = pod.get("status", {})
    for condition in status.get("conditions") or []:
        if condition["type"] == "PodScheduled" and condition["status"] == "False":
            return joined(condition.get("reason", ""), condition.get("message", ""))
    for container in [
        *(status.get("initContainerStatuses") or []),
        *(status.get("containerStatuses") or []),
    ]:
        waiting = container.get("state", {}).get("waiting", {})
        if waiting.get("reason", "") not in _STARTING:
            return joined(waiting["reason"], waiting.get("message", ""))
    return ""


def moment(text: str) -> datetime:
    """Returns the time that a Kubernetes timestamp stands for."""
    return datetime.fromisoformat(text)


def _failed_container(pod: dict[str, Any], container: str) -> dict[str, Any]:
    """Returns the termination of the container that failed, with ``words`` added."""
    for status in pod.get("status", {}).get("initContainerStatuses") or []:
        ended = status.get("state", {}).get("terminated", {})
        if ended.get("exitCode") and is_over(pod):
            words = f"{NOT_STARTED}: its init container {status['name']} "
            return ended | {"words": words + exit_words(ended, pod, status["name"])}
    main = container_status(pod, container)
    for state in ("state", "lastState"):
        ended = main.get(state, {}).get("terminated", {})
        if ended.get("exitCode"):
            return ended | {"words": exit_words(ended, pod, container)}
        if ended:
            return {}
    return {}


def exit_words(ended: dict[str, Any], pod: dict[str, Any], container: str) -> str:
    """Says how a container ended."""
    limit = _memory_limit(pod, container)
    if ended.get("reason") == "OOMKilled":
        return "ran out of memory (OOMKilled" + (f"; its limit is {limit})" if limit else ")")
    if ended.get("reason") in _NOT_STARTED:
        return joined("could not be started", ended.get("message", ""))
    words = exit_in_words(ended["exitCode"])
    if limit and ended["exitCode"] == _KILLED:
        # Whether that was for want of memory is told apart from the exit, and not always in time.
        return f"{words}, perhaps because it needs more memory than its limit of {limit}"
    return words


def _memory_limit(pod: dict[str, Any], container: str) -> str:
    for spec in pod["spec"]["containers"]:
        if spec["name"] == container:
            return spec.get("resources", {}).get("limits", {}).get("memory", "")
    return ""


def _changes(pod: dict[str, Any]) -> dict[str, datetime]:
    """Returns when the pod's conditions changed."""
    return {
        condition["type"]: moment(condition["lastTransitionTime"])
        for condition in pod.get("status", {}).get("conditions") or []
        if condition.get("lastTransitionTime")
    }


def _changed(pod: dict[str, Any]) -> datetime:
    """Returns when the pod's conditions changed last, for a pod whose containers tell no time."""
    created = pod["metadata"].get("creationTimestamp")
    times = [*_changes(pod).values(), *([moment(created)] if created else [])]
    return max(times, default=datetime.now(UTC))


def joined(event: str, message: str) -> str:
    """Returns what happened with what the cluster says about it."""
    text = " ".join(message.split())
    return f"{event}: {text}" if text else event
