"""The use of a followed job's replicas: asked for now and then, and added up."""

import time
from datetime import datetime
from functools import partial

from trireme.errors import TriremeError
from trireme.kubernetes.connection import Cluster
from trireme.process.background import Background
from trireme.runner.cluster import usage
from trireme.runner.cluster.usage import Found, Used

EVERY = 15.0  # seconds between two questions: metrics-server, as it is installed, measures as often
STANDS_FOR = 120.0  # seconds that one measurement may stand for
ENOUGH = 0.5  # of the time that a replica ran: measured for less, its use of CPUs is not known


class UsageSum:
    """What one replica has used, added up.

    Attributes:
        peak: The most bytes that it had when it was measured; None where it was not.
    """

    def __init__(self) -> None:
        self.peak: float | None = None
        self._worked = self._seconds = 0.0
        self._last: datetime | None = None

    def add(self, used: Used, began: datetime) -> None:
        """Takes in what was measured, of a container that began then."""
        since = max(self._last or began, began)
        if used.at is None or used.at <= since:
            return  # known already, or of the container before it
        seconds = min((used.at - since).total_seconds(), STANDS_FOR)
        self._last = used.at
        if used.memory is not None:
            self.peak = max(self.peak or 0.0, used.memory)
        if used.cpu is not None:
            self._worked += used.cpu * seconds
            self._seconds += seconds

    def cpu_seconds(self, ran: float) -> float | None:
        """Returns what it worked while it ran so long, where enough of that was measured."""
        if not ran or not self._seconds or self._seconds < ENOUGH * ran:
            return None
        return self._worked / self._seconds * ran


class UsageWatch:
    """A job whose replicas' use is asked for; an API server that does not answer costs nothing."""

    def __init__(self, cluster: Cluster, namespace: str, label: str) -> None:
        """Prepares it; the label selects the job's pods."""
        self._ask = partial(usage.from_metrics_server, cluster, namespace, label)
        self._question: Background[Found] | None = None
        self._next, self._failures = time.monotonic() + EVERY, 0

    def look(self) -> Found:
        """Returns what has been answered since the last look, if anything; asks where it is time.

        A question without an answer doubles the time until the next: where there is no metrics
        server, or no right to ask it, only a few are asked in hours.
        """
        answered: Found = {}
        if self._question and self._question.is_done:
            question, self._question = self._question, None
            try:
                answered, self._failures = question.answer(), 0
            except TriremeError:
                self._failures += 1
            self._next = time.monotonic() + EVERY * 2**self._failures
        if not self._question and time.monotonic() >= self._next:
            self._question = Background(self._ask)
        return answered
