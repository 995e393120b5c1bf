"""Operators that a job could be made for, of those that a cluster has."""

from trireme.frameworks.kinds import TRAINJOB, Kind
from trireme.job.job import TrainingJob
from trireme.kubernetes.connection import Cluster
from trireme.kubernetes.errors import Forbidden, KindMissing
from trireme.manifests import default_operator


def operator_of(cluster: Cluster, job: TrainingJob) -> str:
    """Returns the operator for a job's manifest; by default the training operator."""
    if job.operator != "auto" or job.runtime:
        return default_operator(job)
    if not _serves(cluster, job.plugin.kind) and _serves(cluster, TRAINJOB):
        return "trainer"
    return "training-operator"


def _serves(cluster: Cluster, kind: Kind) -> bool:
    """Tells whether a cluster has a kind, in the version that we make."""
    path = f"/apis/{kind.group}/{kind.version}"
    try:
        served = cluster.request("GET", kind, path)
    except (KindMissing, Forbidden):
        return False
    return any(resource["name"] == kind.plural for resource in served.get("resources") or [])
