"""Why nothing of a run on a cluster starts: what its Workflow, its pods and their Events say."""

import re
import time
from collections.abc import Mapping
from contextlib import suppress
from typing import Any

from trireme.components.errors import TriremeError
from trireme.components.kubernetes import pods
from trireme.components.kubernetes.connection import Cluster
from trireme.components.kubernetes.pod_log import PodLog
from trireme.components.kubernetes.resources import EVENTS
from trireme.components.kubernetes.step_pods import CONTAINER
from trireme.components.kubernetes.streams import Stop
from trireme.pipelines.targets.pod_logs import Named

GRACE = 10.0  # seconds after which it is worth a word that nobody has begun with something
WIDTH = 300  # characters of what a driver has died of

RUN = ""
"""Stands for the whole run, where the reason is none of a step's."""

NOT_HANDLED = "Argo's workflow controller has not begun with it; if that lasts, is it running?"

# As glog writes what ends a program, and as Go does.
_FATAL = re.compile(r"(F\d{4} \S+ +\d+ \S+\] |panic: )(?P<words>.*)")


def of_workflow(status: Mapping[str, Any], created: float) -> dict[str, str]:
    """Returns why a Workflow that has not ended makes no pods, if it says anything."""
    if message := " ".join(str(status.get("message", "")).split()):
        return {RUN: message}
    is_new = time.time() - created < GRACE
    return {} if status.get("phase") or is_new else {RUN: NOT_HANDLED}


def of_pods(cluster: Cluster, named: list[Named]) -> dict[str, str]:
    """Returns why pods do not start, by their steps."""
    found = {}
    for name, pod in named:
        if pods.is_over(pod) or "deletionTimestamp" in pod["metadata"]:
            continue
        if reason := pods.waiting_reason(pod) or _warning(cluster, pod):
            found[name] = reason
    return found


def of_failed(cluster: Cluster, named: list[Named]) -> dict[str, str]:
    """Returns how drivers of Kubeflow Pipelines have failed, by their tasks."""
    found = {}
    for name, pod in named:
        if failure := pods.failure(pod, CONTAINER):
            why = _fatal(cluster, pod)
            found[name] = f"its driver {failure.words}" + (f": {why}" if why else "")
    return found


def _warning(cluster: Cluster, pod: dict[str, Any]) -> str:
    """Returns what the latest Event about a pod that has not started warns of."""
    created = pods.moment(pod["metadata"]["creationTimestamp"]).timestamp()
    if pod["status"].get("phase") != "Pending" or time.time() - created < GRACE:
        return ""
    metadata = pod["metadata"]
    about = f"involvedObject.uid={metadata['uid']}"
    with suppress(TriremeError):  # this user may not see Events
        events = cluster.items(EVENTS, metadata["namespace"], fieldSelector=about)
        events.sort(key=lambda event: str(event.get("lastTimestamp") or event.get("eventTime")))
        if events and events[-1].get("type") == "Warning":
            return pods.joined(events[-1].get("reason", ""), events[-1].get("message", ""))
    return ""


def _fatal(cluster: Cluster, pod: dict[str, Any]) -> str:
    """Returns what a driver of Kubeflow Pipelines has died of, by its log."""
    found: list[str] = []

    def look(line: str) -> None:
        if words := _FATAL.match(line):
            found.append(words["words"].strip()[:WIDTH])

    with suppress(TriremeError):
        PodLog(cluster, pod, CONTAINER, look, lambda: None, Stop(), follow=False).run()
    return found[0] if found else ""
