"""Waiting until a new version is up, or it is plain that it never will be."""

import time
from collections.abc import Callable
from typing import NamedTuple

from trireme.components.deployment.pod_problems import Pod, PodProblem, in_full, worst
from trireme.components.errors import TriremeError
from trireme.components.kubernetes.connection import Cluster

POLL = 1.0  # seconds between two looks at it


class NotReady(TriremeError):
    """The new version does not come up; ``detail`` holds the last lines of its container."""


class Superseded(TriremeError):
    """Somebody has changed or deleted the object meanwhile: it is no longer ours to put back."""


class RolloutStatus(NamedTuple):
    """How far a new version is.

    Attributes:
        pods: Its pods, without those that are ending.
        problem: What keeps it, apart from what keeps its pods.
    """

    pods: list[Pod]
    progress: str
    done: bool = False
    problem: PodProblem | None = None


class Rollout:
    """A new version that comes up."""

    def __init__(
        self,
        cluster: Cluster,
        look: Callable[[], RolloutStatus],
        timeout: float,
        on_state: Callable[[str], None],
    ) -> None:
        self._cluster, self._look, self._on_state = cluster, look, on_state
        self._timeout, self._limit = timeout, time.monotonic() + timeout
        self._said = ""
        self._since: dict[str, float] = {}

    def first_pod(self) -> Pod:
        """Waits until a pod of the new version is ready; returns it."""
        look = self._until(lambda look: any(map(is_ready, look.pods)))
        return next(filter(is_ready, look.pods))

    def to_the_end(self) -> None:
        """Waits until only the new version runs."""
        self._until(lambda look: look.done)

    def _until(self, is_reached: Callable[[RolloutStatus], bool]) -> RolloutStatus:
        while True:
            look = self._look()
            if look.progress != self._said:
                self._said = look.progress
                self._on_state(look.progress)
            if is_reached(look):
                return look
            problem = look.problem or worst(look.pods)
            if problem and self._has_lasted(problem):
                raise NotReady(*in_full(self._cluster, problem))
            if time.monotonic() > self._limit:
                raise self._late(look, problem)
            time.sleep(POLL)

    def _has_lasted(self, problem: PodProblem) -> bool:
        now = time.monotonic()
        self._since = {problem.kind: self._since.get(problem.kind, now)}
        return now - self._since[problem.kind] >= problem.patience

    def _late(self, look: RolloutStatus, problem: PodProblem | None) -> NotReady:
        what, lines = in_full(self._cluster, problem) if problem else (look.progress, "")
        return NotReady(f"it did not come up within {self._timeout:.0f} s: {what}", lines)


def is_ready(pod: Pod) -> bool:
    """Tells whether a pod's readiness probe says that it answers."""
    conditions = pod.get("status", {}).get("conditions") or []
    return any(each["type"] == "Ready" and each["status"] == "True" for each in conditions)
