"""Answers on what the time of trainings went to."""

from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING, Literal

from trireme.answers.answer import Answer, Part

if TYPE_CHECKING:
    from trireme.observers.goodput.ledger import Ledger


@dataclass(frozen=True, kw_only=True)
class Spent(Part):
    """What went to one cause."""

    cause: str
    """training, queue, image, start, preflight, first_step, checkpoint, repeated, hang, restart,
    idle or unknown."""
    minutes: float
    gpu_hours: float
    """Of all GPUs that were held meanwhile."""
    cost: float
    """0 where there is no price table."""


@dataclass(frozen=True, kw_only=True)
class Goodput(Part):
    """What all of the time of a training, or of several, went to, through all their resumes."""

    share: float | None
    """The part of the time after the queue in which it trained; null where there was none."""
    minutes: float
    gpu_hours: float
    cost: float
    currency: str
    """Empty without a price table, or where there are several."""
    causes: list[Spent]
    """Together all of its time, the longest first."""
    tells_progress: bool
    """Where not, its program told none, and running counts as training."""
    interruptions: int
    """How often it stopped before its end and went on."""
    minutes_between_interruptions: float | None
    """Null where there was none."""
    restart_seconds: float | None
    """From an interruption to the next step; null where that is not known."""
    checkpoints: int | None
    """How many were seen; null where nobody could see any."""
    checkpoint_seconds: float | None
    """For how long one kept training from going on; null where that is not known."""
    saved_every_seconds: float | None
    """From one checkpoint to the next; null where there were not two."""
    save_every_seconds: float | None
    """How often to save, by Young and Daly; null where a figure for it is not known."""
    words: str
    """The same for a person, in a line."""


@dataclass(frozen=True, kw_only=True)
class RunGoodput(Part):
    """A run of those that are summed."""

    name: str
    pipeline: str
    state: str
    created: datetime
    goodput: Goodput


@dataclass(frozen=True, kw_only=True)
class GoodputSum(Answer):
    """What the time of all trainings went to that were begun since some time, by MLflow."""

    kind: Literal["goodput"] = "goodput"
    since: datetime
    runs: list[RunGoodput]
    """The latest first."""
    together: Goodput | None
    """Null where there are no runs."""
    saving: str
    """How often to save, in words; empty where a figure for it is not known."""


def goodput(of: "Ledger") -> Goodput:
    """Returns a ledger as answers have it."""
    from trireme.observers.goodput import interval
    from trireme.observers.goodput.ledger import sentence

    saving, between = interval.how_often(of), of.between_interruptions
    return Goodput(
        share=of.share,
        minutes=of.whole / 60,
        gpu_hours=sum(of.gpu_seconds.values()) / 3600,
        cost=sum(of.cost.values()),
        currency=of.currency,
        causes=[
            Spent(
                cause=cause,
                minutes=seconds / 60,
                gpu_hours=of.gpu_seconds.get(cause, 0.0) / 3600,
                cost=of.cost.get(cause, 0.0),
            )
            for cause, seconds in sorted(of.seconds.items(), key=lambda each: -each[1])
        ],
        tells_progress=not of.silent,
        interruptions=of.interruptions,
        minutes_between_interruptions=between and between / 60,
        restart_seconds=of.restart,
        checkpoints=of.checkpoints,
        checkpoint_seconds=of.stop,
        saved_every_seconds=of.saved_every,
        save_every_seconds=saving and saving.every,
        words=sentence(of),
    )
