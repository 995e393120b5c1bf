"""Interval between checkpoints that loses least, by Young and Daly, from what was measured.

J. T. Daly, "A higher order estimate of the optimum checkpoint interval for restart dumps", 2006
(https://doi.org/10.1016/j.future.2004.11.016), (20) and (37); its first order is J. W. Young's.
"""

import math
from typing import NamedTuple

from trireme.observers.goodput.ledger import Ledger
from trireme.text.units import lasting


class Saving(NamedTuple):
    """How often to save, in seconds of training between two checkpoints.

    Attributes:
        every: The best interval.
        stop: For how long a checkpoint keeps training from going on.
        between: How long the job runs from one interruption to the next, on average.
        lost: The share of time that goes to stops, repeated steps and restarts then.
        now: The interval until now; None where it is not known.
        lost_now: The share that goes to them with it.
    """

    every: float
    stop: float
    between: float
    lost: float
    now: float | None = None
    lost_now: float | None = None

    def __str__(self) -> str:
        """Returns it as a sentence."""
        words = (
            f"save every {lasting(self.every)}, as a checkpoint takes {lasting(self.stop)} of "
            f"training and it runs {lasting(self.between)} between interruptions: "
            f"{self.lost:.1%} of the time are lost"
        )
        if self.now is None or self.lost_now is None:
            return words
        return f"{words}, every {lasting(self.now)} as now {self.lost_now:.1%}"


def best(stop: float, between: float) -> float:
    """Returns the best seconds between two checkpoints, each of which stops training.

    Args:
        between: The mean time between two interruptions.
    """
    if stop >= 2 * between:
        return between
    part = stop / (2 * between)
    return math.sqrt(2 * stop * between) * (1 + math.sqrt(part) / 3 + part / 9) - stop


def lost(every: float, stop: float, between: float, restart: float) -> float:
    """Returns the share of time that is lost when it is saved so often."""
    if every + stop + restart > 500 * between:  # beyond what a float holds
        return 1.0
    rounds = math.exp(restart / between) * math.expm1((every + stop) / between)
    return 1 - every / (between * rounds)


def how_often(of: Ledger, replicas: int | None = None) -> Saving | None:
    """Returns how often to save; None where a stop or the rate of interruptions is not known.

    Args:
        replicas: How many another job of the kind has, each of which is interrupted as often.
    """
    stop, between = of.stop, of.between_interruptions
    if not stop or not between:
        return None
    if replicas:
        between = of.replica_seconds / of.interruptions / replicas
    every, restart = best(stop, between), of.restart or 0.0
    now = of.saved_every - stop if of.saved_every and of.saved_every > stop else None
    lost_now = None if now is None else lost(now, stop, between, restart)
    return Saving(every, stop, between, lost(every, stop, between, restart), now, lost_now)
