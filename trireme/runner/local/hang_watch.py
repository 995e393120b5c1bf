"""Looking whether a job on this machine hangs."""

import os
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path

from trireme.files import event_files as events
from trireme.observers import hangs
from trireme.runner.local import usage
from trireme.runner.local.manifest import Job
from trireme.runner.local.replica import Replica

LOOK = 15.0  # seconds between two looks
MEMORY_SHARE = 0.002  # of a processor's time that looking at memory may take
DEPTH = 4  # folders, one in the other, that checkpoints may be in, as Lightning's are
MOST = 10_000  # files that are looked at


class HangWatch:
    """A job that is watched; ``saved`` is when it saved last, by the monotonic clock."""

    def __init__(self, job: Job, replicas: Sequence[Replica]) -> None:
        """Starts to watch a job that is about to start."""
        self._replicas = replicas
        self._directory = job.pods[0].variable("CHECKPOINT_DIR")
        self._rhythm = hangs.Rhythm(time.monotonic())
        self.saved = self._next_memory = 0.0
        self.start_anew()

    def start_anew(self) -> None:
        """Takes in that replicas are started again, and what they saved when they were ended."""
        now = time.monotonic()
        self._rhythm.start_anew(now)
        self._looked, self._told = now, False
        self._newest = self._newest_checkpoint()
        self._seconds: dict[str, float] = {}

    def silence(self) -> float | None:
        """Returns for how many seconds the job hangs, once; ``None`` where it does not."""
        now = time.monotonic()
        if now < self._looked + LOOK:
            return None
        self._rhythm.heard(last := max(replica.last_line for replica in self._replicas))
        newest = self._newest_checkpoint()
        if newest != self._newest:
            self._newest = newest
            self._rhythm.heard(now)
            if last:  # what comes before any line is no progress
                self.saved = now
        if self._works(now):
            self._rhythm.worked(now)
        self._looked = now
        silence = self._rhythm.silence(now)
        was_told, self._told = self._told, silence is not None
        return None if was_told else silence

    def _works(self, now: float) -> bool:
        """Tells whether a replica has worked since the last look, or may have."""
        pids = {each.name: each.pid for each in self._replicas if each.pid}
        before, self._seconds = self._seconds, usage.cpu_seconds(pids)
        if now >= self._next_memory:
            self._take_memory(pids, now)
        waits = any(replica.due is not None for replica in self._replicas)
        most = hangs.BUSY * (now - self._looked)
        # Less than before: some processes have ended meanwhile.
        idle = all(
            name in before and 0 <= seconds - before[name] <= most
            for name, seconds in self._seconds.items()
        )
        return waits or not idle or usage.gpus_work()

    def _take_memory(self, pids: Mapping[str, int], now: float) -> None:
        # To count pages that processes share takes the longer the more there are.
        began = time.thread_time()
        memory = usage.memory(pids)
        self._next_memory = now + (time.thread_time() - began) / MEMORY_SHARE
        for each in self._replicas:
            each.has_memory(memory.get(each.name, 0.0))

    def _newest_checkpoint(self) -> float:
        newest = 0.0
        for number, file in enumerate(self._checkpoints()):
            if number == MOST:
                break
            with suppress(OSError):  # it is being replaced
                newest = max(newest, file.stat(follow_symlinks=False).st_mtime)
        return newest

    def _checkpoints(self) -> Iterator[Path]:
        if not self._directory:
            return
        for place, folders, files in os.walk(self._directory):
            depth = len(Path(place).relative_to(self._directory).parts)
            kept = [] if depth + 1 >= DEPTH else folders
            folders[:] = [one for one in kept if one != events.OF_CHECKPOINTS]
            yield from (Path(place, name) for name in files)
