"""Asking the cluster first whether it would let us run a job, and whether it would take it."""

import re
from contextlib import suppress
from typing import Any

from trireme.frameworks import kind_of
from trireme.frameworks.kinds import TRAINING_RUNTIMES, objects
from trireme.kubernetes import pod_exec
from trireme.kubernetes.access import Right, check_rights, may
from trireme.kubernetes.connection import Cluster
from trireme.kubernetes.errors import AlreadyThere, Forbidden, Invalid
from trireme.kubernetes.resources import PODS
from trireme.observers import hangs

_FULL = re.compile(r"\bexceeded quota:")
_WARNING = re.compile(r'299 \S+ "((?:[^"\\]|\\.)*)"')

_WITH_JOBS = ("create", "get", "list", "watch", "delete")
_WITH_RUNTIMES = ("create", "patch", "delete")
_WITH_PODS = ("list", "watch")


def check(cluster: Cluster, manifest: dict[str, Any], namespace: str) -> None:
    """Checks that a job can be run; nothing is created."""
    check_rights(cluster, namespace, rights(manifest))
    dry_run(cluster, manifest, namespace)
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
    resource = TRAINING_RUNTIMES if "runtime" in manifest else kind_of(manifest)
    with suppress(AlreadyThere):
        cluster.create(resource, first, namespace, dryRun="All")


def dry_run_pods(cluster: Cluster, manifest: dict[str, Any], namespace: str) -> list[str]:
    """Has the API server say whether it would take a pod of each role; nothing is created."""
    # The operator meets Pod Security, LimitRanges, quotas and webhooks only when the job exists.
    # Users who may make no pods, and TrainJobs, whose pods are their runtime's, are skipped.
    kind, warnings = kind_of(manifest), []
    if not kind.replicas or not may(cluster, namespace, PODS, "", "create"):
        return []
    for role, replicas in manifest["spec"][kind.replicas].items():
        template = replicas["template"]
        name = f"{manifest['metadata']['name']}-{role.lower()}-0"
        pod = {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": template.get("metadata", {}) | {"name": name},
            "spec": template["spec"] | {"restartPolicy": "Never"},
        }
        try:
            cluster.create(PODS, pod, namespace, dryRun="All")
        except AlreadyThere:
            continue
        except (Forbidden, Invalid) as error:
            if "does not support dry run" in str(error):  # a webhook
                continue
            message = str(error).partition(": ")[2]  # what comes before says who
            raise Invalid(f"a pod of role {role} would be refused: {message}") from None
        warnings += [text.replace('\\"', '"') for text in _WARNING.findall(cluster.warning)]
    return list(dict.fromkeys(warnings))
