"""Logs of the pods of a run, whatever has made them."""

from collections.abc import Callable
from functools import partial
from time import monotonic
from typing import Any, TypeVar

from trireme.errors import InputError
from trireme.kubernetes.connection import Cluster
from trireme.kubernetes.pod_log import PodLog
from trireme.kubernetes.resources import PODS
from trireme.kubernetes.step_pods import CONTAINER
from trireme.kubernetes.streams import Stop
from trireme.last_words import LastWords, read
from trireme.step_names import is_of
from trireme.targets.base import ENDED, OnLine, Run
from trireme.text.say import say

PAUSE = 2.0  # seconds between two looks
PAUSE_OF_REASONS = 10.0  # seconds between two questions why nothing starts
DRAIN = 15.0  # seconds that the rest of the logs may take when the run has ended

Pod = dict[str, Any]
Named = tuple[str, Pod]  # by its step, and the turn in a loop
R = TypeVar("R", bound=Run)


def pods(cluster: Cluster, selector: str) -> list[Pod]:
    """Returns the pods of a run, the oldest first."""
    listing = cluster.items(PODS, cluster.namespace, labelSelector=selector)
    return sorted(listing, key=lambda pod: str(pod["metadata"]["creationTimestamp"]))


def logs(
    cluster: Cluster,
    run: R,
    step: str,
    pods_of: Callable[[R], list[Named]],
    refresh: Callable[[], R],
    on_line: OnLine,
    waits: Callable[[R], dict[str, str]],
    *,
    follow: bool,
    left: str = "",
) -> None:
    """Passes on the output of a run's steps, by their pods; see ``Target.logs``.

    Args:
        pods_of: Returns the pods of a run as it is now, with their steps.
        again: Returns the run as it is now.
        waits: Returns why pods of a run do not start, by step.
        left: What to say besides where there is no pod.
    """
    told_reasons: set[tuple[str, str]] = set()
    last_told = 0.0

    def tell_waits(now: R) -> None:
        for name, reason in waits(now).items():
            if (name, reason) not in told_reasons and (not step or not name or is_of(name, step)):
                told_reasons.add((name, reason))
                verb = "" if now.state in ENDED else " waits"
                say(f"note: {name or 'the run'}{verb}: {reason}")

    def of_step(named_pods: list[Named]) -> list[Named]:
        return [named_pod for named_pod in named_pods if not step or is_of(named_pod[0], step)]

    def look() -> tuple[bool, list[Named]]:
        nonlocal last_told
        now = refresh()
        if now.state not in ENDED and monotonic() > last_told + PAUSE_OF_REASONS:
            tell_waits(now)
            last_told = monotonic()
        return now.state in ENDED, of_step(pods_of(now))

    if follow and run.state not in ENDED:
        _follow(cluster, look, on_line)
    elif pods_with_logs := of_step(pods_of(run)):
        for name, pod in pods_with_logs:
            forward_lines = partial(on_line, name)
            PodLog(cluster, pod, CONTAINER, forward_lines, lambda: None, Stop(), follow=False).run()
        if run.state not in ENDED:
            tell_waits(run)
    else:
        tell_waits(run)
        raise InputError(
            f"run {run.name} has no pods {f'of the step {step} ' if step else ''}in namespace "
            f"{cluster.namespace}: either none has started, or they are gone{left}"
        )


def last_words(pods: list[Named]) -> dict[str, LastWords]:
    """Returns what steps have come to, by their names: each leaves that as its last words."""
    words = {}
    for name, pod in pods:
        for container in pod["status"].get("containerStatuses") or []:
            ended = container["state"].get("terminated") or {}
            if container["name"] == CONTAINER and ended.get("message"):
                words[name] = read(str(ended["message"]).strip())
    return words


def _follow(
    cluster: Cluster, look: Callable[[], tuple[bool, list[Named]]], on_line: OnLine
) -> None:
    """Passes on what pods print until their run has ended, which ``look`` tells with the pods."""
    followed = _Followed(cluster, on_line)
    ended_at = 0.0
    try:
        while not followed.stop.is_set():
            has_ended, pods = look()
            ended_at = ended_at or (monotonic() if has_ended else 0.0)
            followed.update(pods)
            if ended_at and (followed.is_over or monotonic() - ended_at > DRAIN):
                return
            followed.stop.wait(PAUSE)
    finally:
        followed.stop.set()


def check(step: str, steps: list[str]) -> None:
    """Refuses a step that there is not; it may name one turn of a loop, or be empty for all."""
    if step and not any(is_of(step, name) for name in steps):
        raise InputError(f"step {step!r}: the run has {', '.join(steps) or 'none yet'}")


class _Followed:
    """The logs of pods that are followed, each in a thread."""

    def __init__(self, cluster: Cluster, on_line: OnLine) -> None:
        self.stop = Stop()
        self._cluster = cluster
        self._on_line = on_line
        self._pods: dict[str, Pod] = {}
        self._logs: dict[str, PodLog] = {}

    @property
    def is_over(self) -> bool:
        """Whether all logs have been read to their ends."""
        return not any(log.is_alive() for log in self._logs.values())

    def update(self, pods: list[Named]) -> None:
        """Takes in which pods there are, with the names of their steps, and how they are."""
        now = {pod["metadata"]["uid"]: pod for _, pod in pods}
        self._pods |= now
        for name, pod in pods:
            if (uid := pod["metadata"]["uid"]) not in self._logs:
                forward_lines = partial(self._pass_on, name)
                log = PodLog(self._cluster, pod, CONTAINER, forward_lines, lambda: None, self.stop)
                self._logs[uid] = log
                log.start()
        for uid, log in self._logs.items():
            log.update(self._pods[uid], gone=uid not in now)

    def _pass_on(self, name: str, line: str) -> None:
        try:
            self._on_line(name, line)
        except BrokenPipeError:
            self.stop.set()
