"""Answers of plans and of checks."""

from dataclasses import dataclass
from typing import Literal

from trireme.answers.answer import Answer, Part


@dataclass(frozen=True, kw_only=True)
class CheckedFact(Part):
    """Something that a check has found."""

    verdict: str
    """ok, missing (runs can do without), unknown or failed (they cannot)."""
    sentence: str
    """What is so, with what mends it where that is needed."""


@dataclass(frozen=True, kw_only=True)
class Place(Part):
    """This machine, or a cluster."""

    title: str
    facts: list[CheckedFact]
    allows: list[str]
    """What a person can do there."""


@dataclass(frozen=True, kw_only=True)
class Diagnosis(Answer):
    """What is on this machine and on the cluster, and what is missing."""

    kind: Literal["diagnosis"] = "diagnosis"
    failed: bool
    """Whether something keeps runs from working."""
    places: list[Place]


@dataclass(frozen=True, kw_only=True)
class PlannedStep(Part):
    """A step of a pipeline."""

    name: str
    image: str


@dataclass(frozen=True, kw_only=True)
class PlannedPods(Part):
    """Pods of a training job that are alike; or, as ``together``, all of them."""

    name: str
    count: int
    image: str
    requests: dict[str, float]
    """What each requests, by resource: CPUs, bytes, devices; of all together the sum."""
    hour: float
    """What an hour of all of them costs; 0 where that is not known."""


@dataclass(frozen=True, kw_only=True)
class PlannedJob(Part):
    """The training job of a run."""

    job_kind: str
    """The kind of its manifest, such as PyTorchJob."""
    pods: list[PlannedPods]
    together: PlannedPods
    trainings: int
    """How many such jobs there are, in a sweep."""
    at_once: int
    """How many of them run at a time."""


@dataclass(frozen=True, kw_only=True)
class PlannedCost(Part):
    """What training costs."""

    currency: str
    hour: float
    time_limit: int | None
    """Seconds that a training may take; null where there is no limit."""
    most: float | None
    """What one training costs at most; null where there is no limit."""
    most_in_all: float | None
    """What all trainings cost at most, likewise."""


@dataclass(frozen=True, kw_only=True)
class NeededObject(Part):
    """What has to be on the cluster."""

    kind: str
    """The kind of the object, such as Secret."""
    name: str
    optional: bool


@dataclass(frozen=True, kw_only=True)
class RunPlan(Answer):
    """What a run, or a job alone, would create, request and cost."""

    kind: Literal["plan"] = "plan"
    pipeline: str
    """Empty of a job alone."""
    place: str
    """Where it would run."""
    steps: list[PlannedStep]
    job: PlannedJob | None
    """Null where it is not known beforehand what is trained."""
    cost: PlannedCost | None
    """Null without a price table."""
    needs: list[NeededObject]
    facts: dict[str, str]
    """What else there is to know, in a person's words."""
    warnings: list[str]
    namespace: str
    """Where it was checked; empty where it was not."""
    findings: list[CheckedFact]
    failed: bool
    """Whether a check has found what keeps it from working."""


@dataclass(frozen=True, kw_only=True)
class NeededImage(Part):
    """An image that a run pulls."""

    name: str
    used_by: list[str]
    """The steps, and the replicas of the training job."""
    pinned: bool
    """Whether it has a digest."""
    there: bool | None
    """Whether its registry has it; null where that was not asked, or not told."""


@dataclass(frozen=True, kw_only=True)
class ImageList(Answer):
    """The images that a run of a pipeline pulls."""

    kind: Literal["image-list"] = "image-list"
    pipeline: str
    images: list[NeededImage]


@dataclass(frozen=True, kw_only=True)
class PreflightProblem(Part):
    """Something that a preflight has found."""

    sentence: str
    fatal: bool
    """Whether the job must not train."""


@dataclass(frozen=True, kw_only=True)
class PreflightResult(Answer):
    """What the replicas of a job have found of each other and of where they are."""

    kind: Literal["preflight"] = "preflight"
    failed: bool
    """Whether the job must not train."""
    figures: dict[str, float]
    """By the names that they have in MLflow."""
    replicas: list[dict[str, str]]
    """For a person: what the table shows of each, by its headings."""
    problems: list[PreflightProblem]
    """The cause first."""
