"""Quotas of a namespace, and whether they leave room for all pods of a job together.

Of a single pod the API server says so itself, with what LimitRanges allow.
"""

from collections.abc import Iterable, Iterator
from decimal import Decimal
from typing import Any

from trireme.kubernetes.amounts import Amounts, added, limits, quantity, requests, shown
from trireme.kubernetes.connection import Cluster
from trireme.kubernetes.resources import Resource

QUOTAS = Resource("", "v1", "resourcequotas")

_PLAIN = ("cpu", "memory", "ephemeral-storage")  # whose requests need no prefix in a quota

Pods = Iterable[tuple[str, int, dict[str, Any]]]  # of each role its name, how many, and their spec


def problems(cluster: Cluster, pods: Pods) -> list[str]:
    """Returns why pods that the API server has completed would not all fit into the namespace."""
    pods = list(pods)
    return [
        problem
        for quota in cluster.items(QUOTAS, cluster.namespace)
        for problem in _over(quota, _wanted(item for item in pods if _counts(quota, item[2])))
    ]


def _counts(quota: dict[str, Any], pod: dict[str, Any]) -> bool:
    """https://kubernetes.io/docs/concepts/policy/resource-quotas/#quota-scopes."""
    priority = pod.get("priorityClassName", "")
    scopes = {"NotBestEffort"} | ({"PriorityClass"} if priority else set())  # a job's pods request
    scopes |= {"Terminating" if "activeDeadlineSeconds" in pod else "NotTerminating"}

    def matches(expression: dict[str, Any]) -> bool:
        match expression["operator"]:
            case "In":
                return priority in expression["values"]
            case "NotIn":
                return priority not in expression["values"]
            case "DoesNotExist":
                return not priority
        return expression["scopeName"] in scopes

    spec = quota["spec"]
    expressions = (spec.get("scopeSelector") or {}).get("matchExpressions") or []
    return set(spec.get("scopes") or []) <= scopes and all(map(matches, expressions))


def _wanted(pods: Pods) -> Amounts:
    """Returns what pods take of a quota, by the names that quotas have for it."""
    number, needed, capped = Decimal(0), dict[str, Decimal](), dict[str, Decimal]()
    for _, count, pod in pods:
        number += count
        needed, capped = added(needed, requests(pod), count), added(capped, limits(pod), count)
    return {
        "pods": number,
        "count/pods": number,
        **{f"requests.{name}": amount for name, amount in needed.items()},
        **{name: amount for name, amount in needed.items() if name in _PLAIN},
        **{f"limits.{name}": amount for name, amount in capped.items()},
    }


def _over(quota: dict[str, Any], needed: Amounts) -> Iterator[str]:
    status = quota.get("status") or {}
    hard, used = status.get("hard") or quota["spec"].get("hard") or {}, status.get("used") or {}
    for name, limit in hard.items():
        left = quantity(str(limit)) - quantity(str(used.get(name, 0)))
        if needed.get(name, 0) > left:
            yield (
                f"ResourceQuota {quota['metadata']['name']}: {name} {shown(name, needed[name])} "
                f"is needed, but {shown(name, max(left, Decimal(0)))} of {limit} is left: ask "
                "for less, or have the quota raised"
            )
