"""Stops for checkpoints: for how long the writing of one kept training from going on.

Files tell when a checkpoint was written, and what the program prints how fast it went before and
after. A stop is time within the writing in which it did fewer steps than it usually does in that;
so a checkpoint that is written beside training stops nothing.
"""

from collections.abc import Sequence
from itertools import pairwise
from statistics import median
from typing import NamedTuple

from trireme.observers.goodput.ledger import Checkpoint, Mark

FEWEST = 5  # stretches without a checkpoint from which the usual pace follows
CERTAIN = 3.0  # times as long as these usually differ from it, so that a stop is one
SHORT = 0.5  # seconds: what is certainly shorter counts, too, however it compares


class Writing(NamedTuple):
    """A time in which files of a checkpoint were written: after ``began``, until ``ended``."""

    began: float
    ended: float


def stop(writing: Writing, marks: Sequence[Mark], others: Sequence[Writing] = ()) -> Checkpoint:
    """Returns a checkpoint, with its stop where that can be told.

    Args:
        marks: How far the attempt was, before and after it.
        others: Further checkpoints of the same time, which tell nothing of the usual pace.
    """
    unit = marks[-1].unit if marks else ""
    stretches = list(pairwise(mark for mark in marks if mark.unit == unit))
    stopped = [each for each in stretches if _overlap(each, writing) > 0]
    usual = [
        each
        for each in stretches
        if each[1].done > each[0].done
        and not any(_overlap(each, other) > 0 for other in (writing, *others))
    ]
    unknown = Checkpoint(writing.ended)
    if not stopped or stretches[-1][1].at < writing.ended or len(usual) < FEWEST:
        return unknown
    pace = median((late.at - early.at) / (late.done - early.done) for early, late in usual)

    def lost(stretch: tuple[Mark, Mark]) -> float:
        early, late = stretch
        return late.at - early.at - pace * (late.done - early.done)

    error = CERTAIN * 1.4826 * median(abs(lost(each)) for each in usual)
    longest = max(stopped, key=lost)
    seconds = min(
        max(0.0, sum(map(lost, stopped))), _overlap((stopped[0][0], stopped[-1][1]), writing)
    )
    if seconds <= error and error > SHORT:
        return unknown
    return Checkpoint(writing.ended, max(longest[0].at, writing.began), seconds)


def _overlap(stretch: tuple[Mark, Mark], writing: Writing) -> float:
    return min(stretch[1].at, writing.ended) - max(stretch[0].at, writing.began)
