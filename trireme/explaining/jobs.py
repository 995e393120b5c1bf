"""Explanations of training jobs without a pipeline, here and on a cluster."""

import shlex
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

from trireme.answers.explanations import Evidence, Explanation, Remedy, Wait
from trireme.answers.jobs import JobStatus, ReplicaStatus
from trireme.errors import TriremeError, first_line
from trireme.explaining import causes, training
from trireme.kubernetes.connection import Cluster
from trireme.kubernetes.pods import joined
from trireme.observers import timeline
from trireme.observers.preflight import report as preflight
from trireme.report import of_workspace
from trireme.report.picture import StepPicture
from trireme.runner import failed_replica

FAILED = ("failed", "lost")

AGAIN = (
    "submit it again under another name; it goes on from its checkpoint if checkpoint_dir is the "
    "same, on a volume or outside of the job's own folder"
)

Lines = Callable[[str], Sequence[str]]
"""Returns the last lines of a replica."""


def here(home: Path, name: str) -> Explanation:
    """Returns what is known of a job of this machine."""
    from trireme.runner.local import answers, jobs

    status, directory = answers.job_status(home, name), Path(home / name)
    picture = StepPicture(name)
    of_workspace.describe_training(picture, directory / "logs", directory / of_workspace.JOB)
    failed = [replica for replica, life in picture.replicas.items() if life.failures]

    def lines(replica: str) -> Sequence[str]:
        return _tail(jobs, home, name, replica)

    explained = _explained(status, f"job logs {shlex.quote(name)} --local", failed, lines)
    return replace(
        explained,
        where="local",
        evidence=[*explained.evidence, *training.evidence(picture)],
        tried=training.tried(picture.replicas),
    )


def there(cluster: Cluster, name: str) -> Explanation:
    """Returns what is known of a job on a cluster."""
    from trireme.runner.cluster import answers, jobs

    status = answers.job_status(cluster, name)
    failed = [
        replica.name for replica in status.replicas if replica.state == "failed" or replica.restarts
    ]

    def lines(replica: str) -> Sequence[str]:
        return _tail(jobs, cluster, name, replica)

    command = f"job logs {shlex.quote(name)} --namespace {cluster.namespace}"
    explained = _explained(status, command, failed, lines)
    return replace(explained, evidence=[*explained.evidence, *of_cluster(status)])


def bundle_here(explanation: Explanation, home: Path, file: Path) -> None:
    """Writes the bundle of a job of this machine."""
    from trireme.explaining import bundle
    from trireme.runner.local import jobs

    folder = home / explanation.name
    logs = partial(jobs.logs, home, explanation.name, False, "")
    files = {f"logs/{name}": folder / "logs" / name for name in (timeline.NAME, preflight.NAME)}
    manifests = {of_workspace.JOB: of_workspace.manifest(folder / of_workspace.JOB)}
    bundle.write(explanation, file, logs, files, manifests, {})


def bundle_there(explanation: Explanation, cluster: Cluster, file: Path) -> None:
    """Writes the bundle of a job on a cluster."""
    from trireme.explaining import bundle
    from trireme.runner.cluster import jobs

    def logs(on_line: bundle.OnLine) -> None:
        jobs.logs(cluster, explanation.name, follow=False, replica="", on_line=on_line)

    manifests = {of_workspace.JOB: jobs.find(cluster, explanation.name)}
    bundle.write(explanation, file, logs, {}, manifests, {})


def of_cluster(status: JobStatus) -> list[Evidence]:
    """Returns what a cluster says of a job: its conditions, where its replicas are, its Events."""
    conditions = [
        Evidence(
            what="condition",
            about=condition.type,
            sentence=joined(condition.reason, condition.message),
        )
        for condition in status.conditions
        if condition.status == "True"
    ]
    nodes = [
        Evidence(what="node", about=replica.name, sentence=_place(replica))
        for replica in status.replicas
        if replica.node
    ]
    events = [
        Evidence(what="event", about=event.reason, sentence=f"{event.message} ({event.time})")
        for event in status.events
    ]
    return [*conditions, *nodes, *events]


def waits(status: JobStatus) -> list[Wait]:
    """Returns what a job that has not ended waits for."""
    if status.has_ended:
        return []
    reasons = [Wait(what="", reason=status.reason)] if status.reason else []
    waiting = [
        replica
        for replica in status.replicas
        if replica.reason and replica.reason not in status.reason
    ]
    return reasons + [Wait(what=replica.name, reason=replica.reason) for replica in waiting]


def _explained(status: JobStatus, logs: str, failed: Sequence[str], lines: Lines) -> Explanation:
    printed: list[str] = []
    cause, remedies, notes = None, [], []
    if status.state in FAILED:
        try:
            culprit, printed = _culprit(status, failed, lines)
        except TriremeError as error:
            culprit = ""
            notes.append(f"the replicas' logs: {first_line(error)}")
        reason = next(
            (replica.reason for replica in status.replicas if replica.name == culprit), ""
        )
        sentence = f"replica {culprit} {reason}" if reason else status.reason
        cause, rule = causes.cause(sentence, printed, replica=culprit)
        remedies.append(Remedy(what=rule.remedy, command=""))
        if rule.goes_on:
            remedies.append(Remedy(what=AGAIN, command=""))
    replica = f" --replica {cause.replica}" if cause and cause.replica else ""
    remedies.append(Remedy(what="Its logs", command=f"trireme {logs}{replica}"))
    return Explanation(
        of="job",
        name=status.name,
        where=status.namespace,
        state=status.state,
        has_ended=status.has_ended,
        created=status.created,
        seconds=status.seconds,
        summary=_summary(status, cause.sentence if cause else status.reason),
        progress=status.progress,
        waits=waits(status),
        cause=cause,
        evidence=[],
        last_lines=list(printed),
        tried=[],
        advice=[],
        next=remedies,
        notes=notes,
    )


def _summary(status: JobStatus, reason: str) -> str:
    summary = f"{status.job_kind} {status.name} is {status.state}, after {status.seconds:.0f} s"
    return f"{summary}: {reason}" if reason else summary


def _culprit(status: JobStatus, failed: Sequence[str], lines: Lines) -> tuple[str, list[str]]:
    """Returns the replica that is to blame, rather one that no other has dragged down."""
    names = [*failed, *(replica.name for replica in status.replicas if replica.name not in failed)]
    suspects = [name for name in names if f"replica {name} " in f"{status.reason} "]
    last: dict[str, Sequence[str]] = {}
    for name in suspects or failed or names[:1]:
        last[name] = lines(name)
        if not failed_replica.is_peer_loss(last[name]):
            break
    else:
        name = next(iter(last), "")
    return name, failed_replica.last_lines(name, last.get(name, ())).splitlines()


def _place(replica: ReplicaStatus) -> str:
    restarts = f", restarted {replica.restarts} times" if replica.restarts else ""
    return f"{replica.state} on {replica.node}, pod {replica.pod}{restarts}"


def _tail(jobs: Any, source: Any, name: str, replica: str) -> Sequence[str]:
    tail: deque[str] = deque(maxlen=failed_replica.KEPT)

    def keep(of: str, several: str) -> None:
        tail.extend(several.split("\n"))

    jobs.logs(source, name, follow=False, replica=replica, on_line=keep)
    return tail
