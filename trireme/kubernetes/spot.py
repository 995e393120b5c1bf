"""Nodes that their provider may reclaim: their labels, and the taints that keep others off them."""

from collections.abc import Mapping

SPOT: dict[str, tuple[dict[str, str], dict[str, str] | None]] = {
    # https://learn.microsoft.com/azure/aks/spot-node-pool
    "aks": (
        {"kubernetes.azure.com/scalesetpriority": "spot"},
        {"key": "kubernetes.azure.com/scalesetpriority", "value": "spot", "effect": "NoSchedule"},
    ),
    # https://docs.aws.amazon.com/eks/latest/userguide/managed-node-groups.html
    "eks": ({"eks.amazonaws.com/capacityType": "SPOT"}, None),
    # https://cloud.google.com/kubernetes-engine/docs/concepts/spot-vms
    "gke": (
        {"cloud.google.com/gke-spot": "true"},
        {"key": "cloud.google.com/gke-spot", "value": "true", "effect": "NoSchedule"},
    ),
    # https://karpenter.sh/docs/concepts/scheduling/
    "karpenter": ({"karpenter.sh/capacity-type": "spot"}, None),
}
"""Label and, where there is one, taint of the nodes that each provider may reclaim."""


def is_spot(selector: Mapping[str, str]) -> bool:
    """Tells whether a node selector asks for nodes that their provider may reclaim."""
    return any(labels.items() <= selector.items() for labels, _ in SPOT.values())
