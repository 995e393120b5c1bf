"""One replica of a job: its process, what it prints, and how often it was started.

Its state is changed by one thread, the runner's; others only follow the output and wait.
"""

import codecs
import contextlib
import queue
import signal
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from subprocess import Popen
from typing import NamedTuple

from trireme.errors import JobFailed, exit_in_words
from trireme.observers.base import Observers
from trireme.observers.hangs import BUSY
from trireme.observers.incidents import FailedAttempt
from trireme.observers.timeline import Attempt, Life, spans
from trireme.process.processes import lack_of_memory, limit_reached, oom_kills, reap
from trireme.runner.failed_replica import KEPT, is_peer_loss
from trireme.runner.lines import UNREAD, blocks
from trireme.runner.local.manifest import Pod
from trireme.runner.local.pod import Start
from trireme.runner.local.supervised import kill_leftovers
from trireme.runner.local.usage import cpu_seconds

WIDTH = 2000  # characters of a line that are kept for showing it with a failure
FIRST_DELAY, LAST_DELAY = 1.0, 10.0  # seconds before a restart; the delay doubles in between
REWRITTEN = 0.5  # seconds between two states of a bar that are passed on
STATE = 4000  # bytes of a line that has no end yet in which its last state is looked for
LONG = 600.0  # seconds after which an attempt counts as the first again, as in the kubelet


class Ended(NamedTuple):
    """An attempt of a replica has ended.

    Attributes:
        peak: The most bytes of memory that a process of it had.
        worked: The seconds of CPU that it took.
    """

    replica: "Replica"
    status: int
    at: float
    peak: int
    worked: float


Event = Ended | Exception | None
"""What the runner waits for; the last is a signal."""


@dataclass(frozen=True)
class Failure:
    """An attempt of a replica that failed.

    Attributes:
        memory: What is known of its memory, where that may be why; empty where it is not.
    """

    replica: str
    status: int
    ended: float
    lines: list[str]
    memory: str = ""


class Replica:
    """A replica that runs, waits until ``due`` for a restart, or has ended with ``status``."""

    def __init__(
        self,
        pod: Pod,
        start: Start,
        log: Path,
        observers: Observers,
        events: "queue.SimpleQueue[Event]",
        shown: Callable[[str], str] = str,
    ) -> None:
        """Describes a replica that has not been started.

        Args:
            observers: Get what it prints.
            events: Gets the ends of attempts, and what has kept one from being followed.
            shown: Makes of lines what is kept and shown of them.
        """
        self.pod, self.name = pod, pod.name
        self._launch, self._log, self._observers, self._events = start, log, observers, events
        self._shown = shown
        self._pid_file = log.with_suffix(".pid")  # there while an attempt runs
        self._process: Popen[bytes] | None = None
        self._started = self._worked = 0.0
        self._oom_kills = 0
        self._delay = FIRST_DELAY
        self.tail: deque[str] = deque(maxlen=KEPT)
        self.spoke = self._looked = 0.0
        self.status: int | None = None
        self.ended = 0.0
        self.restarts = self.retries = 0  # these count, for its failures; those all
        self.due: float | None = None
        self.failure: Failure | None = None
        self.seconds = 0.0
        self._asked, self.began = time.time(), 0.0  # by the clock on the wall
        self._attempts: list[Attempt] = []  # that have ended
        self._was_told_to_end = False
        self._cpu_seconds, self._peak = 0.0, 0

    @property
    def is_running(self) -> bool:
        """Whether an attempt runs."""
        return self._process is not None and self.status is None

    @property
    def is_over(self) -> bool:
        """Whether it has ended and is not to be started again."""
        return self.status is not None and self.due is None

    @property
    def succeeded(self) -> bool:
        """Whether it has ended well and is not to be started again."""
        return self.is_over and self.status == 0

    def start(self) -> None:
        """Starts an attempt and follows it."""
        try:
            process = self._launch()
        except OSError as error:
            reason = limit_reached(error) or error.strerror
            raise JobFailed(f"replica {self.name} could not be started: {reason}") from None
        if self.status is not None:
            self.restarts += 1
        self.tail.clear()
        self._oom_kills = oom_kills()
        self._process, self.status, self.due = process, None, None
        with contextlib.suppress(OSError):  # a full disk; it is only for who wants to look
            self._pid_file.write_text(str(process.pid))
        self.spoke = self._started = time.monotonic()
        self._worked = 0.0
        self.began = time.time()
        self._was_told_to_end = False
        follower = threading.Thread(target=self._follow, args=(process,), daemon=True)
        waiter = threading.Thread(target=self._wait, args=(process, follower), daemon=True)
        try:
            follower.start()
            waiter.start()
        except RuntimeError as error:  # nobody would be told of its end
            self.kill()
            self._wait(process, follower)
            reason = limit_reached(error) or str(error)
            raise JobFailed(f"replica {self.name} could not be followed: {reason}") from None

    @property
    def last_line(self) -> float:
        """When the running attempt printed last, by the monotonic clock; 0 where it has not."""
        return self.spoke if self.spoke > self._started else 0.0

    @property
    def pid(self) -> int | None:
        """The process of the running attempt, which is its supervisor's."""
        return self._process.pid if self._process and self.is_running else None

    def show(self, lines: Sequence[str]) -> None:
        """Puts lines about it into its log, and shows them."""
        for line in lines:
            self._observers.lines(self.name, line)
        with contextlib.suppress(OSError), self._log.open("ab") as log:
            log.write("".join(f"{line}\n" for line in lines).encode(errors="replace"))

    def seems_to_hang(self, since: float, silence: float) -> bool:
        """Tells whether an attempt has neither printed nor worked for some time."""
        if not self.pid or time.monotonic() - max(self.spoke, since) <= silence:
            return False
        worked = cpu_seconds({self.name: self.pid}).get(self.name)
        if worked is None:  # it has ended just now
            return False
        # Less than before: some of its processes have ended meanwhile.
        idle = 0 <= worked - self._worked <= BUSY * silence
        self._worked = worked
        if not idle:
            self.spoke = time.monotonic()
        return idle

    def has_ended(self, end: Ended) -> None:
        """Takes note that the running attempt has ended."""
        status, at = end.status, end.at
        self.status, self.ended = status, at
        self._pid_file.unlink(missing_ok=True)
        self.seconds += at - self._started
        self._cpu_seconds, self._peak = self._cpu_seconds + end.worked, max(self._peak, end.peak)
        if status:
            memory = lack_of_memory(self._oom_kills, end.peak)
            self.failure = Failure(self.name, status, at, list(self.tail), memory)
        failed = exit_in_words(status) if status and not self._was_told_to_end else ""
        self._attempts.append(Attempt(self.began, self.began + at - self._started, failed))

    def life(self, *, goes_on: bool) -> Life:
        """Returns what it has spent its time with, and what it used; of a job that may go on."""
        goes_on = goes_on and not self.is_over
        attempts = self._attempts + ([Attempt(self.began)] if self.is_running else [])
        phases = spans(self._asked, attempts, placed=self._asked, goes_on=goes_on)
        used = (self._cpu_seconds, float(self._peak)) if self._attempts else (None, None)
        return Life(phases, 0, *used)

    def has_memory(self, used: float) -> None:
        """Takes in how many bytes all of its processes have together."""
        self._peak = max(self._peak, int(used))

    @property
    def failed_attempt(self) -> FailedAttempt | None:
        """The attempt that has ended, if it failed."""
        if not self.status or self.failure is None:
            return None
        lost_peer = is_peer_loss(self.failure.lines)
        return FailedAttempt(self.name, self._started, self.ended, lambda: lost_peer)

    def schedule_restart(self) -> None:
        """Has another attempt started after a delay that grows with each of them."""
        if self.ended - self._started > LONG:
            self._delay = FIRST_DELAY
        self.retries += 1
        self.due = self.ended + self._delay
        self._delay = min(2 * self._delay, LAST_DELAY)

    def terminate(self) -> None:
        """Asks the running attempt to end, and has it killed if it does not in time."""
        if self._process and self.status is None:
            self._was_told_to_end = True
            self._process.terminate()

    def kill(self) -> None:
        """Kills the running attempt, with all that it has started."""
        if self._process and self.status is None:
            self._process.send_signal(signal.SIGQUIT)

    def _wait(self, process: Popen[bytes], follower: threading.Thread) -> None:
        """Reports that an attempt has ended, when its lines have been passed on."""
        status, worked, peak = 128 + signal.SIGKILL, 0.0, 0
        try:
            status, worked, peak = reap(process)
            if status < 0:  # the supervisor itself was killed
                kill_leftovers(process.pid)
                status = 128 - status
            # Whoever does not read what is shown must not keep the job from ending.
            if follower.is_alive():
                follower.join(UNREAD)
        finally:
            self._events.put(Ended(self, status, time.monotonic(), peak, worked))

    def _follow(self, process: Popen[bytes]) -> None:
        """Logs and shows what an attempt prints."""
        texts = self._texts(process)
        try:
            if not self.restarts:
                self._log.unlink(missing_ok=True)
            with self._log.open("ab", buffering=0) as log:
                for text in texts:
                    self._observers.lines(self.name, text)
                    log.write(text.encode(errors="replace") + b"\n")
        except OSError as error:
            # A log that cannot be kept, on a full disk for instance, is no reason to stop training.
            self._observers.lines(self.name, f"(what follows is not in its log: {error})")
        except Exception as fault:  # of ours; a program that nobody reads would wait for ever
            self._events.put(fault)
            return
        for text in texts:
            self._observers.lines(self.name, text)

    def _texts(self, process: Popen[bytes]) -> Iterator[str]:
        """Yields lines to show of an attempt, many at a time, and keeps the last ones."""
        stream = process.stdout
        assert stream is not None
        decoder = codecs.getincrementaldecoder("utf-8")(errors="replace")
        if self.failure:
            ended = exit_in_words(self.failure.status)
            yield f"(it {ended} and is started again: restart {self.restarts})"
        for block in blocks(stream, self._look_at):
            text = decoder.decode(block).removesuffix("\n")
            if "\r" in text:
                # A progress bar rewrites its line: what a person would see is the end of it.
                lines = (line.rstrip("\r").rpartition("\r")[2] for line in text.split("\n"))
                text = "\n".join(lines)
            self.tail.extend(line[:WIDTH] for line in text.rsplit("\n", KEPT)[-KEPT:])
            yield self._shown(text)
        if rest := decoder.decode(b"", final=True):  # it was ended within a letter
            yield rest

    def _look_at(self, rest: bytes) -> None:
        """Takes note that it has printed, and passes on what a line has become without an end."""
        self.spoke = time.monotonic()
        if b"\r" in rest and self.spoke >= self._looked + REWRITTEN:
            self._looked = self.spoke
            text = rest[-STATE:].decode(errors="replace").rstrip("\r").rpartition("\r")[2]
            self._observers.rewritten(self.name, self._shown(text))
