"""Who reads the logs of a job's pods: a thread each, or a few threads in turn for very many."""

import threading
import time
from collections import deque

from trireme.kubernetes.pod_log import PodLog
from trireme.kubernetes.streams import Stop

EACH = 64  # pods of a job, each of whose logs is followed by a thread and a connection of its own
READERS = 2  # threads that read those of a larger job, in turn
ROUND = 60.0  # seconds in which they come to each, where that is no more often than every PACE
PACE = 0.1  # seconds


class LogReaders:
    """Reads logs: where there are more than ``EACH``, only those of leading replicas as they grow.

    The others are read when their pods have ended or been started again, and now and then before.
    """

    def __init__(self, stop: Stop, count: int, *, follow: bool) -> None:
        """Starts with none.

        Args:
            count: How many are to be expected.
            follow: Whether what is still to come is waited for.
        """
        self.take_turns = count > EACH
        self._stop, self._follow = stop, follow
        self._by_pod: dict[str, PodLog] = {}
        self._in_turn: set[PodLog] = set()  # that are not read to their ends
        self._waiting: deque[PodLog] = deque()
        self._urgent: deque[PodLog] = deque()
        self._reading: set[PodLog] = set()
        self._tried: set[PodLog] = set()  # to be read to their ends
        self._due, self._moved = 0.0, time.monotonic()
        self._changed = threading.Condition()
        self._threads: list[threading.Thread] = []

    def get(self, uid: str) -> PodLog | None:
        """Returns the log of a pod."""
        return self._by_pod.get(uid)

    def add(self, uid: str, log: PodLog, *, leads: bool) -> None:
        """Has a pod's log read."""
        self._by_pod[uid] = log
        if leads or not self.take_turns:
            log.start()
            return
        with self._changed:
            self._in_turn.add(log)
            self._waiting.append(log)
            if len(self._threads) < READERS:
                self._threads.append(threading.Thread(target=self._read, daemon=True))
                self._threads[-1].start()
        self.has_changed(log)

    def has_changed(self, log: PodLog) -> None:
        """Has the log of a pod that has ended, or has been started again, read soon."""
        with self._changed:
            is_urgent = log.is_over or log.has_restarted or not self._follow
            if is_urgent and log in self._in_turn and log not in self._urgent:
                self._urgent.append(log)
                self._changed.notify()

    def unread(self) -> list[PodLog]:
        """Returns those that are not read to their ends."""
        with self._changed:
            in_turn = set(self._in_turn)
        return [log for log in self._by_pod.values() if log in in_turn or log.is_alive()]

    def quiet_since(self, log: PodLog) -> float:
        """Returns since when nothing has come of a log, nor, if it waits its turn, of others."""
        with self._changed:
            if log not in self._in_turn:
                return log.quiet_since
            return max([self._moved, *(each.quiet_since for each in self._reading)])

    def join(self) -> None:
        """Waits until all that was to be read has been passed on."""
        for log in self._by_pod.values():
            if log.ident is not None:
                log.join()
        with self._changed:
            self._changed.wait_for(lambda: not self._in_turn or self._stop.is_set())

    def _read(self) -> None:
        while not self._stop.is_set():
            if (log := self._next()) is None:
                continue
            began = time.monotonic()
            is_whole = log.catch_up()
            with self._changed:
                self._reading.discard(log)
                is_first = log.is_over and log not in self._tried
                if is_whole or is_first or log.quiet_since > began:  # else nothing came of it
                    self._moved = time.monotonic()
                if log.is_over:
                    self._tried.add(log)
                if is_whole:
                    self._in_turn.discard(log)
                else:
                    self._waiting.append(log)
                self._changed.notify_all()

    def _next(self) -> PodLog | None:
        """Returns the log to read next, or ``None`` after a moment without one."""
        with self._changed:
            now = time.monotonic()
            if self._urgent:
                log = self._urgent.popleft()
            elif self._waiting and now >= self._due:
                log = self._waiting.popleft()
                self._due = now + max(PACE, ROUND / (1 + len(self._waiting)))
            else:
                # Not for long: that it is time to end wakes nobody here.
                self._changed.wait(min(1.0, self._due - now) if self._waiting else 1.0)
                return None
            if log in self._reading:  # which may have begun before what has made it urgent
                self._urgent.append(log)
                self._changed.wait(PACE)
                return None
            if log not in self._in_turn:
                return None
            self._reading.add(log)
            return log
