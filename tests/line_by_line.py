"""Observers for tests: who listens to the lines of a job's replicas."""

from collections.abc import Callable

from trireme.observers.base import Findings, Observer, Observers
from trireme.observers.printing import Printing


def line_by_line(
    listen: Callable[[str, str], object],
    *more: Observer,
    recorder: Callable[[Findings], None] = lambda found: None,
) -> Observers:
    """Returns observers of which the first calls back with a replica and one line at a time."""

    def each(replica: str, lines: str) -> None:
        for line in lines.split("\n"):
            listen(replica, line)

    return Observers([Printing(each), *more], recorder)
