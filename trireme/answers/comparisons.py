"""Answers that compare: runs by their records, and strategies by what they need."""

from dataclasses import dataclass
from typing import Literal

from trireme.answers.answer import Answer, Part


@dataclass(frozen=True, kw_only=True)
class ComparedRun(Part):
    """One of the runs that are compared."""

    name: str
    state: str


@dataclass(frozen=True, kw_only=True)
class DifferingValue(Part):
    """Something that is not the same in all runs."""

    name: str
    values: list[str]
    """In the order of the runs."""


@dataclass(frozen=True, kw_only=True)
class MeasuredValue(Part):
    """A metric of all runs."""

    name: str
    values: list[float | None]
    """In the order of the runs; null of one that does not have it."""
    best: list[int]
    """Places of the best runs in that order, from 0 on; none where that is not known."""


@dataclass(frozen=True, kw_only=True)
class RunComparison(Answer):
    """What differs between runs, and what has come of it; curves are on the page alone."""

    kind: Literal["comparison"] = "comparison"
    runs: list[ComparedRun]
    differing: list[DifferingValue]
    metrics: list[MeasuredValue]
    same: int
    """How many parameters are the same in all of them."""
    notes: list[str]
    """What is not compared, and why."""


@dataclass(frozen=True, kw_only=True)
class StrategyChoice(Part):
    """A strategy with the mesh and the micro-batch that suit it best; sizes in bytes a device."""

    name: str
    pp: int
    dp: int
    tp: int
    micro_batch: int
    checkpointing: bool
    weights: float
    gradients: float
    optimizer: float
    activations: float
    """Without activation checkpointing."""
    activations_checkpointed: float
    peak: float
    fits: bool
    waiting: float
    """The share of a step in which devices wait for each other."""
    bubble: float
    """The share of a step in which stages of a pipeline have nothing to do."""
    seconds: float
    """How long a step takes."""


@dataclass(frozen=True, kw_only=True)
class StrategyList(Answer):
    """Strategies that train a model, the best first."""

    kind: Literal["strategy-list"] = "strategy-list"
    parameters: float
    layers: int
    width: int
    heads: int
    vocabulary: int
    devices: int
    memory: float
    """Bytes of a device."""
    flops: float
    """Operations per second of a device, as far as they are of use."""
    choices: list[StrategyChoice]
    reason: str
    """Why the first one is the best."""
    jobs: dict[str, dict[str, str]]
    """The fields of a training job with the best one, by framework."""


@dataclass(frozen=True, kw_only=True)
class MeasuredReplica(Part):
    """What a replica did and used while it was measured."""

    name: str
    shares: dict[str, float | None]
    """Shares of its time by what they went to; null where nobody looked."""
    cpu: float | None
    """CPUs; null where that is not known."""
    memory: float | None
    """The most bytes that it had; null where that is not known."""
    requests: dict[str, float]
    """By resource: CPUs, bytes, devices."""


@dataclass(frozen=True, kw_only=True)
class JobAdvice(Answer):
    """What to change in a job, from a minute of it on this machine."""

    kind: Literal["advice"] = "advice"
    measured: list[str]
    """How it was measured, and what its GPUs did."""
    replicas: list[MeasuredReplica]
    verdict: str
    """What the training is bound by."""
    suggestions: list[str]
