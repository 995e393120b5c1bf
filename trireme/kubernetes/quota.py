"""Quotas: what a namespace's ResourceQuotas and LimitRanges leave for a job's pods."""

from collections.abc import Iterator, Sequence
from decimal import Decimal
from typing import Any

from trireme.kubernetes.amounts import (
    Amounts,
    added,
    amounts,
    limits,
    quantities,
    quantity,
    requests,
    shown,
)
from trireme.kubernetes.connection import Cluster
from trireme.kubernetes.resources import Resource

QUOTAS = Resource("", "v1", "resourcequotas")
LIMIT_RANGES = Resource("", "v1", "limitranges")

_PLAIN = ("cpu", "memory", "ephemeral-storage")  # whose requests need no prefix in a quota

# Of the pods of a pipeline's steps, which request nothing and have no priority.
_STEPS = ({"NotTerminating", "BestEffort"}, {""})

Pods = Sequence[tuple[str, int, dict[str, Any]]]  # of each role its name, how many, and their spec


def problems(
    cluster: Cluster, jobs: Resource, pods: Pods, at_once: int = 1, workspace: str = ""
) -> list[str]:
    """Returns why a job, and a run's volume of that size, would not fit into the namespace."""
    quotas = cluster.items(QUOTAS, cluster.namespace)
    ranges = cluster.items(LIMIT_RANGES, cluster.namespace)
    pods = [(role, count, _with_defaults(pod, ranges)) for role, count, pod in pods]
    found = [
        problem
        for quota in quotas
        if _applies(quota, *_counted_as(pods))
        for problem in _over(quota, _wanted(jobs, pods, at_once, workspace))
    ]
    if workspace:
        found += [
            problem
            for quota in quotas
            if _applies(quota, *_STEPS)
            for problem in _silent(quota, ranges)
        ]
    return found + [
        problem
        for each in ranges
        for limit in each["spec"]["limits"]
        for problem in _out_of(each["metadata"]["name"], limit, pods, workspace)
    ]


def _with_defaults(pod: dict[str, Any], ranges: list[dict[str, Any]]) -> dict[str, Any]:
    """Returns a pod as LimitRanges complete it, before anything is compared."""
    return pod | {
        field: [_completed(container, ranges) for container in pod.get(field, [])]
        for field in ("containers", "initContainers")
    }


def _completed(container: dict[str, Any], ranges: list[dict[str, Any]]) -> dict[str, Any]:
    resources = container.get("resources") or {}
    capped = resources.get("limits") or {}
    asked = capped | (resources.get("requests") or {})
    for each in ranges:
        defaults = [
            _defaults(limit) for limit in each["spec"]["limits"] if limit["type"] == "Container"
        ]
        for least, most in reversed(defaults):  # the last of a LimitRange wins
            asked, capped = least | asked, most | capped
    return container | {"resources": {"requests": asked, "limits": capped}}


def _defaults(limit: dict[str, Any]) -> tuple[dict[str, Any], dict[str, Any]]:
    """Returns the requests and the limits that containers get which have none."""
    # https://github.com/kubernetes/kubernetes/blob/v1.36.0/pkg/apis/core/v1/defaults.go
    capped = (limit.get("max") or {}) | (limit.get("default") or {})
    return (limit.get("min") or {}) | capped | (limit.get("defaultRequest") or {}), capped


def _counted_as(pods: Pods) -> tuple[set[str], set[str]]:
    """Returns the scopes that a job's pods are in, and their priorities."""
    has_end = any("activeDeadlineSeconds" in pod for _, _, pod in pods)
    scopes = {"Terminating" if has_end else "NotTerminating", "NotBestEffort"}
    return scopes, {pod.get("priorityClassName", "") for _, _, pod in pods}


def _applies(quota: dict[str, Any], scopes: set[str], priorities: set[str]) -> bool:
    """https://kubernetes.io/docs/concepts/policy/resource-quotas/#quota-scopes."""
    spec = quota["spec"]
    expressions = (spec.get("scopeSelector") or {}).get("matchExpressions") or []
    return set(spec.get("scopes") or []) <= scopes and all(
        _matches(expression, scopes, priorities) for expression in expressions
    )


def _matches(expression: dict[str, Any], scopes: set[str], priorities: set[str]) -> bool:
    if expression["scopeName"] != "PriorityClass":
        return expression["scopeName"] in scopes
    values = set(expression.get("values") or [])
    match expression["operator"]:
        case "In":
            return bool(priorities & values)
        case "NotIn":
            return not priorities & values
        case "Exists":
            return priorities != {""}
    return priorities == {""}


def _wanted(jobs: Resource, pods: Pods, at_once: int, workspace: str) -> Amounts:
    """Returns what jobs take of a quota, by the names that quotas have for it."""
    number = Decimal(sum(count for _, count, _ in pods))
    wanted = {"pods": number, "count/pods": number, f"count/{jobs.full_name}": Decimal(1)}
    asked: Amounts = {}
    capped: Amounts = {}
    for _, count, pod in pods:
        asked, capped = added(asked, requests(pod), count), added(capped, limits(pod), count)
    wanted |= {f"requests.{name}": amount for name, amount in asked.items()}
    wanted |= {name: amount for name, amount in asked.items() if name in _PLAIN}
    wanted |= {f"limits.{name}": amount for name, amount in capped.items()}
    wanted = {name: at_once * amount for name, amount in wanted.items()}
    if workspace:
        wanted |= {"persistentvolumeclaims": Decimal(1), "requests.storage": quantity(workspace)}
    return wanted


def _over(quota: dict[str, Any], wanted: Amounts) -> Iterator[str]:
    status = quota.get("status") or {}
    hard, used = status.get("hard") or quota["spec"].get("hard") or {}, status.get("used") or {}
    for name, limit in hard.items():
        left = quantity(str(limit)) - quantity(str(used.get(name, 0)))
        if wanted.get(name, 0) > left:
            yield (
                f"ResourceQuota {quota['metadata']['name']}: {name} {shown(name, wanted[name])} "
                f"is needed, but {shown(name, max(left, Decimal(0)))} of {limit} is left: ask "
                "for less, or have the quota raised"
            )


def _silent(quota: dict[str, Any], ranges: list[dict[str, Any]]) -> Iterator[str]:
    """Says what steps would have to request that request nothing."""
    # https://kubernetes.io/docs/concepts/policy/resource-quotas/#requests-vs-limits
    for name in quota["spec"].get("hard") or {}:
        which, _, resource = name.rpartition(".")
        field = "default" if which == "limits" else "defaultRequest"
        if resource in _PLAIN and not any(
            resource in (limit.get(field) or limit.get("default") or {})
            for each in ranges
            for limit in each["spec"]["limits"]
            if limit["type"] == "Container"
        ):
            yield (
                f"ResourceQuota {quota['metadata']['name']}: it requires {name} of every pod, "
                f"which the steps' pods do not set: add a LimitRange with a {field} for it"
            )


def _out_of(name: str, limit: dict[str, Any], pods: Pods, workspace: str) -> Iterator[str]:
    """https://kubernetes.io/docs/concepts/policy/limit-range/."""
    most, least = (quantities(limit.get(which) or {}) for which in ("max", "min"))
    for what, asked, capped in _things(limit["type"], pods, workspace):
        for resource in most:
            if capped.get(resource, asked.get(resource, 0)) > most[resource]:
                said = limit["max"][resource]
                yield f"LimitRange {name}: {what} has more than {said} of {resource}"
        for resource in least:
            if asked.get(resource, 0) < least[resource]:
                said = limit["min"][resource]
                yield f"LimitRange {name}: {what} has less than {said} of {resource}"


def _things(kind: str, pods: Pods, workspace: str) -> Iterator[tuple[str, Amounts, Amounts]]:
    """Returns what a LimitRange of a type is about, with its requests and its limits."""
    if kind == "PersistentVolumeClaim" and workspace:
        size = {"storage": quantity(workspace)}
        yield "the run's workspace", size, size
    for role, _, pod in pods:
        if kind == "Pod":
            yield f"a pod of role {role}", requests(pod), limits(pod)
        if kind == "Container":
            for container in [*pod["containers"], *pod.get("initContainers", [])]:
                what = f"container {container['name']} of role {role}"
                yield what, amounts(container, "requests"), amounts(container, "limits")
