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

    told, directory = answers.job_status(home, name), Path(home / name)
    found = StepPicture(name)
    of_workspace.describe_training(found, directory / "logs", directory / of_workspace.JOB)
    failed = [each for each, life in found.replicas.items() if life.failures]

    def lines(replica: str) -> Sequence[str]:
        return _tail(jobs, home, name, replica)

    explained = _explained(told, f"job logs {shlex.quote(name)} --local", failed, lines)
    return replace(
        explained,
        where="local",
        evidence=[*explained.evidence, *training.evidence(found)],
        tried=training.tried(found.replicas),
    )


def there(cluster: Cluster, name: str) -> Explanation:
    """Returns what is known of a job on a cluster."""
    from trireme.runner.cluster import answers, jobs

    told = answers.job_status(cluster, name)
    failed = [each.name for each in told.replicas if each.state == "failed" or each.restarts]

    def lines(replica: str) -> Sequence[str]:
        return _tail(jobs, cluster, name, replica)

    command = f"job logs {shlex.quote(name)} --namespace {cluster.namespace}"
    explained = _explained(told, command, failed, lines)
    return replace(explained, evidence=[*explained.evidence, *of_cluster(told)])


def bundle_here(told: Explanation, home: Path, file: Path) -> None:
    """Writes the bundle of a job of this machine."""
    from trireme.explaining import bundle
    from trireme.runner.local import jobs

    folder = home / told.name
    logs = partial(jobs.logs, home, told.name, False, "")
    files = {f"logs/{name}": folder / "logs" / name for name in (timeline.NAME, preflight.NAME)}
    manifests = {of_workspace.JOB: of_workspace.manifest(folder / of_workspace.JOB)}
    bundle.write(told, file, logs, files, manifests, {})


def bundle_there(told: Explanation, cluster: Cluster, file: Path) -> None:
    """Writes the bundle of a job on a cluster."""
    from trireme.explaining import bundle
    from trireme.runner.cluster import jobs

    def logs(on_line: bundle.OnLine) -> None:
        jobs.logs(cluster, told.name, follow=False, replica="", on_line=on_line)

    manifests = {of_workspace.JOB: jobs.find(cluster, told.name)}
    bundle.write(told, file, logs, {}, manifests, {})


def of_cluster(told: JobStatus) -> list[Evidence]:
    """Returns what a cluster says of a job: its conditions, where its replicas are, its Events."""
    conditions = [
        Evidence(what="condition", about=each.type, sentence=joined(each.reason, each.message))
        for each in told.conditions
        if each.status == "True"
    ]
    nodes = [
        Evidence(what="node", about=each.name, sentence=_place(each))
        for each in told.replicas
        if each.node
    ]
    events = [
        Evidence(what="event", about=each.reason, sentence=f"{each.message} ({each.time})")
        for each in told.events
    ]
    return [*conditions, *nodes, *events]


def waits(told: JobStatus) -> list[Wait]:
    """Returns what a job that has not ended waits for."""
    if told.has_ended:
        return []
    found = [Wait(what="", reason=told.reason)] if told.reason else []
    own = [each for each in told.replicas if each.reason and each.reason not in told.reason]
    return found + [Wait(what=each.name, reason=each.reason) for each in own]


def _explained(told: JobStatus, logs: str, failed: Sequence[str], lines: Lines) -> Explanation:
    printed: list[str] = []
    cause, remedies, notes = None, [], []
    if told.state in FAILED:
        try:
            culprit, printed = _culprit(told, failed, lines)
        except TriremeError as error:
            culprit = ""
            notes.append(f"the replicas' logs: {first_line(error)}")
        own = next((each.reason for each in told.replicas if each.name == culprit), "")
        sentence = f"replica {culprit} {own}" if own else told.reason
        cause, rule = causes.cause(sentence, printed, replica=culprit)
        remedies.append(Remedy(what=rule.remedy, command=""))
        if rule.goes_on:
            remedies.append(Remedy(what=AGAIN, command=""))
    replica = f" --replica {cause.replica}" if cause and cause.replica else ""
    remedies.append(Remedy(what="Its logs", command=f"trireme {logs}{replica}"))
    return Explanation(
        of="job",
        name=told.name,
        where=told.namespace,
        state=told.state,
        has_ended=told.has_ended,
        created=told.created,
        seconds=told.seconds,
        summary=_summary(told, cause.sentence if cause else told.reason),
        progress=told.progress,
        waits=waits(told),
        cause=cause,
        evidence=[],
        last_lines=list(printed),
        tried=[],
        advice=[],
        next=remedies,
        notes=notes,
    )


def _summary(told: JobStatus, why: str) -> str:
    begun = f"{told.job_kind} {told.name} is {told.state}, after {told.seconds:.0f} s"
    return f"{begun}: {why}" if why else begun


def _culprit(told: JobStatus, failed: Sequence[str], lines: Lines) -> tuple[str, list[str]]:
    """Returns the replica that is to blame, rather one that no other has dragged down."""
    names = [*failed, *(each.name for each in told.replicas if each.name not in failed)]
    named = [name for name in names if f"replica {name} " in f"{told.reason} "]
    last: dict[str, Sequence[str]] = {}
    for name in named or failed or names[:1]:
        last[name] = lines(name)
        if not failed_replica.is_peer_loss(last[name]):
            break
    else:
        name = next(iter(last), "")
    return name, failed_replica.last_lines(name, last.get(name, ())).splitlines()


def _place(replica: ReplicaStatus) -> str:
    restarts = f", restarted {replica.restarts} times" if replica.restarts else ""
    return f"{replica.state} on {replica.node}, pod {replica.pod}{restarts}"


def _tail(jobs: Any, place: Any, name: str, replica: str) -> Sequence[str]:
    kept: deque[str] = deque(maxlen=failed_replica.KEPT)

    def keep(of: str, several: str) -> None:
        kept.extend(several.split("\n"))

    jobs.logs(place, name, follow=False, replica=replica, on_line=keep)
    return kept
