"""What the steps of a run on Kubeflow Pipelines have printed: the logs of its pods.

The REST API has none, so they are the Kubernetes API server's. A pod's labels and the place of its
node in the workflow are those that Kubeflow Pipelines' compiler gives them:
https://github.com/kubeflow/pipelines/tree/2.17.0/backend/src/v2/compiler/argocompiler
"""

import time
from collections.abc import Callable
from functools import partial
from typing import Any

from components.errors import InputError
from components.step import without_index
from components.training.cluster.connection import Cluster
from components.training.cluster.logs import PodLog
from components.training.cluster.resources import PODS
from components.training.cluster.streams import Stop
from pipelines.targets.kubeflow import following, nodes, runs
from pipelines.targets.kubeflow.connection import Connection
from pipelines.targets.kubeflow.reading import ENDED, Run

RUN = "pipeline/runid"
NODE = "workflows.argoproj.io/node-name"
CONTAINER = "main"
DRAIN = 15.0  # seconds that the rest of the logs may take when the run has ended


def logs(
    cluster: Cluster, run: Run, steps: list[str], step: str, on_line: Callable[[str, str], None]
) -> None:
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
    _check(step, steps)
    pods = _pods(cluster, run, steps)
    if not pods:
        raise InputError(
            f"run {run.name} has no pods in namespace {cluster.namespace}: either no step has "
            f"started, or they are gone; what is left of them is at {run.page}"
        )
    for name, pod in pods:
        if _is_of(name, step):
            pass_on = partial(on_line, name)
            PodLog(cluster, pod, CONTAINER, pass_on, lambda: None, Stop(), follow=False).run()


def follow(
    connection: Connection,
    cluster: Cluster,
    run: Run,
    steps: list[str],
    step: str,
    on_line: Callable[[str, str], None],
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
    _check(step, steps)
    followed = _Followed(cluster, on_line)
    ended_at = 0.0
    try:
        while not followed.stop.is_set():
            if not ended_at and runs.get(connection, run.id).state in ENDED:
                ended_at = time.monotonic()
            followed.update([each for each in _pods(cluster, run, steps) if _is_of(each[0], step)])
            if ended_at and (followed.is_over or time.monotonic() - ended_at > DRAIN):
                return
            followed.stop.wait(following.PAUSE)
    finally:
        followed.stop.set()


class _Followed:
    """The logs of pods that are followed, each in a thread."""

    def __init__(self, cluster: Cluster, on_line: Callable[[str, str], None]) -> None:
        self.stop = Stop()
        self._cluster = cluster
        self._on_line = on_line
        self._pods: dict[str, dict[str, Any]] = {}
        self._logs: dict[str, PodLog] = {}

    @property
    def is_over(self) -> bool:
        """Whether all logs have been read to their ends."""
        return not any(log.is_alive() for log in self._logs.values())

    def update(self, pods: list[tuple[str, dict[str, Any]]]) -> None:
        """Takes in which pods there are, with the names of their steps, and how they are."""
        now = {pod["metadata"]["uid"]: pod for _, pod in pods}
        self._pods |= now
        for name, pod in pods:
            if (uid := pod["metadata"]["uid"]) not in self._logs:
                pass_on = partial(self._pass_on, name)
                log = PodLog(self._cluster, pod, CONTAINER, pass_on, lambda: None, self.stop)
                self._logs[uid] = log
                log.start()
        for uid, log in self._logs.items():
            log.update(self._pods[uid], gone=uid not in now)

    def _pass_on(self, name: str, line: str) -> None:
        try:
            self._on_line(name, line)
        except BrokenPipeError:
            self.stop.set()


def _check(step: str, steps: list[str]) -> None:
    if step and without_index(step) not in steps:
        raise InputError(f"step {step!r}: the run has {', '.join(steps)}")


def _is_of(name: str, step: str) -> bool:
    return step in ("", name, without_index(name))


def _pods(cluster: Cluster, run: Run, steps: list[str]) -> list[tuple[str, dict[str, Any]]]:
    """Returns the pods that do a step's work, with its name and turn, the oldest first."""
    listing = cluster.list(PODS, cluster.namespace, labelSelector=f"{RUN}={run.id}")
    pods = sorted(listing["items"], key=lambda pod: str(pod["metadata"]["creationTimestamp"]))
    named = [
        (nodes.step_of((pod["metadata"].get("annotations") or {}).get(NODE, "")), pod)
        for pod in pods
    ]
    return [(name, pod) for name, pod in named if without_index(name) in steps]
