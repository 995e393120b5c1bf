"""Checking on a cluster, before anything is created, that a training job would run there."""

from collections.abc import Generator, Iterable, Iterator
from dataclasses import dataclass
from enum import StrEnum
from functools import partial
from itertools import chain
from typing import Any

from trireme.errors import InputError
from trireme.frameworks import kind_of, least_replicas
from trireme.frameworks.kinds import QUEUE
from trireme.kubernetes import access, nodes, quota
from trireme.kubernetes.access import Right
from trireme.kubernetes.connection import Cluster
from trireme.kubernetes.errors import Forbidden, KindMissing, Refused
from trireme.kubernetes.resources import (
    CLAIMS,
    CONFIG_MAPS,
    PODS,
    SECRETS,
    SERVICE_ACCOUNTS,
    Resource,
)
from trireme.manifests.references import Needed
from trireme.manifests.roles import Role, roles
from trireme.runner.cluster import admission, reasons

RESOURCES = {
    "Secret": [SECRETS],
    "ConfigMap": [CONFIG_MAPS],
    "PersistentVolumeClaim": [CLAIMS],
    "ServiceAccount": [SERVICE_ACCOUNTS],
    "PriorityClass": [Resource("scheduling.k8s.io", "v1", "priorityclasses")],
    # https://kueue.sigs.k8s.io/docs/concepts/local_queue/
    "LocalQueue": [
        Resource("kueue.x-k8s.io", version, "localqueues") for version in ("v1beta1", "v1beta2")
    ],
    # https://volcano.sh/en/docs/queue/
    "Queue": [Resource("scheduling.volcano.sh", "v1beta1", "queues")],
}
"""Where each kind is; where there are several versions, a cluster may have only the later one."""

_CLUSTER_SCOPED = ("PriorityClass", "Queue")


class Verdict(StrEnum):
    """What a check has found."""

    OK = "ok"
    FAILED = "failed"
    UNKNOWN = "unknown"


@dataclass(frozen=True)
class Finding:
    """What a check has found, and in a sentence what is so or, if it failed, what to do."""

    verdict: Verdict
    sentence: str


_ok, _failed, _unknown = (partial(Finding, verdict) for verdict in Verdict)


def check_all(
    cluster: Cluster,
    manifest: dict[str, Any],
    allowed: Iterable[Finding],
    objects: Iterable[Needed],
    at_once: int,
    workspace: str,
) -> Iterator[Finding]:
    """Checks everything that can be checked beforehand; nothing is created.

    Args:
        allowed: The findings about rights, of ``yours`` and ``account``.
        workspace: In a pipeline the size of the run's volume.
    """
    findings = chain(
        allowed,
        _dry_run(cluster, manifest),
        (is_there(cluster, needed) for needed in objects),
        _gang(cluster, manifest),
    )
    failed = False
    for finding in findings:
        failed |= finding.verdict is Verdict.FAILED
        yield finding
    pods = roles(manifest)
    if not failed:  # it refuses pods for much of the above, too, in words that are less clear
        pods = yield from _pods(cluster, manifest, workspace)
    yield from _quota(cluster, pods, at_once)
    yield from _room(cluster, manifest, at_once)


def yours(cluster: Cluster, rights: Iterable[Right]) -> Finding:
    """Checks what this user may do."""
    needed = list(rights)
    try:
        access.check_rights(cluster, cluster.namespace, needed)
    except Forbidden as error:
        return _failed(str(error))
    return _ok(f"you may {access.in_words(needed)}")


def account(cluster: Cluster, name: str, rights: Iterable[Right], remedy: str) -> Finding:
    """Checks what a service account may do, whose rights are not those of this user."""
    needed = list(rights)
    try:
        lacking = access.lacking_to(cluster, name, needed)
    except Forbidden:
        return _unknown(f"ServiceAccount {name}: you may not see what it may do; {remedy}")
    if lacking:
        return _failed(f"ServiceAccount {name} may not {access.in_words(lacking)}; {remedy}")
    return _ok(f"ServiceAccount {name} may {access.in_words(needed)}")


def _dry_run(cluster: Cluster, manifest: dict[str, Any]) -> Iterator[Finding]:
    try:
        admission.dry_run(cluster, manifest, cluster.namespace)
    except Refused as error:
        if isinstance(error, Forbidden) and not access.may(
            cluster, cluster.namespace, kind_of(manifest), "", "create"
        ):
            words = f"you may not check whether the API server would accept the {manifest['kind']}"
            yield _unknown(words)
        else:
            yield _failed(str(error))
    else:
        yield _ok(f"the API server would accept the {manifest['kind']}")


def _pods(
    cluster: Cluster, manifest: dict[str, Any], workspace: str
) -> Generator[Finding, None, list[Role]]:
    """Checks that the API server would accept each pod; returns the job's as it completes them."""
    namespace, pods = cluster.namespace, roles(manifest)
    try:
        if access.may(cluster, namespace, PODS, "", "create"):
            pods, warnings = admission.dry_run_pods(cluster, manifest, namespace)
            if workspace:
                admission.dry_run_step(cluster, manifest, namespace)
            yield _ok("the API server would accept the pods")
            yield from (_unknown(f"the API server warns: {warning}") for warning in warnings)
        else:
            yield _unknown("you may not create pods to see if the API server would accept them")
        if workspace and access.may(cluster, namespace, CLAIMS, "", "create"):
            admission.dry_run_volume(cluster, workspace, namespace)
    except Refused as error:
        yield _failed(str(error))
    return pods


def _quota(cluster: Cluster, pods: list[Role], at_once: int) -> Iterator[Finding]:
    try:
        together = [(role.name, at_once * role.count, role.pod) for role in pods]
        problems = quota.problems(cluster, together)
    except Forbidden:
        yield _unknown("you may not list resourcequotas to see if all pods fit")
        return
    yield from map(_failed, problems)
    if not problems:
        yield _ok("no ResourceQuota is in the way of all pods together")


def is_there(cluster: Cluster, needed: Needed) -> Finding:
    """Checks that an object is there, if it has to be, and can be used as it is to be."""
    name = f"{needed.kind} {needed.name}"
    try:
        existing = _find(cluster, needed)
    except KindMissing as error:
        return _failed(f"{name}: {error}")
    except Forbidden:
        return _unknown(f"{name}: you may not check whether it exists")
    if existing is None and needed.optional:
        return _ok(f"{name} does not exist, and is optional")
    if existing is None:
        scope = "on the cluster" if needed.kind in _CLUSTER_SCOPED else f"in {cluster.namespace}"
        return _failed(f"{name} is not {scope}: create it, or name another")
    modes = existing.get("spec", {}).get("accessModes", []) if needed.modes else []
    if needed.modes and not set(modes) & set(needed.modes):
        return _failed(f"{name} is {' and '.join(modes)}: it has to be {' or '.join(needed.modes)}")
    return _ok(f"{name} exists")


def require_references(cluster: Cluster, *objects: Needed) -> None:
    """Refuses what names objects that are not there; what cannot be seen may be."""
    for needed in objects:
        if (finding := is_there(cluster, needed)).verdict is Verdict.FAILED:
            access.check_namespace(cluster)
            raise InputError(finding.sentence)


def _find(cluster: Cluster, needed: Needed) -> dict[str, Any] | None:
    namespace = "" if needed.kind in _CLUSTER_SCOPED else cluster.namespace
    return cluster.first(
        RESOURCES[needed.kind], lambda resource: cluster.find(resource, needed.name, namespace)
    )


def _gang(cluster: Cluster, manifest: dict[str, Any]) -> Iterator[Finding]:
    if problem := reasons.gang_unavailable(cluster, manifest):
        yield _failed(problem)


def _room(cluster: Cluster, manifest: dict[str, Any], at_once: int) -> Iterator[Finding]:
    try:
        cluster_nodes = nodes.there(cluster)
    except Forbidden:
        yield _unknown("you may not list the nodes to see if they are large enough")
        return
    problem = nodes.problem(cluster_nodes, needed(manifest, at_once)) if cluster_nodes else ""
    if not cluster_nodes:
        yield _unknown("the cluster has no nodes yet to see if they are large enough")
    elif not problem:
        yield _ok("the nodes are large enough for the pods of each role")
    elif _is_queued(manifest):
        yield _unknown(f"{problem}, or let it wait in its queue")
    else:
        yield _failed(problem)


def needed(manifest: dict[str, Any], at_once: int = 1) -> list[tuple[str, int, dict[str, Any]]]:
    """Returns each role's name, how many of its pods have to run, and their spec."""
    least = least_replicas(manifest)
    return [
        (role.name, at_once * (role.count if least is None else least), role.pod)
        for role in roles(manifest)
    ]


def _is_queued(manifest: dict[str, Any]) -> bool:
    """Tells whether a job waits for its room in a queue of Kueue or Volcano."""
    return QUEUE in (manifest["metadata"].get("labels") or {}) or reasons.wants_gang(manifest)
