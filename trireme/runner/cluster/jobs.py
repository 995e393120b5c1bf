"""Commands on the jobs of a cluster: list, look, read logs, cancel, delete."""

import difflib
import functools
import re
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from trireme.errors import InputError, JobFailed, NoSuchJob
from trireme.frameworks import KINDS, framework_of, kind_of, pods_of
from trireme.frameworks.kinds import QUEUE
from trireme.job import names
from trireme.kubernetes import pods
from trireme.kubernetes.connection import Cluster
from trireme.kubernetes.errors import Forbidden, KindMissing, Refused
from trireme.kubernetes.resources import PODS
from trireme.kubernetes.streams import Stop
from trireme.observers.base import Observers
from trireme.observers.preflight.report import PreflightLines
from trireme.observers.printing import Printing
from trireme.observers.usage import Usage
from trireme.progress import Progress
from trireme.runner.cluster import identity, progress, reasons, submission
from trireme.runner.cluster import usage as containers
from trireme.runner.cluster.event_files import pull
from trireme.runner.cluster.follower import Follower, Limits
from trireme.runner.cluster.replicas import Replicas
from trireme.runner.cluster.status import (
    CANCELLED,
    State,
    expected_replicas,
    is_train_job,
    replica_names,
    status_of,
)
from trireme.text.say import say

_NAME = re.compile(r"[a-z0-9.-]+")  # of any object

MANAGED = "app.kubernetes.io/managed-by=trireme"
"""The label of the jobs that are ours."""


@dataclass(frozen=True)
class Row:
    """A job in a list; ``reason`` is why it is in its state, if the cluster says so."""

    name: str
    kind: str
    state: str
    running: int
    replicas: int
    age: float
    reason: str


@dataclass(frozen=True)
class ReplicaRow:
    """A replica of a job; ``reason`` is why it is in its state, if the cluster says so."""

    name: str
    pod: str
    node: str
    state: str
    restarts: int
    reason: str


@dataclass(frozen=True)
class Details:
    """All there is to see of a job; ``progress`` is None where it does not run or tell."""

    row: Row
    progress: Progress | None
    conditions: list[dict[str, str]]
    replicas: list[ReplicaRow]
    events: list[dict[str, str]]


def list_jobs(cluster: Cluster) -> list[Row]:
    """Returns our jobs of every kind in the cluster's namespace, the latest first."""

    @functools.cache
    def pods_by_job(label: str) -> dict[str, list[dict[str, Any]]]:
        pods_of_jobs = defaultdict(list)
        for pod in cluster.each(
            PODS, cluster.namespace, labelSelector=label, fieldSelector=pods.NOT_OVER
        ):
            pods_of_jobs[pod["metadata"]["labels"][label]].append(pod)
        return pods_of_jobs

    rows, find = [], reasons.workloads_of_many(cluster)
    for job in _each_job(cluster, {}, labelSelector=MANAGED):
        pods_of_name = pods_by_job(kind_of(job).job_label).get(job["metadata"]["name"], [])
        own_pods = [pod for pod in pods_of_name if identity.is_of(pod, job)]
        if any(map(pods.lost_node, own_pods)):
            own_pods = _pods(cluster, job)  # with the successors that are over
        rows.append(_row(cluster, job, own_pods, find))
    return sorted(rows, key=lambda row: row.age)


def find(cluster: Cluster, name: str) -> dict[str, Any]:
    """Returns a job by its name, whatever its kind."""
    matches: list[dict[str, Any]] = []
    forbidden: dict[str, Refused] = {}
    if _NAME.fullmatch(name):  # else it would be another selector
        matches = [*_each_job(cluster, forbidden, fieldSelector=f"metadata.name={name}")]
    if len(matches) == 1:
        return matches[0]
    in_namespace = f"in namespace {cluster.namespace}"
    if matches:
        kinds = " and a ".join(job["kind"] for job in matches)
        raise InputError(f"job {name!r}: there is a {kinds} of that name {in_namespace}")
    there_are = [job["metadata"]["name"] for job in _each_job(cluster, forbidden)]
    close = difflib.get_close_matches(name, there_are)
    hint = f"; is it {' or '.join(close)}?" if close else ""
    if forbidden:
        hint += f"; this user may not see any {' or '.join(forbidden)}"
    raise NoSuchJob(f"job {name!r}: there is no such job {in_namespace}{hint}")


def status(cluster: Cluster, name: str) -> Details:
    """Returns all there is to see of a job."""
    job = find(cluster, name)
    own_pods = _pods(cluster, job)
    odd_first = sorted(own_pods, key=lambda pod: pods.is_running(pod, _container(job, pod)))
    return Details(
        _row(cluster, job, own_pods),
        _progress(cluster, job, own_pods),
        job.get("status", {}).get("conditions") or [],
        sorted((_replica_row(job, pod) for pod in own_pods), key=lambda row: row.name),
        reasons.events(cluster, job, *odd_first),
    )


def logs(
    cluster: Cluster, name: str, *, follow: bool, replica: str, on_line: Callable[[str, str], None]
) -> None:
    """Passes on what the replicas of a job print, or only one such as ``worker-0``."""
    job = find(cluster, name)
    own_pods = _pods(cluster, job)
    with_pods = {identity.replica_name(pod) for pod in own_pods}
    known_names = with_pods | replica_names(job)
    if replica and replica not in known_names:
        raise InputError(
            f"replica {replica!r}: job {name!r} has none of that name; "
            f"it has {', '.join(sorted(known_names)) or 'none yet'}"
        )
    stop = Stop()

    def forward_lines(of: str, line: str) -> None:
        try:
            on_line(of, line)
        except BrokenPipeError:
            stop.set()

    observers = Observers([PreflightLines(), Printing(forward_lines)])
    if follow and not status_of(job).state.ended:
        # That the job fails is no failure of reading its logs.
        with suppress(JobFailed):
            limits = Limits(retries=False)
            Follower(cluster, job, limits, observers, replica=replica, stop=stop).follow()
        return
    replicas = Replicas(
        cluster,
        kind_of(job).container,
        observers,
        stop,
        count=len(own_pods),
        follow=False,
        only=replica,
    )
    for pod in own_pods:
        replicas.update(pod, gone=False)
    replicas.wait_for_logs()
    stop.set()
    if not own_pods or replica not in ("", *with_pods):
        subject = f"replica {replica!r} of job" if replica else "job"
        say(f"{subject} {name!r} has no pod, and so no log")


def running_replica(cluster: Cluster, name: str, replica: str) -> tuple[str, str]:
    """Returns the pod of a job's replica and its main container; refuses one that does not run."""
    job = find(cluster, name)
    running = {
        replica_name: (pod["metadata"]["name"], container)
        for replica_name, pod in _present(_pods(cluster, job)).items()
        if pods.is_running(pod, container := _container(job, pod))
    }
    if replica not in running:
        there_are = ", ".join(sorted(running)) or "none"
        raise InputError(
            f"replica {replica!r} of job {name!r} does not run; those that do: {there_are}"
        )
    return running[replica]


def usage(cluster: Cluster, name: str) -> list[Usage]:
    """Returns what the replicas of a job that runs use now."""
    job = find(cluster, name)
    own_pods = _pods(cluster, job)
    rows = [(pod, _replica_row(job, pod)) for pod in _present(own_pods).values()]
    nodes = [row.node for _, row in rows if row.state == "running"]
    if not nodes:
        now = _row(cluster, job, own_pods)
        # A job whose replicas' nodes are lost still says that it runs.
        state = "" if now.state == State.RUNNING else now.state
        reason = "; ".join(filter(None, [state, now.reason])) or "none of its replicas does"
        raise InputError(f"job {name!r} does not run: {reason}")
    used = containers.measured(cluster, pods_of(job), nodes)
    usages = []
    for pod, row in sorted(rows, key=lambda item: item[1].name):
        container = _container(job, pod)
        described = next(spec for spec in pod["spec"]["containers"] if spec["name"] == container)
        uses = used.get((row.pod, container)) if row.state == "running" else None
        amounts = (uses.cpu, uses.memory) if uses else ()
        usages.append(Usage(row.name, row.state, row.node, described, *amounts))
    return usages


def event_files(cluster: Cluster, name: str, folder: Path) -> bool:
    """Brings the event files of a job's replicas; returns whether there may be more later."""
    return _pull(cluster, find(cluster, name), folder)


def event_files_of_run(cluster: Cluster, run: str, folder: Path) -> None:
    """Brings the event files of all jobs of a pipeline's run that run now, by the run's id."""
    name = names.of_run(run)
    for job in _each_job(cluster, {}, labelSelector=MANAGED):
        of = job["metadata"]["name"]
        if f"{of}-".startswith(f"{name}-"):
            _pull(cluster, job, folder / of.removeprefix(name).strip("-"))


def _pull(cluster: Cluster, job: dict[str, Any], folder: Path) -> bool:
    since = pods.moment(job["metadata"]["creationTimestamp"]).timestamp()
    for pod in _pods(cluster, job):
        container = _container(job, pod)
        if pods.is_running(pod, container):
            pull(cluster, pod["metadata"]["name"], container, folder, since)
    return not status_of(job).state.ended


def progress_of_run(cluster: Cluster, run: str) -> Progress:
    """Returns how far the training of a pipeline's run is, and why it waits, by the run's id."""
    job = find(cluster, names.of_run(run))
    own_pods = _pods(cluster, job)
    now = _progress(cluster, job, own_pods) or Progress(None, "")
    if status_of(job).state.ended:
        return now
    reason = _row(cluster, job, own_pods).reason
    return replace(now, words="; ".join(filter(None, [now.words, reason])), reason=reason)


def _progress(
    cluster: Cluster, job: dict[str, Any], own_pods: list[dict[str, Any]]
) -> Progress | None:
    pod_of = _present(own_pods)
    pod = pod_of.get(progress.leader(pod_of))
    if not (pod and pods.is_running(pod, container := _container(job, pod))):
        return None
    return progress.progress(cluster, pod, container)


def scale(cluster: Cluster, name: str, count: int) -> None:
    """Gives an elastic job another number of workers, which join the others or leave them."""
    job = _find_live(cluster, name)
    framework = framework_of(job)
    change = framework and framework.scaled(job["spec"], count)
    if not change:
        raise InputError(
            f"job {name!r} is a {job['kind']} that is not elastic, so its replicas are fixed; one "
            "described with elastic: {min: ..., max: ...} can be scaled"
        )
    submission.patch(cluster, job, {"spec": change})


def cancel(cluster: Cluster, name: str) -> None:
    """Stops a job's pods but keeps the job: it is suspended, with an annotation that says why."""
    job = _find_live(cluster, name)
    if QUEUE in job["metadata"].get("labels", {}):
        _deactivate(cluster, job)
    suspend = {"suspend": True}
    change = {
        "metadata": {"annotations": {CANCELLED: datetime.now(UTC).isoformat()}},
        "spec": suspend if is_train_job(job) else {"runPolicy": suspend},
    }
    submission.patch(cluster, job, change)


def delete(cluster: Cluster, name: str) -> None:
    """Deletes a job and its pods; returns when they are gone."""
    job = find(cluster, name)
    submission.delete(cluster, job)
    submission.wait_until_gone(cluster, job)


def delete_running(
    cluster: Cluster,
    runs: Mapping[str, float],
    is_left: Callable[[str, State], bool] = lambda run, state: True,
) -> dict[str, str]:
    """Deletes the jobs of runs, and of their trials, as far as these have not ended.

    Args:
        runs: What the jobs are named after, see ``names.of_run``, with the moment, in seconds since
            the epoch, from which on a job is a later one's and stays.
        is_left: Tells of a job, by what it is named after and its state, whether to delete it.

    Returns:
        What each deleted job is named after, by its name.
    """
    deleted = {}
    for job in _each_job(cluster, {}, labelSelector=MANAGED):
        name = job["metadata"]["name"]
        created = pods.moment(job["metadata"]["creationTimestamp"]).timestamp()
        for run, until in runs.items():
            is_its = f"{name}-".startswith(f"{run}-") and created < until
            state = status_of(job).state
            if is_its and not state.ended and is_left(run, state):
                submission.delete(cluster, job)
                deleted[name] = run
    return deleted


def _find_live(cluster: Cluster, name: str) -> dict[str, Any]:
    """Returns a job by its name; refuses one that has ended."""
    job = find(cluster, name)
    state = status_of(job).state
    if state.ended:
        raise InputError(f"job {name!r} has {state} already")
    return job


def _each_job(
    cluster: Cluster, forbidden: dict[str, Refused], **selectors: str
) -> Iterator[dict[str, Any]]:
    """Yields the jobs of every kind that the cluster has; adds the kinds that we may not see."""
    missing: list[Refused] = []
    for kind in KINDS.values():
        try:
            for job in cluster.each(kind, cluster.namespace, **selectors):
                yield {"apiVersion": kind.api_version, "kind": kind.name} | job
        except KindMissing as error:
            missing.append(error)
        except Forbidden as error:
            forbidden[kind.name] = error
    if len(forbidden) + len(missing) == len(KINDS):
        raise [*forbidden.values(), *missing][0]


def _pods(cluster: Cluster, job: dict[str, Any]) -> list[dict[str, Any]]:
    labelled = cluster.each(PODS, job["metadata"]["namespace"], labelSelector=pods_of(job))
    return [pod for pod in labelled if identity.is_of(pod, job)]


def _present(own_pods: list[dict[str, Any]]) -> dict[str, dict[str, Any]]:
    """Returns the present pod of each replica: one on a lost node is there beside its successor."""
    by_age = sorted(own_pods, key=lambda pod: pod["metadata"]["creationTimestamp"])
    return {identity.replica_name(pod): pod for pod in by_age}


def _left(
    own_pods: list[dict[str, Any]], pod_of: dict[str, dict[str, Any]]
) -> dict[str, dict[str, Any]]:
    """Returns lost pods of replicas that are over, by their names: they keep a job from its end."""
    lost = {identity.replica_name(pod): pod for pod in own_pods if pods.lost_node(pod)}
    return {name: pod for name, pod in lost.items() if pods.is_over(pod_of[name])}


def _container(job: dict[str, Any], pod: dict[str, Any]) -> str:
    """Returns the container of a job's pod that trains."""
    return identity.main_container(pod, kind_of(job).container)


def _row(
    cluster: Cluster,
    job: dict[str, Any],
    own_pods: list[dict[str, Any]],
    find: reasons.Finder = reasons.workload_of,
) -> Row:
    metadata, now = job["metadata"], status_of(job)
    pod_of = _present(own_pods)
    rows = [_replica_row(job, pod) for pod in pod_of.values()]
    running, state = sum(row.state == "running" for row in rows), now.state
    has_run = any(row.state not in ("pending", "ending") for row in rows)
    if state is State.CREATED and is_train_job(job) and has_run:
        state = State.RUNNING  # which a TrainJob says of itself only while all its nodes run
    waiting = None if state.ended else reasons.why_waiting(pod_of | _left(own_pods, pod_of))
    age = datetime.now(UTC) - pods.moment(metadata["creationTimestamp"])
    if state is State.SUSPENDED:
        # Its operator says only that it is suspended.
        reason = reasons.why_queued(cluster, job, find)
    elif waiting:
        reason = waiting.words
    else:  # what else is said of others is that they are there or run
        reason = now.message if state.ended or state is State.RESTARTING else ""
    return Row(
        name=metadata["name"],
        kind=job["kind"],
        state=str(state),
        running=running,
        replicas=expected_replicas(job) or len(rows),
        age=age.total_seconds(),
        reason=reason,
    )


def _replica_row(job: dict[str, Any], pod: dict[str, Any]) -> ReplicaRow:
    container = _container(job, pod)
    failure = pods.failure(pod, container)
    is_well = pods.is_running(pod, container)  # what it waited for or ended with is over
    state = str(pod.get("status", {}).get("phase", "Pending")).lower()
    if "deletionTimestamp" in pod["metadata"]:
        state = "ending"
    if pods.lost_node(pod):
        state = "unknown"
    return ReplicaRow(
        name=identity.replica_name(pod),
        pod=pod["metadata"]["name"],
        node=pod["spec"].get("nodeName", ""),
        state=state,
        restarts=pods.restarts(pod, container),
        reason="" if is_well else pods.waiting_reason(pod) or (failure.words if failure else ""),
    )


def _deactivate(cluster: Cluster, job: dict[str, Any]) -> None:
    """Takes a job out of its queue: Kueue would let it run again otherwise."""
    # Before the job is suspended: one that is while it has its place Kueue 0.19 lets run at once.
    # https://kueue.sigs.k8s.io/docs/concepts/workload/#active
    try:
        match = reasons.workload_of(cluster, job)
    except (Forbidden, KindMissing):
        return
    if match:
        resource, workload = match
        metadata = workload["metadata"]
        try:
            cluster.patch(
                resource, metadata["name"], metadata["namespace"], {"spec": {"active": False}}
            )
        except Forbidden:
            say(
                f"warning: this user may not take job {job['metadata']['name']} out of its queue, "
                "so Kueue may let it run again; deleting it ends it"
            )
