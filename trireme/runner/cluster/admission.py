"""Asking the cluster first whether it would let us run a job, and whether it would take it."""

import re
from contextlib import suppress
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from trireme.frameworks import kind_of
from trireme.frameworks.kinds import TRAINING_RUNTIMES, objects
from trireme.kubernetes import pod_exec
from trireme.kubernetes.access import Right, check_rights, may
from trireme.kubernetes.connection import Cluster
from trireme.kubernetes.errors import AlreadyThere, Forbidden, Invalid
from trireme.kubernetes.resources import CLAIMS, PODS, Resource
from trireme.observers import hangs
from trireme.runner.cluster.kueue import check_is_held

if TYPE_CHECKING:
    from trireme.manifests.roles import Role

_FULL = re.compile(r"\bexceeded quota:")
_AMOUNTS = re.compile(r"\bquota: | per (Container|Pod) is ")  # of quotas and LimitRanges
_WARNING = re.compile(r'299 \S+ "((?:[^"\\]|\\.)*)"')

_WITH_JOBS = ("create", "get", "list", "watch", "delete")
_WITH_RUNTIMES = ("create", "patch", "delete")
_WITH_PODS = ("list", "watch")


def check(cluster: Cluster, manifest: dict[str, Any], namespace: str) -> None:
    """Checks that a job can be run; nothing is created."""
    check_rights(cluster, namespace, rights(manifest))
    dry_run(cluster, manifest, namespace)
    if not may(cluster, namespace, PODS, "", "create"):
        return
    try:
        dry_run_pods(cluster, manifest, namespace)
    except Invalid as error:
        if not _FULL.search(str(error)):  # there may be room later; the operator tries again
            raise


def rights(manifest: dict[str, Any]) -> list[Right]:
    """Returns what has to be allowed to whoever runs a job and follows it."""
    jobs, answers = kind_of(manifest), hangs.answer(manifest) != "report"
    return [
        *((jobs, "", verb) for verb in _WITH_JOBS),
        *((TRAINING_RUNTIMES, "", verb) for verb in _WITH_RUNTIMES if "runtime" in manifest),
        *((PODS, "", verb) for verb in _WITH_PODS),
        (PODS, "log", "get"),
        *(pod_exec.RIGHTS if answers else ()),  # without it a job that hangs is not told
    ]


def dry_run(cluster: Cluster, manifest: dict[str, Any], namespace: str) -> None:
    """Has the API server say whether it would take a job; nothing is created."""
    # Of a TrainJob with a runtime of its own only that is tried: Trainer refuses a TrainJob whose
    # runtime does not exist.
    first, *_ = objects(manifest)
    with suppress(AlreadyThere):
        if "runtime" in manifest:
            cluster.create(TRAINING_RUNTIMES, first, namespace, dryRun="All")
        else:
            check_is_held(first, cluster.create(kind_of(manifest), first, namespace, dryRun="All"))


def dry_run_pods(
    cluster: Cluster, manifest: dict[str, Any], namespace: str
) -> "tuple[list[Role], list[str]]":
    """Has the API server say whether it would take a pod of each role; nothing is created.

    Returns:
        The roles, with their pods as the API server completes them, and what it warns of.
    """
    from trireme.manifests.roles import roles

    # The operator meets Pod Security, LimitRanges, quotas and webhooks only when the job exists.
    completed, warnings = list["Role"](), list[str]()
    for role in roles(manifest):
        name = f"{manifest['metadata']['name']}-{role.name.lower()}-0"
        try:
            pod = _try_out(cluster, _pod(role, name), namespace, f"a pod of role {role.name}")
        except Invalid as error:
            # Of a runtime's pods only what they request is known.
            if role.metadata is not None or _AMOUNTS.search(str(error)):
                raise
            pod = None
        if pod:
            role = replace(role, pod=pod["spec"])
            warnings += [text.replace('\\"', '"') for text in _WARNING.findall(cluster.warning)]
        completed.append(role)
    return completed, list(dict.fromkeys(warnings))


def dry_run_step(cluster: Cluster, manifest: dict[str, Any], namespace: str) -> None:
    """Has the API server say whether it would take a pod as it takes a job's, without requests."""
    from trireme.manifests.roles import roles

    role, *_ = roles(manifest)
    if role.metadata is None:
        return
    containers = [container | {"resources": {}} for container in role.pod["containers"]]
    pod = _pod(replace(role, pod=role.pod | {"containers": containers}), "trireme-dry-run")
    try:
        _try_out(cluster, pod, namespace, "a step's pod, which requests nothing,")
    except Invalid as error:
        hint = "; add a LimitRange with defaults" if "must specify" in str(error) else ""
        raise Invalid(f"{error}{hint}") from None


def dry_run_volume(cluster: Cluster, size: str, namespace: str) -> None:
    """Has the API server say whether it would take the claim for a run's workspace."""
    resources = {"resources": {"requests": {"storage": size}}}
    claim = {
        "apiVersion": "v1",
        "kind": "PersistentVolumeClaim",
        "metadata": {"name": "trireme-dry-run"},
        "spec": {"accessModes": ["ReadWriteMany"]} | resources,
    }
    _try_out(cluster, claim, namespace, "the run's workspace", CLAIMS)


def _pod(role: "Role", name: str) -> dict[str, Any]:
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": (role.metadata or {}) | {"name": name},
        "spec": role.pod | {"restartPolicy": "Never"},
    }


def _try_out(
    cluster: Cluster, body: dict[str, Any], namespace: str, label: str, resource: Resource = PODS
) -> dict[str, Any] | None:
    """Returns an object as the API server would make it; ``None`` where it does not say."""
    try:
        return cluster.create(resource, body, namespace, dryRun="All")
    except AlreadyThere:
        return None
    except (Forbidden, Invalid) as error:
        if "does not support dry run" in str(error):  # a webhook
            return None
        message = str(error).partition(": ")[2]  # what comes before says who
        raise Invalid(f"{label} would be refused: {message}") from None
