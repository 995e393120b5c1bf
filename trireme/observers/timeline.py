"""The time line of each replica: queued, starting, running, waiting to be started again.

The runner or follower of a job writes that to a file beside the replicas' logs, as often as it
changes, and MLflow keeps it:

    {"replicas": {"worker-0": {"spans": [{"state": "running", "from": 1.5, "to": 9.0}]}}}

Times are seconds since the epoch; what still lasts has no ``to``. A span of ``running`` that
failed says how in ``failed``.
"""

import json
import math
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

from trireme.files.whole_file import write_whole
from trireme.observers.base import Job, Observer

NAME = "replicas.json"
"""The file, beside the replicas' logs; also the artifact of the training's run."""

QUEUED, STARTING, RUNNING, RESTARTING = STATES = ("queued", "starting", "running", "restarting")

SPANS = 40  # of a replica that are kept: the first, and those before the end
WORDS = 200  # characters of how a span failed
EVERY = 1.0  # seconds between two changes that are written
SIZE_LIMIT = 16 << 20  # bytes of a file that is read

UNREADABLE = (ValueError, LookupError, TypeError, AttributeError, ArithmeticError, RecursionError)
"""What is raised by reading JSON that a program has written, which may be anything."""


class Span(NamedTuple):
    """A time that a replica spent in one state; ``ended`` is ``None`` while it lasts."""

    state: str
    began: float
    ended: float | None = None
    failed: str = ""


class Attempt(NamedTuple):
    """One start of a replica's program; ``failed`` says how it failed, if it did."""

    began: float
    ended: float | None = None
    failed: str = ""


@dataclass(frozen=True)
class Life:
    """What is known of one replica.

    Attributes:
        spans: What it spent its time with, in order.
        left_out: How many spans are not among them.
        cpu_seconds: What its attempts that have ended worked; None where that is not measured.
            On a cluster the mean of what its metrics server says, for their whole time.
        peak_memory: The most bytes that one of its processes had, or all of them together when
            they were looked at, which is every 15 seconds; likewise. On a cluster only the latter.
        pulls: From when to when its image was brought and its container made; it is not kept.
    """

    spans: list[Span]
    left_out: int = 0
    cpu_seconds: float | None = None
    peak_memory: float | None = None
    pulls: tuple[tuple[float, float], ...] = ()

    @property
    def restarts(self) -> int:
        """How often it was started again, as far as its spans tell."""
        return max(sum(span.state == RUNNING for span in self.spans) - 1, 0)

    @property
    def failures(self) -> list[Span]:
        """Its attempts that failed."""
        return [span for span in self.spans if span.failed]

    @property
    def ran(self) -> float:
        """Seconds that its attempts ran, those that have ended."""
        running = [span for span in self.spans if span.state == RUNNING]
        return sum((span.ended or span.began) - span.began for span in running)

    @property
    def cpu(self) -> float | None:
        """CPUs that it used, the mean of that time; None where that is not known."""
        return None if self.cpu_seconds is None or not self.ran else self.cpu_seconds / self.ran


def spans(
    created: float,
    attempts: Sequence[Attempt],
    *,
    placed: float | None = None,
    goes_on: bool = True,
) -> list[Span]:
    """Returns what a replica spent its time with.

    Args:
        created: When its job was made.
        placed: When it got its place, where it can wait for one; None while it waits.
        goes_on: Whether another attempt is to come when none runs.
    """
    first = attempts[0].began if attempts else None
    placed = first if placed is None else placed
    result = [Span(QUEUED, created, placed)]
    if placed is not None:
        result.append(Span(STARTING, max(placed, created), first))
    for number, attempt in enumerate(attempts):
        result.append(Span(RUNNING, *attempt))
        following = attempts[number + 1].began if number + 1 < len(attempts) else None
        if attempt.ended is not None and (following is not None or goes_on):
            result.append(Span(RESTARTING, attempt.ended, following))
    if not goes_on and first is None:
        result = []  # when it stopped waiting nobody has seen
    return [span for span in result if span.ended is None or span.ended > span.began]


def by_number(name: str) -> tuple[str, int]:
    """Returns what names of replicas are ordered by: their role, then their number."""
    role, _, number = name.rpartition("-")
    return (role, int(number)) if number.isascii() and number.isdigit() else (name, 0)


class Timeline(Observer):
    """Keeps the file of a step's replicas."""

    def __init__(self, file: Path) -> None:
        """Goes on with the file of jobs before this one, which the step has made, too."""
        self._file = file
        self._written: Mapping[str, Life] = {}
        self._next = 0.0
        self._before = read(file)

    def prepare(self, manifest: dict[str, Any]) -> None:
        """Takes in that what comes now is of another job."""
        self._before = read(self._file)

    def tick(self, job: Job) -> None:
        """Writes what is known of a job now, if that has changed, and not too often."""
        if not job.has_ended and time.monotonic() < self._next:
            return
        self._next, lives = time.monotonic() + EVERY, job.lives()
        if lives == self._written:
            return
        self._written = lives
        names = [*lives, *(name for name in self._before if name not in lives)]
        both = {name: _after(self._before.get(name), lives.get(name)) for name in names}
        content = {"replicas": {name: _object(life) for name, life in both.items()}}
        with suppress(OSError):  # a full disk does not stop training
            self._file.parent.mkdir(parents=True, exist_ok=True)
            write_whole(self._file, json.dumps(content))


def read(file: Path) -> dict[str, Life]:
    """Returns the replicas of a file; none where it is not there, or is something else.

    The program that is trained can write to it.
    """
    try:
        if file.stat().st_size > SIZE_LIMIT:
            return {}
        replicas = json.loads(file.read_text(encoding="utf-8"))["replicas"]
        return {str(name): _life(record) for name, record in replicas.items()}
    except (OSError, *UNREADABLE):
        return {}


def _after(before: Life | None, life: Life | None) -> Life:
    """Returns a replica of a job that came after another one, or was found again."""
    now = life or Life([])
    if before is None:
        return now
    began = now.spans[0].began if now.spans else math.inf
    earlier = [span for span in before.spans if span.ended is not None and span.ended <= began]
    first = Life(earlier)
    parts = [(first.ran, before.cpu and before.cpu * first.ran), (now.ran, now.cpu_seconds)]
    worked = [seconds for ran, seconds in parts if ran]
    known = [seconds for seconds in worked if seconds is not None]
    peaks = [peak for peak in (before.peak_memory, now.peak_memory) if peak is not None]
    return Life(
        [*earlier, *now.spans],
        (before.left_out if earlier else 0) + now.left_out,
        sum(known) if known and known == worked else None,
        max(peaks, default=None),
    )


def _object(life: Life) -> dict[str, Any]:
    shown = life.spans
    if len(shown) > SPANS:
        shown = [shown[0], *shown[1 - SPANS :]]
    left_out = life.left_out + len(life.spans) - len(shown)
    used = {"cpu_seconds": life.cpu_seconds, "peak_memory_bytes": life.peak_memory}
    return {
        "spans": [_span_object(span) for span in shown],
        **({"left_out": left_out} if left_out else {}),
        **{name: value for name, value in used.items() if value is not None},
    }


def _span_object(span: Span) -> dict[str, Any]:
    record: dict[str, Any] = {"state": span.state, "from": round(span.began, 3)}
    if span.ended is not None:
        record["to"] = round(span.ended, 3)
    if span.failed:
        record["failed"] = span.failed[:WORDS]
    return record


def _life(record: Mapping[str, Any]) -> Life:
    return Life(
        [_span(span) for span in record["spans"][:SPANS]],
        int(record.get("left_out", 0)),
        _number(record.get("cpu_seconds")),
        _number(record.get("peak_memory_bytes")),
    )


def _span(record: Mapping[str, Any]) -> Span:
    began, ended = _number(record["from"]), _number(record.get("to"))
    if record["state"] not in STATES or began is None or (ended is not None and ended < began):
        raise ValueError(record)
    return Span(record["state"], began, ended, str(record.get("failed", ""))[:WORDS])


def _number(value: Any) -> float | None:
    if value is None:
        return None
    number = float(value)
    if not (math.isfinite(number) and number >= 0):
        raise ValueError(value)
    return number
