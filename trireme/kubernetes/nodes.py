"""Nodes of a cluster, and whether they are large enough for some pods; of room the scheduler tells.

Node selectors, taints and what is requested are looked at, as the scheduler does; affinity is not.
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

from trireme.kubernetes.amounts import Amounts, added, quantities, requests, shown
from trireme.kubernetes.connection import Cluster
from trireme.kubernetes.pods import NOT_OVER
from trireme.kubernetes.resources import PODS, Resource

NODES = Resource("", "v1", "nodes")

_KEEPS_AWAY = ("NoSchedule", "NoExecute")


@dataclass
class Node:
    """A node: what of it is free, and its taints that keep pods away."""

    name: str
    labels: Mapping[str, str]
    taints: list[Mapping[str, str]]
    free: dict[str, Decimal]

    def room_for(self, requested: Amounts) -> int:
        """Returns how many pods find room that request so much each."""
        shares = (self.free.get(name, 0) // amount for name, amount in requested.items() if amount)
        return max(0, int(min(shares)))

    def lacks(self, requested: Amounts) -> list[str]:
        """Returns the resources of which there is not enough for a pod."""
        return [name for name, amount in requested.items() if amount > self.free.get(name, 0)]

    def may_run(self, pod: Mapping[str, Any]) -> bool:
        """Tells whether a pod may run here, if there is room."""
        selector = pod.get("nodeSelector") or {}
        tolerations = pod.get("tolerations") or []
        return selector.items() <= self.labels.items() and all(
            any(_tolerates(toleration, taint) for toleration in tolerations)
            for taint in self.taints
        )


def there(cluster: Cluster) -> list[Node]:
    """Returns the nodes of a cluster, as if they were empty."""
    return [
        Node(
            node["metadata"]["name"],
            node["metadata"].get("labels") or {},
            list(_taints(node)),
            quantities(node["status"]["allocatable"]),
        )
        for node in cluster.items(NODES, "")
        if node.get("status", {}).get("allocatable")  # else its kubelet has not told yet
    ]


def free(cluster: Cluster) -> list[Node]:
    """Returns the nodes of a cluster, with what nobody has requested of them."""
    nodes_by_name = {node.name: node for node in there(cluster)}
    for pod in cluster.items(PODS, "", fieldSelector=NOT_OVER):
        if node := nodes_by_name.get(pod["spec"].get("nodeName", "")):
            node.free = added(node.free, _wanted(pod["spec"]), -1)
    return list(nodes_by_name.values())


def problem(nodes: list[Node], pods: Iterable[tuple[str, int, Mapping[str, Any]]]) -> str:
    """Says of which role not all pods find room, were the nodes empty, and what lacks."""
    for role, count, pod in pods:
        requested = _wanted(pod)
        fitting = [node for node in nodes if node.may_run(pod)]
        if not fitting:
            return f"no node takes a pod of role {role}: {_why(nodes, pod)}"
        room = sum(node.room_for(requested) for node in fitting)
        if room >= count:
            continue
        if room:
            return f"the nodes have room for {room} of {count} pods of role {role}; ask for less"
        nearest = min(fitting, key=lambda node: len(node.lacks(requested)))
        shortages = ", ".join(
            f"it requests {shown(name, requested[name])} of {name}, and node {nearest.name} has "
            f"{shown(name, nearest.free.get(name, Decimal(0)))}"
            for name in nearest.lacks(requested)
        )
        return f"no node is large enough for a pod of role {role}: {shortages}; ask for less"
    return ""


def _wanted(pod: Mapping[str, Any]) -> dict[str, Decimal]:
    return added(requests(pod), quantities(pod.get("overhead") or {})) | {"pods": Decimal(1)}


def _why(nodes: list[Node], pod: Mapping[str, Any]) -> str:
    selector = pod.get("nodeSelector") or {}
    labelled = [node for node in nodes if selector.items() <= node.labels.items()]
    if not labelled:
        labels = ", ".join(f"{name}={value}" for name, value in selector.items())
        return f"none has the labels {labels}; change scheduling, or label one"
    taints = {taint["key"] for node in labelled for taint in node.taints}
    return f"it would have to tolerate {' or '.join(sorted(taints))}; change scheduling"


def _taints(node: Mapping[str, Any]) -> Iterator[Mapping[str, str]]:
    if node["spec"].get("unschedulable"):
        yield {"key": "node.kubernetes.io/unschedulable", "effect": "NoSchedule"}
    for taint in node["spec"].get("taints") or []:
        if taint["effect"] in _KEEPS_AWAY:
            yield taint


def _tolerates(toleration: Mapping[str, Any], taint: Mapping[str, str]) -> bool:
    """https://kubernetes.io/docs/concepts/scheduling-eviction/taint-and-toleration/."""
    if toleration.get("effect") not in (None, "", taint["effect"]):
        return False
    if not toleration.get("key"):
        return toleration.get("operator") == "Exists"
    if toleration["key"] != taint["key"]:
        return False
    return toleration.get("operator") == "Exists" or toleration.get("value", "") == taint.get(
        "value", ""
    )
