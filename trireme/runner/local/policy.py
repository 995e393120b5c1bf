"""Policies: when a job has succeeded or failed, and which replicas are started again.

The rules are the operators': UpdateJobStatus of training operator v1.9
(https://github.com/kubeflow/training-operator/tree/v1.9.0/pkg/controller.v1); what is otherwise for
a framework, that says.
"""

from collections.abc import Sequence

from trireme.errors import JobFailed
from trireme.observers.incidents import EPISODE, FailedAttempt, after, incidents
from trireme.runner.failed_replica import cause_of, is_peer_loss, last_lines
from trireme.runner.local.manifest import Job
from trireme.runner.local.replica import Failure, Replica


def deciding(job: Job, replicas: Sequence[Replica]) -> list[Replica]:
    """Returns the replicas by whose success the job succeeds: its leader, or its workers."""
    leaders = [pod for pod in job.pods if job.framework.role(pod.role).is_leader]
    pods = leaders or job.of("Worker")
    return [replica for replica in replicas if replica.pod in pods]


def succeeded(job: Job, replicas: Sequence[Replica]) -> bool:
    """Tells whether the job has succeeded."""
    deciders = deciding(job, replicas)
    if deciders and all(replica.succeeded for replica in deciders):
        return True
    if any(job.framework.role(replica.pod.role).is_leader for replica in deciders):
        return False
    return job.framework.has_succeeded(
        job, [replica.pod for replica in deciders if replica.succeeded]
    )


def restarts(job: Job, replica: Replica) -> bool:
    """Tells whether a replica that has just ended is to be started again, the limit aside."""
    policy, status = replica.pod.restart_policy, replica.status or 0
    if policy == "Never" and job.framework.role(replica.pod.role).is_batch_job:
        return status != 0  # which makes another pod
    return (
        policy == "Always"
        or (policy == "OnFailure" and status != 0)
        or (policy == "ExitCode" and status >= 128)
    )


def why_no_restart(
    job: Job, replicas: Sequence[Replica], replica: Replica, failed: Sequence[FailedAttempt]
) -> str | None:
    """Says why a replica that failed is not started again; ``None`` if it is."""
    if job.retries is not None:
        return after(job.retries) if incidents(failed) > job.retries else None
    # Either it is 0, or that of a batch Job, which counts one replica: others count incidents.
    limit = job.policy.get("backoffLimit", job.framework.backoff_limit)
    if limit is not None and replica.pod.restart_policy == "OnFailure":
        limit -= 1  # a pod's restarts must not reach it, while new pods must not exceed it
    if limit is None or replica.retries < limit:
        return None
    restarted = any(other.retries for other in replicas)
    return ": the job has reached its backoffLimit" if restarted else ""


def failure(job: Job, replicas: Sequence[Replica], reason: str) -> JobFailed:
    """Returns what to say of a job that failed: the replica that caused it, and its last lines."""
    failures = [replica.failure for replica in replicas if replica.failure]
    last = max(failure.ended for failure in failures)

    def innocence(failure: Failure) -> tuple[bool, bool, float]:
        old = failure.ended < last - EPISODE
        return is_peer_loss(failure.lines), old, failure.ended

    cause = min(failures, key=innocence)
    words, lines = job.framework.explain_failure(cause.replica, cause.status, cause.lines)
    words += f"{cause.memory}{reason}{cause_of(cause.status, lines)}"
    return JobFailed(words, last_lines(cause.replica, lines))
