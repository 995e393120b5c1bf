"""Answers on training jobs without a pipeline."""

from dataclasses import dataclass
from datetime import datetime
from typing import Literal

from trireme.answers.answer import Answer, Part
from trireme.answers.goodput import Goodput
from trireme.progress import Progress


@dataclass(frozen=True, kw_only=True)
class ListedJob(Part):
    """A job in a list."""

    name: str
    job_kind: str
    """The kind of its manifest, such as PyTorchJob."""
    state: str
    created: datetime
    running: int | None
    """Replicas that run; null on this machine, which does not count them."""
    replicas: int
    """All that it has; on this machine those that have started."""
    reason: str
    """Why it is in its state; empty where nobody says."""


@dataclass(frozen=True, kw_only=True)
class JobList(Answer):
    """Jobs, the latest first."""

    kind: Literal["job-list"] = "job-list"
    namespace: str
    """Where they are on a cluster; empty on this machine."""
    jobs: list[ListedJob]


@dataclass(frozen=True, kw_only=True)
class JobProgress(Part):
    """How far a training is."""

    words: str
    share: float | None
    """The part that is done, from 0 to 1; null where nothing, or only an epoch's, is known."""
    seconds_left: float | None
    """How long it will take from now on; null where that is not known."""


@dataclass(frozen=True, kw_only=True)
class ReplicaStatus(Part):
    """A replica of a job; on this machine only its name is known."""

    name: str
    state: str = ""
    restarts: int = 0
    node: str = ""
    pod: str = ""
    reason: str = ""
    """Why it is in its state; empty where nobody says."""


@dataclass(frozen=True, kw_only=True)
class Condition(Part):
    """A condition of a job, as its operator says it."""

    type: str
    status: str
    reason: str
    message: str


@dataclass(frozen=True, kw_only=True)
class Event(Part):
    """An Event of a job or of one of its pods."""

    time: str
    reason: str
    message: str


@dataclass(frozen=True, kw_only=True)
class JobStatus(Answer):
    """A job and its replicas."""

    kind: Literal["job-status"] = "job-status"
    name: str
    job_kind: str
    """The kind of its manifest, such as PyTorchJob."""
    namespace: str
    """Where it is on a cluster; empty on this machine."""
    state: str
    has_ended: bool
    created: datetime
    seconds: float
    """How long it has taken; on a cluster, how old it is."""
    reason: str
    """Why it is in its state; empty where nobody says."""
    progress: JobProgress | None
    """Null where it does not run or tell."""
    running: int | None
    """Replicas that run; null on this machine, which does not count them."""
    expected: int | None
    """Replicas that it has in all, likewise."""
    replicas: list[ReplicaStatus]
    conditions: list[Condition]
    events: list[Event]
    goodput: Goodput | None
    """What its time went to; null where nothing has begun, and on a cluster."""
    directory: str
    """Its files on this machine; empty on a cluster."""


@dataclass(frozen=True, kw_only=True)
class ReplicaUse(Part):
    """What a replica uses now, and what it has asked for."""

    name: str
    state: str
    cpu: float | None
    """CPUs; null where that is not known."""
    memory: float | None
    """Bytes; null where that is not known."""
    requests: dict[str, float]
    """By resource: CPUs, bytes, devices."""
    limits: dict[str, float]
    gpus: int
    """How many it has asked for."""
    gpu: str
    """Which GPUs it uses how much; empty where that is not known."""
    place: str
    """Its node; on this machine the id of its process."""


@dataclass(frozen=True, kw_only=True)
class JobUse(Answer):
    """What the replicas of a running job use."""

    kind: Literal["job-use"] = "job-use"
    name: str
    replicas: list[ReplicaUse]


@dataclass(frozen=True, kw_only=True)
class ReplicaLine(Part):
    """A line that a replica has printed: an object a line, with neither kind nor version."""

    replica: str
    line: str


def job_progress(now: Progress | None) -> JobProgress | None:
    """Returns progress as answers have it."""
    if now is None:
        return None
    return JobProgress(words=now.words, share=now.share, seconds_left=now.left)
