"""Progress of a job on a cluster, from the last lines of its leading replica."""

from collections.abc import Collection
from contextlib import suppress
from typing import Any

from urllib3.exceptions import HTTPError

from trireme.errors import TriremeError
from trireme.frameworks import FRAMEWORKS
from trireme.kubernetes.connection import Cluster, Query
from trireme.kubernetes.log_position import Stamp, split
from trireme.kubernetes.pod_log import LINE_LIMIT
from trireme.kubernetes.resources import PODS
from trireme.kubernetes.streams import Stop, lines
from trireme.observers.progress import Course
from trireme.progress import Progress

LINES = 300  # that are read of its log
SILENCE = 10.0  # seconds in which the log has to come

_ROLES = [role for framework in FRAMEWORKS.values() for role in framework.roles]
_LEADERS = {role.name for role in _ROLES if role.is_leader}
_OTHERS = {role.name for role in _ROLES if not role.trains} - _LEADERS


def leader(names: Collection[str]) -> str:
    """Returns the replica that leads, of those of a job; empty where none does."""
    first = {name.removesuffix("-0"): name for name in sorted(names) if name.endswith("-0")}
    leading = [name for role, name in first.items() if role in _LEADERS]
    return next(iter(leading + [name for role, name in first.items() if role not in _OTHERS]), "")


def progress(cluster: Cluster, pod: dict[str, Any], container: str) -> Progress | None:
    """Returns how far a replica is, by its pod; None where that cannot be told."""
    course, stamp, stop = Course(), None, Stop()  # type: Course, Stamp | None, Stop
    query: Query = [("container", container), ("timestamps", "true"), ("tailLines", str(LINES))]
    metadata = pod["metadata"]
    path = PODS.path(metadata["namespace"], metadata["name"], "log")
    with suppress(TriremeError, HTTPError):
        response = cluster.stream(PODS, path, query, stop, SILENCE)
        with stop.reading(response):
            for raw in lines(response, LINE_LIMIT):
                stamp, line = split(raw, stamp)
                course.read(line.decode(errors="replace"), _seconds(stamp))
    return course.progress()


def _seconds(stamp: Stamp | None) -> float:
    return stamp.moment.timestamp() + float(f"0.{stamp.fraction}") if stamp else 0.0
