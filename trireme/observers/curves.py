"""The metrics that a training's program prints, kept with their steps: as many as a server takes.

A program may print thousands of lines a second, and must not wait for whoever reads them. Of lines
that differ in nothing but their digits ``BURST`` are read at once and then one a second; of all
lines ``LINES``, and then ``LINES_A_SECOND``. Of the values of a metric ``BURST`` are kept, and then
one every ten seconds. The last of each is always read, and kept.
"""

import threading
import time
from collections.abc import Callable, Iterator, Mapping
from typing import NamedTuple

from trireme.observers.base import Job, Observer
from trireme.observers.printed.reader import Place, Reader

BURST = 300  # lines of one form, and values of one metric, that may come at once
LINES, LINES_A_SECOND = 1000, 100  # of any form
KEPT_A_SECOND = 0.1  # values of one metric: a training may take weeks
FORMS = 2000  # of lines that are told apart
NAMES = 100  # of metrics that are kept
EVERY = 10.0  # seconds between two times that values are passed on


class Point(NamedTuple):
    """A value of a metric: the step that it is of, and when it came, in ms since the epoch.

    Attributes:
        unit: What the step counts: ``step``, ``sample`` or ``epoch``.
    """

    step: int
    value: float
    at: int
    unit: str = "step"


class _Allowance:
    """How many of something may come: some at once, and then so many a second."""

    def __init__(self, now: float, burst: float = BURST, rate: float = 1.0) -> None:
        self._left, self._at, self._burst, self._rate = burst, now, burst, rate

    def takes(self, now: float) -> bool:
        """Takes one more, if it may come."""
        available = self._left + (now - self._at) * self._rate
        self._left, self._at = min(self._burst, available), now
        if self._left < 1:
            return False
        self._left -= 1
        return True


class _Waiting(NamedTuple):
    """A line that has to wait, and where it is: after another one that had to, or at a place."""

    line: str
    place: Place
    after: str


class _Form:
    """Lines that differ in nothing but their digits, of which the last may have to wait."""

    def __init__(self, now: float) -> None:
        self.allowance = _Allowance(now)
        self.tells_place = False
        self.waiting: _Waiting | None = None


class Curves(Observer):
    """Reads what a job's leading replica prints, and passes on the metrics in it.

    Attributes:
        last: The last value of each metric.
    """

    def __init__(self, leader: str, keep: Callable[[Mapping[str, list[Point]]], object]) -> None:
        """Starts with nothing read.

        Args:
            leader: The name of the replica.
            keep: Gets new values, by the names of their metrics, now and then and at the end.
        """
        self._leader, self._keep = leader, keep
        self._reader = Reader()
        self._forms: dict[bytes, _Form] = {}
        self._skipped: _Form | None = None  # of the last line that has told a place and waits
        self._allowance = _Allowance(time.monotonic(), LINES, LINES_A_SECOND)
        self._allowances: dict[str, _Allowance] = {}
        self._counts: dict[str, int] = {}
        self._new: dict[str, list[Point]] = {}
        self._left_out: dict[str, Point] = {}
        self._next = time.monotonic() + EVERY
        self._one_at_a_time = threading.Lock()
        self.last: dict[str, float] = {}

    def lines(self, replica: str, text: str) -> None:
        """Takes in lines, or the present state of a bar that is being rewritten."""
        if replica != self._leader:
            return
        now = time.monotonic()
        with self._one_at_a_time:
            for line, form in _with_forms(text):
                self._take(line, self._form(form, now), now)

    rewritten = lines

    def tick(self, job: Job) -> None:
        """Passes on what is new, now and then."""
        if time.monotonic() >= self._next:
            self._next = time.monotonic() + EVERY
            self._pass_on()

    def end(self, failure: BaseException | None) -> None:
        """Passes on the rest, and the last of all."""
        with self._one_at_a_time:
            for form in self._forms.values():
                self._read_waiting(form)
            for name, point in self._left_out.items():
                self._new.setdefault(name, []).append(point)
            self._left_out.clear()
        self._pass_on()

    def _form(self, form: bytes, now: float) -> _Form:
        if form not in self._forms:
            if len(self._forms) >= FORMS:
                del self._forms[next(iter(self._forms))]
            self._forms[form] = _Form(now)
        return self._forms[form]

    def _take(self, line: str, form: _Form, now: float) -> None:
        if not (form.allowance.takes(now) and self._allowance.takes(now)):
            skipped = self._skipped and self._skipped.waiting
            form.waiting = _Waiting(line, self._reader.place, skipped.line if skipped else "")
            if form.tells_place:
                self._skipped = form
            return
        form.waiting = None
        if self._skipped and self._skipped.waiting:
            self._read(self._skipped.waiting.line)  # what it tells this line may lack
            self._skipped.waiting = None
        self._skipped = None
        before = self._reader.place
        self._read(line)
        form.tells_place = self._reader.place != before

    def _read_waiting(self, form: _Form) -> None:
        """Reads a line that has had to wait, as of where it was."""
        if form.waiting:
            self._reader.place = form.waiting.place
            if form.waiting.after:
                self._reader.read(form.waiting.after)
            self._read(form.waiting.line)
            form.waiting = None

    def _read(self, line: str) -> None:
        reading = self._reader.read(line)
        if reading is None:
            return
        at, now = int(time.time() * 1000), time.monotonic()
        for name, value in reading.metrics.items():
            if name not in self._allowances:
                if len(self._allowances) >= NAMES:
                    continue
                self._allowances[name] = _Allowance(now, rate=KEPT_A_SECOND)
            self._counts[name] = self._counts.get(name, 0) + 1
            step = self._counts[name] if reading.step is None else reading.step
            self.last[name] = value
            point = Point(step, value, at, reading.unit)
            if self._allowances[name].takes(now):
                self._new.setdefault(name, []).append(point)
                self._left_out.pop(name, None)
            else:
                self._left_out[name] = point

    def _pass_on(self) -> None:
        with self._one_at_a_time:
            new, self._new = self._new, {}
        if new:
            self._keep(new)


_DIGITS = b"0123456789"


def _with_forms(text: str) -> Iterator[tuple[str, bytes]]:
    """Yields lines with what is left of each without its digits."""
    forms = text.encode(errors="replace").translate(None, _DIGITS).split(b"\n")
    return zip(text.split("\n"), forms, strict=True)
