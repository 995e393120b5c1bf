"""Nodes of a cluster, and whether they have room for some pods now.

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
    """A node: what of it nobody has requested, and its taints that keep pods away."""

    name: str
    labels: Mapping[str, str]
    taints: list[Mapping[str, str]]
    free: dict[str, Decimal]

    def take(self, wanted: Amounts) -> None:
        """Sets aside what a pod requests."""
        self.free = added(self.free, wanted, -1)

    def lacks(self, wanted: Amounts) -> list[str]:
        """Returns the resources of which there is not enough for a pod."""
        return [name for name, amount in wanted.items() if amount > self.free.get(name, 0)]

    def may_run(self, pod: Mapping[str, Any]) -> bool:
        """Tells whether a pod may run here, if there is room."""
        selector = pod.get("nodeSelector") or {}
        tolerations = pod.get("tolerations") or []
        return selector.items() <= self.labels.items() and all(
            any(_tolerates(toleration, taint) for toleration in tolerations)
            for taint in self.taints
        )


def free(cluster: Cluster) -> list[Node]:
    """Returns the nodes of a cluster that take pods."""
    found = {
        node["metadata"]["name"]: Node(
            node["metadata"]["name"],
            node["metadata"].get("labels") or {},
            list(_taints(node)),
            quantities(node["status"]["allocatable"]),
        )
        for node in cluster.items(NODES, "")
        if node.get("status", {}).get("allocatable")  # else its kubelet has not told yet
    }
    for pod in cluster.items(PODS, "", fieldSelector=NOT_OVER):
        if node := found.get(pod["spec"].get("nodeName", "")):
            node.take(_wanted(pod["spec"]))
    return list(found.values())


def problem(nodes: list[Node], pods: Iterable[tuple[str, int, Mapping[str, Any]]]) -> str:
    """Says which pod finds no room, and what lacks, or nothing; takes the room from ``nodes``."""
    most = {
        name: max(node.free.get(name, Decimal(0)) for node in nodes)
        for name in {name for node in nodes for name in node.free}
    }

    def order(each: tuple[str, int, Mapping[str, Any]]) -> tuple[int, float]:
        wanted = _wanted(each[2])
        return len(wanted), _size(wanted, most)

    # Those with devices first, and the largest: the others find room on more nodes.
    for role, count, pod in sorted(pods, key=order, reverse=True):
        wanted = _wanted(pod)
        fitting = [node for node in nodes if node.may_run(pod)]
        if not fitting:
            return f"no node takes a pod of role {role}: {_why(nodes, pod)}"
        # A node that has little left, and no devices, is of little use to the others.
        tightest = sorted(fitting, key=lambda node: _size(node.free, most))
        for number in range(1, count + 1):
            best = next((node for node in tightest if not node.lacks(wanted)), None)
            if not best:
                nearest = min(fitting, key=lambda node: len(node.lacks(wanted)))
                return (
                    f"no node has room for pod {number} of {count} of role {role}: "
                    f"{_compared(nearest, wanted, nearest.lacks(wanted))}; ask for less, or make "
                    "room"
                )
            best.take(wanted)
    return ""


def _size(some: Amounts, most: Amounts) -> float:
    """Returns amounts as one number: each as a share of the most that a node has."""
    return sum(float(some[name] / most[name]) for name in some if most.get(name, 0) > 0)


def _wanted(pod: Mapping[str, Any]) -> dict[str, Decimal]:
    return added(requests(pod), quantities(pod.get("overhead") or {})) | {"pods": Decimal(1)}


def _compared(node: Node, wanted: Amounts, lacking: list[str]) -> str:
    return ", ".join(
        f"it requests {shown(name, wanted[name])} of {name}, and node {node.name} has "
        f"{shown(name, max(node.free.get(name, Decimal(0)), Decimal(0)))} left"
        for name in lacking
    )


def _why(nodes: list[Node], pod: Mapping[str, Any]) -> str:
    selector = pod.get("nodeSelector") or {}
    labelled = [node for node in nodes if selector.items() <= node.labels.items()]
    if not labelled:
        wanted = ", ".join(f"{name}={value}" for name, value in selector.items())
        return f"none has the labels {wanted}; change scheduling, or label one"
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
