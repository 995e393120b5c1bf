"""Hangs of a job that says nothing: how long it may be silent is learnt from the job itself."""

import time
from collections.abc import Mapping
from functools import partial
from typing import Any, NamedTuple

from trireme.errors import InputError, JobFailed, TriremeError
from trireme.frameworks.kinds import ON_HANG
from trireme.observers.base import Activity, Job, Observer, StartAnew
from trireme.process.background import Background

ANSWERS = ("report", "restart", "fail")

RESTARTS = 3  # times that a job which hangs is started anew without a new checkpoint in between

FIRST = 900.0  # seconds that a job may be silent and idle which has no rhythm yet
LEAST = 300.0  # seconds that every job may be
FACTOR = 5.0  # how much longer than ever before it may be
CONFIRMED = 300.0  # seconds between the first and the last look at which it was idle
SHOWN = 20  # lines of where a program stands that a failure shows
BUSY = 0.01  # share of a processor above which a replica works


class Rhythm:
    """How long a job has been silent and idle: between lines, checkpoints and work."""

    def __init__(self, now: float) -> None:
        """Starts with none; times are in seconds, of any one clock."""
        self._longest = 0.0
        self.start_anew(now)

    def start_anew(self, now: float) -> None:
        """Takes in that the job starts again, as slowly as it may."""
        self._last, self._signs = now, 0

    def heard(self, at: float) -> None:
        """Takes in when the last line or checkpoint came."""
        if at <= self._last:
            return
        if self._signs:  # what comes before the first one is the start
            self._longest = max(self._longest, at - self._last)
        self._last, self._signs = at, self._signs + 1

    def worked(self, at: float) -> None:
        """Takes in that the job worked, which is no rhythm."""
        self._last = max(self._last, at)

    def silence(self, now: float) -> float | None:
        """Returns for how many seconds it has done nothing, if that is longer than it should."""
        limit = FIRST if self._signs < 3 else max(LEAST, FACTOR * self._longest)
        return now - self._last if now - self._last > limit else None


def sentence(silence: float) -> str:
    """Says that a job hangs."""
    minutes = f"{silence / 60:.0f} minutes"
    return f"no replica has printed or saved a checkpoint for {minutes}, and none works"


def answer(manifest: Mapping[str, Any]) -> str:
    """Returns what to do when a job hangs, one of ``ANSWERS``."""
    choice = ((manifest.get("metadata") or {}).get("annotations") or {}).get(ON_HANG, "report")
    if choice not in ANSWERS:
        raise InputError(f"annotation {ON_HANG} {choice!r}: must be one of {', '.join(ANSWERS)}")
    return str(choice)


class _Seen(NamedTuple):
    """What a silent job does, and where its programs stand."""

    activity: Activity
    stacks: Mapping[str, list[str]]


def _look(job: Job, since: float, *, is_last: bool) -> _Seen:
    activity = job.activity(since)
    return _Seen(activity, job.stacks() if is_last and not activity.works else {})


class Hangs(Observer):
    """Tells that a job hangs, and where; ends it or has it begin again if its manifest says so.

    What the job does is asked only where its lines have stayed away too long.

    Attributes:
        spans: From when to when it hung, in seconds since the epoch; None while it does.
    """

    def __init__(self) -> None:
        self.spans: list[tuple[float, float | None]] = []
        self._restarts, self._is_blind = 0, False
        self._question: Background[_Seen] | None = None
        self._idle_since: float | None = None
        self._is_last = False  # the question
        self._start_anew()

    def tick(self, job: Job) -> None:
        """Looks whether the job hangs."""
        if job.has_ended or self._is_blind:
            return
        if not job.goes_on:
            self._start_anew()
            return
        now = time.monotonic()
        self._rhythm.heard(job.last_line)
        silence = self._rhythm.silence(now)
        if silence is None:
            self._is_over()
            self._told, self._question, self._idle_since = False, None, None
        if silence is None or self._told:
            return
        is_last = self._idle_since is not None and now - self._idle_since >= CONFIRMED
        if not self._question:
            look = partial(_look, job, time.time() - silence, is_last=is_last)
            self._question, self._is_last = Background(look), is_last
        if not self._question.is_done:
            return
        question, self._question = self._question, None
        try:
            observed = question.answer()
        except TriremeError as error:
            self._is_blind = True
            self.record(words=[f"whether the job hangs cannot be told: {error}"])
            return
        if observed.activity.works:
            self._rhythm.worked(now)
            self._idle_since = None
        elif self._is_last:
            self._told = True
            self.spans.append((time.time() - silence, None))
            self._tell(job, sentence(silence), observed)
        elif self._idle_since is None:
            self._idle_since = now  # it may load something just now

    def _start_anew(self) -> None:
        """Takes in that the job does not run, or not as it did."""
        self._is_over()
        self._rhythm = Rhythm(time.monotonic())
        self._told, self._question, self._idle_since = False, None, None

    def _is_over(self) -> None:
        """Takes in that the job hangs no longer."""
        if self.spans and self.spans[-1][1] is None:
            self.spans[-1] = self.spans[-1][0], time.time()

    def _tell(self, job: Job, reason: str, observed: _Seen) -> None:
        for name, lines in observed.stacks.items():
            job.show(name, [f"(it hangs: {reason})", *lines])
        self.record(tags={"hang": reason})
        does = answer(job.manifest)
        if does == "report":
            return
        stacks = ((name, lines) for name, lines in observed.stacks.items() if lines)
        name, lines = next(stacks, ("", []))
        detail = "\n".join(f"[{name}] {line}" for line in lines[-SHOWN:])
        words = f"the job hangs: {reason}"
        if does == "fail":
            raise JobFailed(words, detail)
        if observed.activity.saved > job.began:  # only progress gives it more of them
            self._restarts = 0
        if self._restarts == RESTARTS:
            again = f", after {RESTARTS} restarts without a new checkpoint"
            raise JobFailed(f"{words}{again}", detail)
        self._restarts += 1
        self._start_anew()
        raise StartAnew(words, detail)
