"""Readers of the logs of a job's pods: a thread each, or a few threads that take their shares."""

import queue
import threading
from typing import Any

from trireme.kubernetes.pod_log import PodLog
from trireme.kubernetes.streams import Stop

EACH = 64  # pods of a job, each of whose logs is followed by a thread and a connection of its own
READERS = 3  # threads for the logs that are not followed
POLL = 1.0  # seconds between two looks whether it is time to end


class LogReaders:
    """Reads logs: where there are more than ``EACH``, only those of leading replicas as they grow.

    The others are read when their pods have ended, are being deleted or were started again.
    """

    def __init__(self, stop: Stop, count: int, *, follow: bool) -> None:
        """Starts with none.

        Args:
            count: How many are to be expected.
            follow: Whether what is still to come is waited for.
        """
        self.only_leading = follow and count > EACH
        self._stop, self._follow = stop, follow
        self._by_pod: dict[str, PodLog] = {}
        self._shares: dict[PodLog, queue.Queue[PodLog]] = {}
        self._queues: list[queue.Queue[PodLog]] = []

    def get(self, uid: str) -> PodLog | None:
        """Returns the log of a pod."""
        return self._by_pod.get(uid)

    def follows(self, replica: str) -> bool:
        """Tells whether a replica's log is read as it grows."""
        return self._follow and (replica.endswith("-0") or not self.only_leading)

    def add(self, uid: str, log: PodLog) -> None:
        """Has a pod's log read."""
        self._by_pod[uid] = log
        if log.follow:
            log.start()
            return
        if len(self._queues) < READERS:
            self._queues.append(queue.Queue())
            threading.Thread(target=self._read, args=self._queues[-1:], daemon=True).start()
        # Always by the same thread, so that none is read twice at a time.
        self._shares[log] = self._queues[len(self._shares) % len(self._queues)]
        if not self._follow or any(log.reasons):
            self._shares[log].put(log)

    def update(self, log: PodLog, pod: dict[str, Any], gone: bool) -> None:
        """Tells how the pod of a log is now, and has the log read where that is a reason to."""
        before = log.reasons
        log.update(pod, gone)
        if log in self._shares and log.reasons != before:
            self._shares[log].put(log)

    def unread(self) -> list[PodLog]:
        """Returns those that are not read to their ends."""
        return [log for log in self._by_pod.values() if not log.is_done]

    def quiet_since(self) -> float:
        """Returns since when nothing has come of those whose pods have ended."""
        return max((log.quiet_since for log in self._by_pod.values() if log.is_over), default=0.0)

    def join(self) -> None:
        """Waits until all that was to be read has been passed on."""
        for share in self._queues:
            share.join()

    def _read(self, share: "queue.Queue[PodLog]") -> None:
        while True:
            try:
                log = share.get(timeout=POLL)
            except queue.Empty:
                if self._stop.is_set():
                    return
                continue
            log.run()  # which does nothing where it is time to end
            share.task_done()
