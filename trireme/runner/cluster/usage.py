"""The use that containers make: from the metrics server, or else from the nodes' kubelets."""

from collections.abc import Iterable
from datetime import datetime
from typing import Any, NamedTuple

from trireme.kubernetes.access import check_rights
from trireme.kubernetes.amounts import quantities
from trireme.kubernetes.connection import Cluster
from trireme.kubernetes.errors import Forbidden, KindMissing, Refused, Unavailable
from trireme.kubernetes.nodes import NODES
from trireme.kubernetes.pods import moment
from trireme.kubernetes.resources import Resource

POD_METRICS = Resource("metrics.k8s.io", "v1beta1", "pods", provider="metrics-server")


class Used(NamedTuple):
    """What a container uses.

    Attributes:
        cpu: CPUs; None where that is not measured yet.
        memory: Bytes of its working set, likewise.
        at: When that was measured; None where it is not told.
    """

    cpu: float | None
    memory: float | None
    at: datetime | None = None


Found = dict[tuple[str, str], Used]  # by the names of pod and container


def measured(cluster: Cluster, label: str, nodes: Iterable[str]) -> Found:
    """Returns what the containers of pods use, as far as it has been measured.

    Args:
        label: What selects the pods in the cluster's namespace.
        nodes: The nodes that they are on.
    """
    try:
        return from_metrics_server(cluster, cluster.namespace, label)
    except (Forbidden, KindMissing, Unavailable) as error:
        refusal = error
    try:
        return _from_kubelets(cluster, sorted(set(nodes)))
    except Forbidden:
        if isinstance(refusal, Forbidden):
            check_rights(cluster, cluster.namespace, [(POD_METRICS, "", "list")])
        # To have metrics-server is better: who has this right can run commands in any pod.
        raise Refused(f"{refusal}; without it this needs the right to get nodes/proxy") from None


def from_metrics_server(cluster: Cluster, namespace: str, label: str) -> Found:
    """Returns what the containers of pods use by a metrics server, which is asked once."""
    # A metrics server that is away does not come back while somebody waits.
    path, query = POD_METRICS.path(namespace), [("labelSelector", label)]
    answer = cluster.request("GET", POD_METRICS, path, query=query, patience=0)
    usage_by_container = {}
    for pod in answer.get("items") or []:
        at = moment(pod["timestamp"]) if "timestamp" in pod else None
        for container in pod.get("containers") or []:
            usage = quantities(container["usage"])
            used = Used(float(usage["cpu"]), float(usage["memory"]), at)
            usage_by_container[pod["metadata"]["name"], container["name"]] = used
    return usage_by_container


def _from_kubelets(cluster: Cluster, nodes: list[str]) -> Found:
    # https://kubernetes.io/docs/reference/instrumentation/node-metrics/#summary-api-source
    usage_by_container: Found = {}
    problem = None
    for node in nodes:
        path = NODES.path(name=node, subresource="proxy/stats/summary")
        query = [("only_cpu_and_memory", "true")]
        try:
            summary = cluster.request("GET", NODES, path, query=query, patience=0)
        except Unavailable as error:  # a node that is down is a reason to look at the others
            problem = error
            continue
        for pod in summary.get("pods") or []:
            if pod["podRef"]["namespace"] == cluster.namespace:
                usage_by_container |= {
                    (pod["podRef"]["name"], container["name"]): _used(container)
                    for container in pod.get("containers") or []
                }
    if problem and not usage_by_container:
        raise problem
    return usage_by_container


def _used(container: dict[str, Any]) -> Used:
    cpu = (container.get("cpu") or {}).get("usageNanoCores")
    memory = (container.get("memory") or {}).get("workingSetBytes")
    return Used(None if cpu is None else cpu / 1e9, memory)
