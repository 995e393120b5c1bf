"""Amounts that pods and their containers ask for: quantities, their sums, and which are GPUs.

Parsed by hand: Kubernetes' own client has a parser that takes more than the API server does, and
half a second to be imported, which the description of a job would cost every step.
"""

import re
from collections.abc import Iterable, Mapping
from decimal import Decimal
from typing import Any

# https://github.com/kubernetes/apimachinery/blob/v0.31.0/pkg/api/resource/quantity.go
_QUANTITY = re.compile(
    r"([0-9]+(?:\.[0-9]*)?|\.[0-9]+)([KMGTPE]i|[numkMGTPE]|[eE][+-]?[0-9]{1,3})?"
)
_POWERS = dict(zip("numkMGTPE", (-9, -6, -3, 3, 6, 9, 12, 15, 18), strict=True))

Amounts = Mapping[str, Decimal]


def quantity(text: str) -> Decimal:
    """Returns the number that a Kubernetes quantity stands for, as in ``16Gi``."""
    match = _QUANTITY.fullmatch(text)
    if not match:
        raise ValueError(f"{text!r} is not a Kubernetes quantity")
    number, unit = match[1], match[2] or ""
    if unit.endswith("i"):
        return Decimal(number) * 1024 ** ("KMGTPE".index(unit[0]) + 1)
    return Decimal(f"{number}e{_POWERS[unit]}" if unit in _POWERS else number + unit)


def quantities(texts: Mapping[str, Any]) -> dict[str, Decimal]:
    """Returns the numbers that quantities stand for, by resource."""
    return {name: quantity(str(text)) for name, text in texts.items()}


def is_gpu(resource: str) -> bool:
    """Tells whether a resource is GPUs, by its device plugin's name.

    Slices and shares of NVIDIA's count as GPUs of their own type
    (https://docs.nvidia.com/datacenter/cloud-native/gpu-operator/latest/gpu-sharing.html).
    """
    name = resource.partition("/")[2]
    return name in ("gpu", "gpu.shared") or resource.startswith("nvidia.com/mig-")


def added(first: Amounts, more: Amounts, times: int = 1) -> dict[str, Decimal]:
    """Returns amounts together with others, so many times."""
    names = [*first, *(name for name in more if name not in first)]
    return {name: first.get(name, Decimal(0)) + times * more.get(name, 0) for name in names}


def amounts(container: Mapping[str, Any], side: str) -> dict[str, Decimal]:
    """Returns the ``requests`` of a container, by default its limits, or its ``limits``."""
    resources = container.get("resources") or {}
    side_amounts = resources.get("limits") or {}
    if side == "requests":
        side_amounts = side_amounts | (resources.get("requests") or {})
    return quantities(side_amounts)


def requests(pod: Mapping[str, Any]) -> dict[str, Decimal]:
    """Returns what the scheduler sets aside for a pod, by its spec."""
    # https://kubernetes.io/docs/concepts/workloads/pods/sidecar-containers/#resource-sharing-within-containers
    return _together(pod, "requests")


def limits(pod: Mapping[str, Any]) -> dict[str, Decimal]:
    """Returns what a pod may use at most, counted as its requests are."""
    return _together(pod, "limits")


def shown(resource: str, amount: Decimal) -> str:
    """Returns an amount of a resource, also by its name in a quota, as a person writes it."""
    is_bytes = resource.rpartition(".")[2] in ("memory", "storage", "ephemeral-storage")
    return f"{float(amount) / 2**30:.4g}Gi" if is_bytes else f"{amount.normalize():f}"


def _together(pod: Mapping[str, Any], side: str) -> dict[str, Decimal]:
    # https://github.com/kubernetes/component-helpers/blob/v0.36.0/resource/helpers.go
    beside: dict[str, Decimal] = {}  # containers that came before and go on
    starting: list[Amounts] = []
    for container in pod.get("initContainers") or []:
        with_it = added(beside, amounts(container, side))
        starting.append(with_it)
        if container.get("restartPolicy") == "Always":
            beside = with_it
    total = beside
    for container in pod["containers"]:
        total = added(total, amounts(container, side))
    # What a pod has as a whole counts, whatever its containers ask for.
    return _most([total, *starting]) | quantities((pod.get("resources") or {}).get(side) or {})


def _most(several: Iterable[Amounts]) -> dict[str, Decimal]:
    largest: dict[str, Decimal] = {}
    for amounts_of_one in several:
        for name, amount in amounts_of_one.items():
            largest[name] = max(largest.get(name, Decimal(0)), amount)
    return largest
