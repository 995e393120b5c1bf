"""Reasons why nothing of a job runs: what its pods, its queue and the Events say."""

import functools
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from trireme.frameworks.kinds import GANG, QUEUE
from trireme.kubernetes import pods
from trireme.kubernetes.connection import Cluster
from trireme.kubernetes.errors import Forbidden, KindMissing, NotFound
from trireme.kubernetes.resources import EVENTS, Resource
from trireme.runner.cluster.status import State, is_suspended, is_train_job, roles_of, status_of

Event = dict[str, str]

Finder = Callable[[Cluster, dict[str, Any]], tuple[Resource, dict[str, Any]] | None]
"""Finds the Workload that Kueue has made for a job, after what resource it is."""

ASKED = 8  # pods of a job whose Events are asked for

_JOB_UID = "kueue.x-k8s.io/job-uid"  # the label of a Workload that tells whose it is

NO_GANG = (
    "it asks for gang scheduling, but no PodGroup has been created for it: is the operator set "
    "up with --gang-scheduler-name, and the scheduler installed?"
)
"""What is said of a job whose pods may wait for each other without end."""

NOT_HANDLED = "has not started to handle it; if that lasts, is it running?"
"""What is said of whoever is to see to a job or a pod next, where there is no sign of that."""

_WORKLOADS = (
    Resource("kueue.x-k8s.io", "v1beta1", "workloads"),
    Resource("kueue.x-k8s.io", "v1beta2", "workloads"),
)
POD_GROUPS = {
    "volcano": Resource("scheduling.volcano.sh", "v1beta1", "podgroups"),
    "coscheduling": Resource("scheduling.x-k8s.io", "v1alpha1", "podgroups"),
}
"""What each gang scheduler waits for."""


def why_queued(cluster: Cluster, job: dict[str, Any], find: Finder) -> str:
    """Says what a queued job waits for, as its Workload or PodGroup does; else empty."""
    if is_suspended(job):
        return _kueue(cluster, job, find)
    if wants_gang(job):
        return _pod_group(cluster, job)
    return ""


class Reason(NamedTuple):
    """Why pods of a job do not run, in the cluster's words, and the replicas that it is about."""

    words: str
    replicas: set[str]


def why_waiting(pods_by_replica: Mapping[str, dict[str, Any]]) -> Reason | None:
    """Says what pods of a job wait for, as far as they tell."""
    # A lost node comes first: others may wait for what is on it.
    for name, pod in sorted(pods_by_replica.items(), key=lambda item: not pods.lost_node(item[1])):
        is_ending = "deletionTimestamp" in pod["metadata"] and not pods.lost_node(pod)
        if is_ending or pods.is_over(pod):
            continue  # what goes waits for nothing
        if reason := pods.waiting_reason(pod):
            return Reason(f"{name}: {reason}", {name})
    return None


def why_not_running(
    cluster: Cluster,
    job: dict[str, Any],
    pods_by_replica: Mapping[str, dict[str, Any]],
    *,
    lacking: bool,
) -> Reason:
    """Says why pods of a job do not run."""
    if waiting := why_waiting(pods_by_replica):
        return waiting
    job_events = events(cluster, job, *pods_by_replica.values())
    for name, pod in pods_by_replica.items():
        event = _present(_about(pod, job_events))
        if event:
            return Reason(f"{name}: {event}", {name})
    for name, pod in pods_by_replica.items():
        if not (pod["spec"].get("nodeName") or pod.get("status", {}).get("conditions")):
            scheduler = pod["spec"].get("schedulerName", "its scheduler")
            return Reason(f"{name}: {scheduler} {NOT_HANDLED}", {name})
    if not lacking:
        return Reason("", set())  # what the Events of the job say is how its pods were made
    event = _present(_about(job, job_events))
    if not event and status_of(job).state is State.CREATED and not job.get("status"):
        event = f"its operator {NOT_HANDLED}"
    return Reason(event, set())


def _present(job_events: list[Event]) -> str:
    """Returns what is wrong by the latest of the Events about a thing: earlier ones are over."""
    latest = job_events[-1] if job_events else {"type": "Normal"}
    return f"{latest['reason']}: {latest['message']}" if latest["type"] == "Warning" else ""


def events(cluster: Cluster, job: dict[str, Any], *its_pods: dict[str, Any]) -> list[Event]:
    """Returns the Events about a job and its first pods, the latest last; none where forbidden."""
    # Each is asked for by itself: a namespace may have very many about others.
    about = [f"involvedObject.uid={item['metadata']['uid']}" for item in (job, *its_pods[:ASKED])]
    if is_train_job(job):
        # The Jobs of a TrainJob's roles make its pods, and say why they cannot: theirs count as
        # the job's.
        about.append("involvedObject.kind=Job")
    namespace, job_uid = job["metadata"]["namespace"], job["metadata"]["uid"]
    try:
        listing = [
            event
            for selector in about
            for event in cluster.items(EVENTS, namespace, fieldSelector=selector)
            if "uid" in selector or _is_of_its_jobs(job, event)
        ]
    except Forbidden:
        return []
    rows = [
        {
            "uid": job_uid if _is_of_its_jobs(job, event) else event["involvedObject"]["uid"],
            "type": event.get("type", "Normal"),
            "reason": event.get("reason", ""),
            "message": " ".join(event.get("message", "").split()),
            "time": event.get("lastTimestamp")
            or event.get("eventTime")
            or event["metadata"].get("creationTimestamp", ""),
        }
        for event in listing
    ]
    return sorted(rows, key=lambda event: event["time"])


def _is_of_its_jobs(job: dict[str, Any], event: dict[str, Any]) -> bool:
    """Tells whether an Event is about a Job that JobSet has made for a role of a TrainJob."""
    about, metadata = event["involvedObject"], job["metadata"]
    if about.get("kind") != "Job" or not is_train_job(job):
        return False
    # Where the runtime is ours a role has a Job for each of its replicas.
    name, _, index = str(about.get("name")).rpartition("-")
    is_its = index.isdecimal() and name in {f"{metadata['name']}-{role}" for role in roles_of(job)}
    # A TrainJob of the same name may have been there before.
    is_new = event["metadata"]["creationTimestamp"] >= metadata["creationTimestamp"]
    return is_its and is_new


def _about(item: dict[str, Any], job_events: list[Event]) -> list[Event]:
    return [event for event in job_events if event["uid"] == item["metadata"]["uid"]]


def workload_of(cluster: Cluster, job: dict[str, Any]) -> tuple[Resource, dict[str, Any]] | None:
    """Returns the Workload that Kueue has made for a job, after what resource it is."""
    namespace, selector = job["metadata"]["namespace"], f"{_JOB_UID}={job['metadata']['uid']}"

    def find(resource: Resource) -> tuple[Resource, dict[str, Any]] | None:
        workload = next(iter(cluster.items(resource, namespace, labelSelector=selector)), None)
        return (resource, workload) if workload else None

    return cluster.first(_WORKLOADS, find)


def workloads_of_many(cluster: Cluster) -> Finder:
    """Returns what ``workload_of`` does, for many jobs: they are asked for at once."""

    @functools.cache
    def by_job() -> dict[str, tuple[Resource, dict[str, Any]]]:
        def find(resource: Resource) -> dict[str, tuple[Resource, dict[str, Any]]]:
            workloads = cluster.each(resource, cluster.namespace, labelSelector=_JOB_UID)
            return {
                workload["metadata"]["labels"][_JOB_UID]: (resource, workload)
                for workload in workloads
            }

        return cluster.first(_WORKLOADS, find)

    return lambda _, job: by_job().get(job["metadata"]["uid"])


def _kueue(cluster: Cluster, job: dict[str, Any], find: Finder) -> str:
    queue = job["metadata"].get("labels", {}).get(QUEUE)
    if not queue:
        return "it is suspended, and no queue will admit it: set suspend to false to start it"
    try:
        match = find(cluster, job)
    except Forbidden:
        return f"waiting in queue {queue}"
    except KindMissing:
        return f"it asks for queue {queue}, but Kueue is not installed on the cluster"
    if match is None:
        return f"it asks for queue {queue}, but Kueue has not created a Workload for it"
    _, workload = match
    for condition in workload.get("status", {}).get("conditions") or []:
        if condition["type"] == "QuotaReserved" and condition["status"] == "False":
            return f"waiting in queue {queue}: {condition.get('message', '')}".rstrip(": ")
    return f"waiting in queue {queue}"


def wants_gang(job: dict[str, Any]) -> bool:
    """Tells whether all pods of a job are to start together, or none."""
    annotations = job["metadata"].get("annotations") or {}
    return GANG in annotations or "schedulingPolicy" in (job["spec"].get("runPolicy") or {})


def gang_unavailable(cluster: Cluster, job: dict[str, Any]) -> str:
    """Says that a job asks for gang scheduling which the cluster cannot have; else nothing."""
    if not wants_gang(job):
        return ""
    try:
        groups = [*POD_GROUPS.values()]
        cluster.first(groups, lambda resource: cluster.list(resource, cluster.namespace, limit="1"))
    except KindMissing:
        return (
            "scheduling.gang: the cluster has no PodGroups, so the pods are scheduled one by one: "
            "install Volcano or the scheduler plugins, and set the operator up with "
            "--gang-scheduler-name"
        )
    except Forbidden:
        pass
    return ""  # whether the operator makes use of them is seen when the job is there


def gang_missing(cluster: Cluster, job: dict[str, Any]) -> str:
    """Says that a job's pods have been made without the gang that it asks for; else nothing."""
    reason = _pod_group(cluster, job) if wants_gang(job) else ""
    return reason if reason == NO_GANG else ""


def _pod_group(cluster: Cluster, job: dict[str, Any]) -> str:
    metadata = job["metadata"]
    for resource in POD_GROUPS.values():
        try:
            group = cluster.get(resource, metadata["name"], metadata["namespace"])
        except (NotFound, KindMissing):
            continue
        except Forbidden:
            return ""
        return _pending(group)
    return NO_GANG


def _pending(group: dict[str, Any]) -> str:
    status = group.get("status", {})
    if status.get("phase", "Pending") != "Pending":
        return ""
    for condition in status.get("conditions") or []:
        if condition["type"] == "Unschedulable" and condition["status"] == "True":
            return f"waiting for room for all its pods at once: {condition.get('message', '')}"
    return "waiting for room for all its pods at once"
