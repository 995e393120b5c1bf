"""When a job has succeeded or failed, and which replicas are started again.

The rules are the operators': UpdateJobStatus and PastBackoffLimit of training operator v1.9
(https://github.com/kubeflow/training-operator/tree/v1.9.0/pkg/controller.v1 and pkg/core/job.go),
and for an MPIJob those of the batch Job that MPI operator v0.8 makes of its launcher.
"""

from collections.abc import Sequence

from trireme.components.training.kinds import MPIJOB, PYTORCHJOB, TFJOB
from trireme.components.training.local.manifest import Job
from trireme.components.training.local.replica import Replica

BATCH_BACKOFF_LIMIT = 6  # of a batch Job whose manifest does not say


def deciding(job: Job, replicas: Sequence[Replica]) -> list[Replica]:
    """Returns the replicas by whose success the job succeeds.

    Args:
        job: The job.
        replicas: All its replicas.
    """
    leaders = job.of("Master", "Chief", "Launcher")
    pods = leaders or job.of("Worker")
    return [replica for replica in replicas if replica.pod in pods]


def succeeded(job: Job, replicas: Sequence[Replica]) -> bool:
    """Tells whether the job has succeeded.

    Args:
        job: The job.
        replicas: All its replicas.
    """
    some = deciding(job, replicas)
    if some and all(replica.succeeded for replica in some):
        return True
    if any(replica.pod.role != "Worker" for replica in some):
        return False
    if job.kind is PYTORCHJOB and job.spec.get("elasticPolicy") is not None:
        return any(replica.succeeded for replica in some)
    if job.kind is TFJOB and job.spec.get("successPolicy") != "AllWorkers":
        return any(replica.succeeded and replica.pod.index == 0 for replica in some)
    return False


def restarts(job: Job, replica: Replica) -> bool:
    """Tells whether a replica that has just ended is to be started again, the limit aside.

    Args:
        job: The job.
        replica: The replica.
    """
    policy, status = replica.pod.restart_policy, replica.status or 0
    if policy == "Never" and replica.pod.role == "Launcher":
        return status != 0  # a batch Job makes another pod
    return (
        policy == "Always"
        or (policy == "OnFailure" and status != 0)
        or (policy == "ExitCode" and status >= 128)
    )


def past_backoff_limit(job: Job, replicas: Sequence[Replica], replica: Replica) -> bool:
    """Tells whether one more restart of a replica is more than ``backoffLimit`` allows.

    OnFailure and Always: the job fails when the restarts of all pods that have not ended reach
    the limit, so that a limit of 3 allows two; a limit of 0 or 1 none. ExitCode: the operator
    makes a new pod whose restarts count from 0, so that it heeds no limit but 0; here the limit
    is the number of restarts. Without a limit there is none, except for an MPIJob.

    Args:
        job: The job.
        replicas: All its replicas.
        replica: The one to be started again.
    """
    limit = job.policy.get("backoffLimit")
    if limit is None and job.kind is MPIJOB:
        limit = BATCH_BACKOFF_LIMIT
    if limit is None:
        return False
    policy = replica.pod.restart_policy
    if policy in ("ExitCode", "Never"):
        others = [other for other in replicas if other.pod.restart_policy == policy]
        return sum(other.restarts for other in others) + 1 > limit
    counted = [
        other
        for other in replicas
        if other.pod.restart_policy in ("OnFailure", "Always") and not other.succeeded
    ]
    if job.kind is MPIJOB:
        counted = [replica]  # only the launcher is a batch Job
    return sum(other.restarts for other in counted) + 1 >= max(limit, 1)


def fatal(job: Job, replica: Replica) -> bool:
    """Tells whether the job fails because of a replica that failed and is not started again.

    Args:
        job: The job.
        replica: The replica.
    """
    if not replica.status:
        return False
    if job.kind is MPIJOB:
        return replica.pod.role == "Launcher"  # mpirun notices what its workers do
    dynamic = job.kind is TFJOB and job.spec.get("enableDynamicWorker")
    return not (dynamic and replica.pod.role == "Worker" and replica.pod.restart_policy == "Never")


def serves(job: Job, replica: Replica) -> bool:
    """Tells whether a replica only serves others, and so never ends by itself.

    Args:
        job: The job.
        replica: The replica.
    """
    if job.kind is MPIJOB:
        return replica.pod.role == "Worker"
    if job.of("PS") and job.of("Chief", "Master"):
        return replica.pod.role in ("PS", "Worker")  # the chief gives the workers their work
    return replica.pod.role == "PS"
