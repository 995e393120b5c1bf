"""Running a command in a container of a pod, as ``kubectl exec`` does."""

import re
from collections.abc import Sequence
from typing import Any

import websocket
from kubernetes import client
from kubernetes.stream import stream

from trireme.kubernetes.access import Right
from trireme.kubernetes.connection import CONNECT_TIMEOUT, Cluster
from trireme.kubernetes.errors import Forbidden, Refused, Unavailable
from trireme.kubernetes.resources import PODS

RIGHTS: tuple[Right, ...] = ((PODS, "exec", "create"), (PODS, "exec", "get"))
"""What it takes: a websocket is opened by a GET, which Kubernetes 1.35 and later have both for."""

# The library sets none, and would wait for ever for a server that does not answer.
websocket.setdefaulttimeout(CONNECT_TIMEOUT)

_STATUS = re.compile(r"Handshake status (\d+)")


def output(
    cluster: Cluster, pod: dict[str, Any], container: str, command: Sequence[str], limit: float
) -> str:
    """Returns what a command prints on both outputs, whatever its exit status.

    Args:
        limit: Seconds that it may take.

    Raises:
        Forbidden: This user may not.
        Refused: The pod or its container does not run, or has no such command.
        Unavailable: It has not ended by then, or the connection broke.
    """
    metadata = pod["metadata"]
    # A client of its own: while it connects, the library changes how the client sends requests.
    api = client.CoreV1Api(client.ApiClient(cluster.configuration))
    try:
        connection = stream(
            api.connect_get_namespaced_pod_exec,
            metadata["name"],
            metadata["namespace"],
            container=container,
            command=list(command),
            stdout=True,
            stderr=True,
            _preload_content=False,
        )
    except client.ApiException as error:
        raise _refusal(metadata["name"], str(error.reason)) from None
    try:
        connection.run_forever(timeout=limit)
        if connection.is_open():
            raise Unavailable(f"a command in pod {metadata['name']} has not ended in {limit:g} s")
        return str(connection.read_all())
    except (OSError, websocket.WebSocketException) as error:
        raise Unavailable(f"the connection to pod {metadata['name']} broke: {error}") from None
    finally:
        connection.close()


def _refusal(pod: str, reason: str) -> Refused | Unavailable:
    status = _STATUS.match(reason)
    message = " ".join(reason.partition(" -+-+- ")[0].split())
    sentence = f"no command can be run in pod {pod}: {message}"
    if status and status[1] == "403":
        return Forbidden(sentence)
    is_for_good = status and status[1] != "429" and not status[1].startswith("5")
    return Refused(sentence) if is_for_good else Unavailable(sentence)
