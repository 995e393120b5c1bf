"""Reasons why nothing of a run starts: what its Workflow, its pods and their Events say."""

import re
import time
from collections.abc import Mapping
from contextlib import suppress
from typing import Any

from trireme.errors import TriremeError
from trireme.kubernetes import pods
from trireme.kubernetes.connection import Cluster
from trireme.kubernetes.pod_log import PodLog
from trireme.kubernetes.resources import EVENTS
from trireme.kubernetes.step_pods import CONTAINER
from trireme.kubernetes.streams import Stop
from trireme.targets.pod_logs import Named

GRACE = 10.0  # seconds after which it is worth a word that nobody has begun with something
ASKED = 5  # pods about which Events are asked for one by one; of more pods, once about all
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


def of_pods(cluster: Cluster, named_pods: list[Named]) -> dict[str, str]:
    """Returns why pods do not start, by their steps."""
    reasons, silent = {}, []
    for name, pod in named_pods:
        if pods.is_over(pod) or "deletionTimestamp" in pod["metadata"]:
            continue
        if reason := pods.waiting_reason(pod):
            reasons[name] = reason
        elif _is_late(pod):
            silent.append((name, pod))
    warnings = _warnings(cluster, [pod for _, pod in silent])
    late_warnings = {name: warnings.get(pod["metadata"]["uid"], "") for name, pod in silent}
    return reasons | {name: warning for name, warning in late_warnings.items() if warning}


def of_failed(cluster: Cluster, drivers: list[Named], fatal: dict[str, str]) -> dict[str, str]:
    """Returns how drivers of Kubeflow Pipelines have failed, by their tasks.

    Args:
        known: What they have died of, by the ids of their pods, as far as their logs are read.
    """
    failures = {}
    for name, pod in drivers:
        if failure := pods.failure(pod, CONTAINER):
            uid = pod["metadata"]["uid"]
            if uid not in fatal:
                fatal[uid] = _fatal(cluster, pod)
            reason = f": {fatal[uid]}" if fatal[uid] else ""
            failures[name] = f"its driver {failure.words}{reason}"
    return failures


def _is_late(pod: dict[str, Any]) -> bool:
    created = pods.moment(pod["metadata"]["creationTimestamp"]).timestamp()
    return pod["status"].get("phase") == "Pending" and time.time() - created >= GRACE


def _warnings(cluster: Cluster, late: list[dict[str, Any]]) -> dict[str, str]:
    """Returns what the latest Events about pods warn of, by the pods' ids."""
    uids = {pod["metadata"]["uid"] for pod in late}
    # A namespace may have very many about others, but a loop very many pods, too.
    about = [f"involvedObject.uid={uid}" for uid in sorted(uids)]
    about = about if len(about) <= ASKED else ["involvedObject.kind=Pod"]
    latest: dict[str, dict[str, Any]] = {}
    with suppress(TriremeError):  # this user may not see Events
        for selector in about:
            for event in cluster.each(EVENTS, cluster.namespace, fieldSelector=selector):
                uid = event["involvedObject"].get("uid", "")
                if uid in uids and _time(event) >= _time(latest.get(uid, {})):
                    latest[uid] = event
    return {
        uid: pods.joined(event.get("reason", ""), event.get("message", ""))
        for uid, event in latest.items()
        if event.get("type") == "Warning"
    }


def _time(event: dict[str, Any]) -> str:
    return str(event.get("lastTimestamp") or event.get("eventTime") or "")


def _fatal(cluster: Cluster, pod: dict[str, Any]) -> str:
    """Returns what a driver of Kubeflow Pipelines has died of, by its log."""
    fatal_lines: list[str] = []

    def look(line: str) -> None:
        if words := _FATAL.match(line):
            fatal_lines.append(words["words"].strip()[:WIDTH])

    PodLog(cluster, pod, CONTAINER, look, lambda: None, Stop(), follow=False).run()
    return fatal_lines[0] if fatal_lines else ""
