"""What containers on a cluster use: from its metrics server, or else from the nodes' kubelets."""

from collections.abc import Iterable
from typing import Any, NamedTuple

from trireme.components.kubernetes.access import check_rights
from trireme.components.kubernetes.amounts import quantities
from trireme.components.kubernetes.connection import Cluster
from trireme.components.kubernetes.errors import Forbidden, KindMissing, Refused, Unavailable
from trireme.components.kubernetes.nodes import NODES
from trireme.components.kubernetes.resources import Resource

POD_METRICS = Resource("metrics.k8s.io", "v1beta1", "pods", provider="metrics-server")


class Used(NamedTuple):
    """What a container uses: CPUs, and bytes of memory; None for what is not measured yet."""

    cpu: float | None
    memory: float | None


Found = dict[tuple[str, str], Used]  # by the names of pod and container


def measured(cluster: Cluster, label: str, nodes: Iterable[str]) -> Found:
    """Returns what the containers of pods use, as far as it has been measured.

    Args:
        label: What selects the pods in the cluster's namespace.
        nodes: The nodes that they are on.
    """
    try:
        return _from_metrics_server(cluster, label)
    except (Forbidden, KindMissing, Unavailable) as error:
        lacking = error
    try:
        return _from_kubelets(cluster, sorted(set(nodes)))
    except Forbidden:
        if isinstance(lacking, Forbidden):
            check_rights(cluster, cluster.namespace, [(POD_METRICS, "", "list")])
        # To have metrics-server is better: who has this right can run commands in any pod.
        raise Refused(f"{lacking}; without it this needs the right to get nodes/proxy") from None


def _from_metrics_server(cluster: Cluster, label: str) -> Found:
    # A metrics server that is away does not come back while somebody waits.
    answer = cluster.request(
        "GET",
        POD_METRICS,
        POD_METRICS.path(cluster.namespace),
        query=[("labelSelector", label)],
        patience=0,
    )
    found = {}
    for pod in answer.get("items") or []:
        for container in pod.get("containers") or []:
            usage = quantities(container["usage"])
            used = Used(float(usage["cpu"]), float(usage["memory"]))
            found[pod["metadata"]["name"], container["name"]] = used
    return found


def _from_kubelets(cluster: Cluster, nodes: list[str]) -> Found:
    # https://kubernetes.io/docs/reference/instrumentation/node-metrics/#summary-api-source
    found: Found = {}
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
                found |= {
                    (pod["podRef"]["name"], each["name"]): _used(each)
                    for each in pod.get("containers") or []
                }
    if problem and not found:
        raise problem
    return found


def _used(container: dict[str, Any]) -> Used:
    cpu = (container.get("cpu") or {}).get("usageNanoCores")
    memory = (container.get("memory") or {}).get("workingSetBytes")
    return Used(None if cpu is None else cpu / 1e9, memory)
