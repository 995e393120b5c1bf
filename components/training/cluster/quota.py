"""What a namespace's ResourceQuotas and LimitRanges leave for a training job."""

from collections.abc import Callable, Iterator, Mapping
from decimal import Decimal
from typing import Any

from trireme.components.kubernetes.connection import Cluster
from trireme.components.kubernetes.resources import Resource
from trireme.components.training.description.values import quantity
from trireme.components.training.frameworks import kind_of
from trireme.components.training.manifests.roles import amounts, limits, requests, roles, shown

QUOTAS = Resource("", "v1", "resourcequotas")
LIMIT_RANGES = Resource("", "v1", "limitranges")

_PLAIN = ("cpu", "memory", "ephemeral-storage")  # whose requests need no prefix in a quota

# Of the pods of a pipeline's steps, which request nothing and have no priority.
_STEPS = ({"NotTerminating", "BestEffort"}, {""})

Amounts = Mapping[str, Decimal]


def problems(
    cluster: Cluster, manifest: dict[str, Any], at_once: int = 1, workspace: str = ""
) -> list[str]:
    """Returns why a job would not fit into the cluster's namespace, a sentence each.

    Args:
        cluster: The cluster.
        manifest: The job.
        at_once: How many jobs like it run at the same time.
        workspace: In a pipeline the size of the run's volume; its steps' pods request nothing.

    Raises:
        Forbidden: This user may not see the namespace's quotas.
    """
    quotas = cluster.list(QUOTAS, cluster.namespace).get("items") or []
    ranges = cluster.list(LIMIT_RANGES, cluster.namespace).get("items") or []
    found = [
        problem
        for quota in quotas
        if _applies(quota, *_counted_as(manifest))
        for problem in _over(quota, _wanted(manifest, at_once, workspace))
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
        for problem in _out_of(each["metadata"]["name"], limit, manifest, workspace)
    ]


def _counted_as(manifest: dict[str, Any]) -> tuple[set[str], set[str]]:
    """Returns the scopes that a job's pods are in, and their priorities."""
    pods = [role.pod for role in roles(manifest)]
    has_end = any("activeDeadlineSeconds" in pod for pod in pods)
    scopes = {"Terminating" if has_end else "NotTerminating", "NotBestEffort"}
    return scopes, {pod.get("priorityClassName", "") for pod in pods}


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


def _wanted(manifest: dict[str, Any], at_once: int, workspace: str) -> Amounts:
    """Returns what jobs take of a quota, by the names that quotas have for it."""
    pods = Decimal(sum(role.count for role in roles(manifest)))
    jobs = kind_of(manifest).full_name
    wanted = {"pods": pods, "count/pods": pods, f"count/{jobs}": Decimal(1)}
    asked, capped = _total(manifest, requests), _total(manifest, limits)
    wanted |= {f"requests.{name}": amount for name, amount in asked.items()}
    wanted |= {name: amount for name, amount in asked.items() if name in _PLAIN}
    wanted |= {f"limits.{name}": amount for name, amount in capped.items()}
    wanted = {name: at_once * amount for name, amount in wanted.items()}
    if workspace:
        wanted |= {"persistentvolumeclaims": Decimal(1), "requests.storage": quantity(workspace)}
    return wanted


def _total(manifest: dict[str, Any], of: Callable[[Mapping[str, Any]], Amounts]) -> Amounts:
    total: dict[str, Decimal] = {}
    for role in roles(manifest):
        for name, amount in of(role.pod).items():
            total[name] = total.get(name, Decimal(0)) + role.count * amount
    return total


def _over(quota: dict[str, Any], wanted: Amounts) -> Iterator[str]:
    status = quota.get("status") or {}
    hard, used = status.get("hard") or quota["spec"].get("hard") or {}, status.get("used") or {}
    for name, limit in hard.items():
        left = quantity(str(limit)) - quantity(str(used.get(name, 0)))
        if wanted.get(name, 0) > left:
            yield (
                f"ResourceQuota {quota['metadata']['name']}: {name} {shown(name, wanted[name])} "
                f"is wanted, {shown(name, max(left, Decimal(0)))} of {limit} is left: ask for "
                "less, or have it raised"
            )


def _silent(quota: dict[str, Any], ranges: list[dict[str, Any]]) -> Iterator[str]:
    """Says what steps would have to request that request nothing.

    https://kubernetes.io/docs/concepts/policy/resource-quotas/#requests-vs-limits
    """
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
                f"ResourceQuota {quota['metadata']['name']}: it wants every pod to say {name}, "
                f"which those of the steps do not: a LimitRange with a {field} for it is needed"
            )


def _out_of(
    name: str, limit: dict[str, Any], manifest: dict[str, Any], workspace: str
) -> Iterator[str]:
    """https://kubernetes.io/docs/concepts/policy/limit-range/."""
    for what, asked, capped in _things(limit["type"], manifest, workspace):
        for resource, most in (limit.get("max") or {}).items():
            if capped.get(resource, asked.get(resource, 0)) > quantity(str(most)):
                yield f"LimitRange {name}: {what} has more than {most} of {resource}"
        for resource, least in (limit.get("min") or {}).items():
            if asked.get(resource, 0) < quantity(str(least)):
                yield f"LimitRange {name}: {what} has less than {least} of {resource}"


def _things(
    kind: str, manifest: dict[str, Any], workspace: str
) -> Iterator[tuple[str, Amounts, Amounts]]:
    """Returns what a LimitRange of a type is about, with its requests and its limits."""
    if kind == "PersistentVolumeClaim" and workspace:
        size = {"storage": quantity(workspace)}
        yield "the run's workspace", size, size
    for role in roles(manifest):
        if kind == "Pod":
            yield f"a pod of role {role.name}", requests(role.pod), limits(role.pod)
        if kind == "Container":
            for container in [*role.pod["containers"], *role.pod.get("initContainers", [])]:
                what = f"container {container['name']} of role {role.name}"
                yield what, amounts(container, "requests"), amounts(container, "limits")
