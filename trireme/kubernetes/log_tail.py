"""The last lines of a container's log."""

from typing import Any

from trireme.kubernetes.connection import Cluster
from trireme.kubernetes.log_position import is_of_the_kubelet, split
from trireme.kubernetes.resources import PODS
from trireme.kubernetes.streams import Stop, lines

SILENCE = 30.0  # seconds without a byte after which the connection counts as lost


def log_tail(
    cluster: Cluster, pod: dict[str, Any], container: str, count: int, *, previous: bool
) -> list[str]:
    """Returns the last lines of a container, or of its start that ended last (``previous``)."""
    # With times, which the program's lines have and the kubelet's own have not.
    query = [("container", container), ("tailLines", str(count)), ("timestamps", "true")]
    if previous:
        query.append(("previous", "true"))
    path = PODS.path(pod["metadata"]["namespace"], pod["metadata"]["name"], "log")
    stop = Stop()
    response = cluster.stream(PODS, path, query, stop, SILENCE)
    with stop.reading(response):
        return [
            split(raw, None)[1].decode(errors="replace").rstrip("\r")
            for raw in lines(response)
            if not is_of_the_kubelet(raw)
        ]
