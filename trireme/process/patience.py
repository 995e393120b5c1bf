"""Waiting for something, and trying again."""

import time
from collections.abc import Callable
from typing import TypeVar

FIRST_PAUSE, LONGEST_PAUSE = 0.25, 10.0  # seconds between two attempts; each doubles the last

Found = TypeVar("Found")


class Pauses:
    """Seconds to wait between two attempts, more and more of them."""

    def __init__(self) -> None:
        self.start_anew()

    def start_anew(self) -> None:
        """Makes the next pause the first: something has come of the last attempt."""
        self._next = FIRST_PAUSE

    def take(self, least: float = 0.0) -> float:
        """Returns the next pause, at least as long as whoever refused has asked for."""
        pause, self._next = max(self._next, least), min(2 * self._next, LONGEST_PAUSE)
        return pause


def wait_for(look: Callable[[], Found], seconds: float, every: float) -> Found:
    """Looks until there is something to be found, or the time is over; returns the last look."""
    limit = time.monotonic() + seconds
    while not (value := look()) and time.monotonic() < limit:
        time.sleep(every)
    return value
