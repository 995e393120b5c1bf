"""Operators that a job could be made for, of those that a cluster has."""

from typing import Any

from trireme.frameworks.kinds import TRAINJOB
from trireme.job.job import TrainingJob
from trireme.kubernetes.connection import Cluster
from trireme.kubernetes.errors import Forbidden, KindMissing
from trireme.kubernetes.resources import Resource
from trireme.manifests import default_operator, render, why_no_trainjob
from trireme.runner.cluster.reasons import POD_GROUPS


def manifest_of(cluster: Cluster, job: TrainingJob) -> dict[str, Any]:
    """Returns a job's manifest for the operator and the gang scheduler that a cluster has."""
    job = _with_gang_scheduler(cluster, job)
    return render(job, operator_of(cluster, job))


def operator_of(cluster: Cluster, job: TrainingJob) -> str:
    """Returns the operator for a job's manifest: Trainer, but for what only v1 has, or is there."""
    if job.operator != "auto" or job.runtime:
        return default_operator(job)
    has_trainer = _serves(cluster, TRAINJOB)
    if has_trainer and not why_no_trainjob(job):
        return "trainer"
    # Where neither is, the kind of v1 is what is then named as missing, with both that provide it.
    has_v1 = _serves(cluster, job.plugin.kind)
    return "trainer" if has_trainer and not has_v1 else "training-operator"


def _with_gang_scheduler(cluster: Cluster, job: TrainingJob) -> TrainingJob:
    """Returns a job that names the gang scheduler, where it asks for whichever there is."""
    if job.scheduling.gang is not True:
        return job
    names = [name for name, groups in POD_GROUPS.items() if _serves(cluster, groups)]
    gang = {"gang": names[0] if names else True}
    return job.model_copy(update={"scheduling": job.scheduling.model_copy(update=gang)})


def _serves(cluster: Cluster, kind: Resource) -> bool:
    """Tells whether a cluster has a kind, in the version that we make."""
    path = f"/apis/{kind.group}/{kind.version}"
    try:
        served = cluster.request("GET", kind, path)
    except (KindMissing, Forbidden):
        return False
    return any(resource["name"] == kind.plural for resource in served.get("resources") or [])
