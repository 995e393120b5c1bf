"""Jobs of a cluster, as answers."""

import time

from trireme.answers.answer import moment
from trireme.answers.jobs import (
    Condition,
    Event,
    JobList,
    JobStatus,
    ListedJob,
    ReplicaStatus,
    job_progress,
)
from trireme.kubernetes.connection import Cluster
from trireme.runner.cluster import jobs
from trireme.runner.cluster.status import State

ENDED = (State.SUCCEEDED, State.FAILED, State.CANCELLED)


def job_list(cluster: Cluster) -> JobList:
    """Returns our jobs as an answer."""
    return JobList(
        namespace=cluster.namespace,
        jobs=[
            ListedJob(
                name=row.name,
                job_kind=row.kind,
                state=row.state,
                created=moment(time.time() - row.age),
                running=row.running,
                replicas=row.replicas,
                reason=row.reason,
            )
            for row in jobs.list_jobs(cluster)
        ],
    )


def job_status(cluster: Cluster, name: str) -> JobStatus:
    """Returns all there is to see of a job as an answer."""
    details = jobs.status(cluster, name)
    row = details.row
    return JobStatus(
        name=row.name,
        job_kind=row.kind,
        namespace=cluster.namespace,
        state=row.state,
        has_ended=row.state in ENDED,
        created=moment(time.time() - row.age),
        seconds=row.age,
        reason=row.reason,
        progress=job_progress(details.progress),
        running=row.running,
        expected=row.replicas,
        replicas=[
            ReplicaStatus(
                name=replica.name,
                state=replica.state,
                restarts=replica.restarts,
                node=replica.node,
                pod=replica.pod,
                reason=replica.reason,
            )
            for replica in details.replicas
        ],
        conditions=[
            Condition(
                **{key: condition.get(key, "") for key in ("type", "status", "reason", "message")}
            )
            for condition in details.conditions
        ],
        events=[
            Event(time=event["time"], reason=event["reason"], message=event["message"])
            for event in details.events
        ],
        goodput=None,
        directory="",
    )
