"""The launcher: run a training job on a Kubernetes cluster, to its end."""

import signal
from collections.abc import Mapping
from types import FrameType
from typing import Any

from trireme.errors import Cancelled, JobFailed, PodLost, ReplicaLost, TriremeError
from trireme.frameworks import least_replicas
from trireme.kubernetes import owner
from trireme.kubernetes.connection import Cluster
from trireme.kubernetes.errors import Unavailable
from trireme.observers.base import Observers, StartAnew
from trireme.process.signals import TOLD_TO_END, handled
from trireme.runner.cluster import submission
from trireme.runner.cluster.follower import Follower, Limits
from trireme.runner.cluster.status import State, status_of

RUNNING = "Running"
"""The ``cleanPodPolicy`` by which pods are removed that have not ended when their job has."""

LOST = 2
"""How often a job is made anew whose replicas its cluster takes away, apart from ``retries``."""

LAST_CALL = 20.0  # seconds to try to delete a job that is to run no longer


def launch(
    manifest: dict[str, Any],
    cluster: Cluster,
    limits: Limits,
    observers: Observers,
) -> Mapping[str, float]:
    """Creates a job on a cluster, or finds it there, and follows it to its end.

    A job that fails as its cluster takes a replica away is made anew, twice at most.

    Afterwards nothing of it runs, but for what its ``cleanPodPolicy`` leaves: a job that is
    cancelled or past its limits is deleted, unless this is the pod of a step that will be started
    again, and finds the job then. A job that only cannot be seen any more goes on. To be called
    from the main thread.

    Args:
        observers: Who looks at it meanwhile.

    Returns:
        Seconds that each replica ran, by name.

    Raises:
        InputError: The manifest is invalid, or the job's name is taken by another job.
        JobFailed: The job did not succeed; the message names the replica that caused it.
        Cancelled: This process was told to end (SIGTERM or SIGINT), or a person has cancelled
            the job.
        PodLost: It was told so because its pod goes, and its run does not.
        Refused: The cluster does not allow it, or does not know the kind of the job.
    """
    follower: Follower | None = None
    seconds: Mapping[str, float] = {}  # of jobs before this one
    lost = 0
    keeps_pods = False
    signals: list[int] = []

    def cancel(number: int, frame: FrameType | None) -> None:
        """Interrupts whatever is being waited for."""
        _ignore_signals()
        signals.append(number)
        raise Cancelled("the job was cancelled")

    with handled(cancel, _SIGNALS):
        try:
            while True:
                job = submission.submit(cluster, manifest, observers.prepare)
                follower = Follower(cluster, job, limits, observers)
                if _is_elastic(manifest) and _clean_up(cluster, job, "None"):
                    keeps_pods = True
                try:
                    seconds = _added(seconds, follower.follow())
                    break
                except JobFailed as error:
                    error.replica_seconds = seconds = _added(seconds, error.replica_seconds)
                    if isinstance(error, ReplicaLost) and lost < LOST:
                        lost += 1
                    elif not isinstance(error, StartAnew):
                        raise
                    observers.state(
                        f"{error}; it is made anew, and goes on from its last checkpoint"
                    )
                follower = None
                submission.delete(cluster, job)
        except BaseException as error:
            _ignore_signals()
            if signals and owner.starts_again(cluster, manifest):
                observers.state(
                    "this pod is being removed; the job goes on, and the step's next pod finds it"
                )
                observers.end(error)
                raise PodLost from None
            if follower and isinstance(error, Unavailable):
                name = manifest["metadata"]["name"]
                observers.state(f"{manifest['kind']} {name} is no longer followed, and goes on")
                observers.end(error)
                raise
            if follower:
                job_left: dict[str, Any] | None = follower.job
            else:
                job_left = _leftover_job(cluster, manifest, error, observers)
            if job_left:
                _delete_unless_ended(cluster, job_left, observers)
            observers.end(error)
            raise
        finally:
            if keeps_pods and follower and status_of(follower.job).state.ended:
                _clean_up(cluster, follower.job, RUNNING)
    observers.end(None)  # no signal makes a failure of this success any more
    return seconds


def _added(one: Mapping[str, float], other: Mapping[str, float]) -> dict[str, float]:
    return {name: one.get(name, 0.0) + other.get(name, 0.0) for name in {**one, **other}}


def _is_elastic(job: dict[str, Any]) -> bool:
    """Tells whether pods of a job may be removed, with their logs, that are just ending."""
    # The training operator 1.9 takes an elastic job for succeeded when one worker has, and removes
    # those that still run under ``cleanPodPolicy: Running`` (UpdateJobStatus in its controller,
    # DeletePodsAndServices in common/job.go). Without a follower that is as well: a worker that
    # came too late for the others would never end.
    policy = job["spec"].get("runPolicy", {}).get("cleanPodPolicy")
    return policy == RUNNING and least_replicas(job) is not None


def _clean_up(cluster: Cluster, job: dict[str, Any], policy: str) -> bool:
    """Says which pods its operator is to remove when a job has ended; tells whether it could."""
    try:
        submission.patch(cluster, job, {"spec": {"runPolicy": {"cleanPodPolicy": policy}}})
    except TriremeError:
        return False  # this user may not change jobs, or it is gone
    return True


def _leftover_job(
    cluster: Cluster,
    manifest: dict[str, Any],
    error: BaseException,
    observers: Observers,
) -> dict[str, Any] | None:
    """Returns the job that a submission may have left which did not come to its end."""
    if isinstance(error, TriremeError) and not isinstance(error, Cancelled):
        return None
    try:
        job = submission.find(cluster, manifest, patience=LAST_CALL)
    except TriremeError as problem:
        name = manifest["metadata"]["name"]
        observers.state(f"whether {manifest['kind']} {name} exists now is not known: {problem}")
        return None
    return job if job and submission.is_same(job, manifest) else None


def _delete_unless_ended(cluster: Cluster, job: dict[str, Any], observers: Observers) -> None:
    state = status_of(job).state
    if state.ended or state in (State.CANCELLED, State.DELETING):
        return
    try:
        submission.delete(cluster, job, patience=LAST_CALL)
    except TriremeError as error:
        observers.state(f"{job['kind']} {job['metadata']['name']} could not be deleted: {error}")


_SIGNALS: tuple[int, ...] = TOLD_TO_END


def _ignore_signals() -> None:
    """There is a job to delete; being told again to end does not make it faster."""
    for number in _SIGNALS:
        signal.signal(number, signal.SIG_IGN)
