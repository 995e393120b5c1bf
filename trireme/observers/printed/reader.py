"""Reader of one line after another: their metrics, and the steps that these are of."""

import math
import re
from collections.abc import Collection
from typing import NamedTuple

from trireme.observers.printed.names import with_part
from trireme.observers.printed.pairs import WORDS_OF_PARTS, metrics_of, part_of
from trireme.observers.printed.position import Position, is_rich, last_state, position
from trireme.observers.printed.tables import Row, Table, table_from
from trireme.plain import plain

# What logging, glog, torchrun, Ray and mpirun put before a line.
_TIME = r"\d\d:\d\d:\d\d(?:[.,]\d{1,9})?(?:Z|[+-]\d\d:?\d\d)?"
_DATE = r"(?:\d{4}[-/.]\d\d[-/.]\d\d|\d\d/\d\d(?:/\d{4})?)[T_, ]{1,2}"
_STAMP = rf"[\[(]?(?:{_DATE})?{_TIME}[\])]?(?![\w:])"
_LEVEL = r"(?:DEBUG|INFO|NOTICE|WARN|WARNING|ERROR|CRITICAL|FATAL)"
_BEFORE = re.compile(
    rf"[\s|]*(?:{_STAMP}|[\[(](?:default|rank ?)\d+[\])]:?|\(\w+ pid=[^)]{{1,60}}\)|"
    rf"\[\d+,\d+\]<std\w+>:|[\[(]?(?P<level>{_LEVEL})\b[\])]?(?::[\w.]+:| - [\w.]{{1,60}}(?= - ))?|"
    rf"(?P<short>[IWEF])\d{{4,8}} {_TIME}\s+\d+ \S{{1,80}}\]|"
    rf"[\s|:-]*(?:\[?[\w.]{{1,60}}+\]?[\s|:-]*){{1,2}}(?=\[?\b{_LEVEL}\b))[ ,|:-]*"
)
_FAULTS = ("WARN", "WARNING", "ERROR", "CRITICAL", "FATAL", "W", "E", "F")
_NO_METRICS = re.compile(
    r"\s*(?:File \"|Traceback |at \S+\(|#\d+ +0x|[Ww]arning\b|usage: |Namespace\(|"
    r"\$ |\+ |raise |assert |[\w.]+\([fr]?['\"])|"
    r".*?(?:\b[A-Z]\w*(?:Error|Exception|Warning)\b|\b\w+\((?:\w+=[^()]*)\)\s*$|\s--\w)"
)
_HINTS = re.compile(r"\d|\bnan\b|\binf", re.IGNORECASE)
_GAP = " " * 40
_INDENT = " " * 20  # before what a narrow bar of rich goes on with on the next line
_CUT = re.compile(r"[\w./@-]{1,80}:\s*$")  # a name whose value is there
_WIDE = re.compile(" {40,}")  # which patterns would try from each of its letters

_STEP = re.compile(
    r"(?<![\w./-])(?:global[ _]|train[ _]|num[ _])?(?:step|iter|iteration|update|updates|round|"
    r"episode|batch)['\"]?\s{0,3}[:=#]?\s{0,3}['\"\[(]?(\d{1,12})\b(?!\s{0,3}/|[.,]\d|%)",
    re.IGNORECASE,
)
_BOOSTED = re.compile(r"\s*(?:\[(\d{1,9})\]\t|(\d{1,9}):\s+(?:learn|test): )")  # of trees
_NUMBERED = re.compile(r"\s*\[(\d{1,9}),\s{1,8}(\d{1,12})\]")  # an epoch, and a batch of it
_EVALUATED = re.compile(
    rf"\W{{0,4}}(?:{WORDS_OF_PARTS})\b[\w -]{{0,20}}\bepoch\W{{0,4}}\d", re.IGNORECASE
)  # an epoch, which is no progress


class Reading(NamedTuple):
    """Metrics of a line by name, and of which step they are.

    Attributes:
        step: None where no line has told any yet.
        unit: What that counts: ``step``, ``sample`` or ``epoch``.
    """

    metrics: dict[str, float]
    step: int | None = None
    unit: str = "step"


class _Count(NamedTuple):
    """The number of a step, told without how many there are, and perhaps of its epoch."""

    done: float
    epoch: float | None = None


class Place(NamedTuple):
    """Where in a program's output a line stands: what lines before it have told.

    Attributes:
        first: The number of the first epoch.
        aside: The epoch that was mentioned last, where it only is.
        asides: How many there are, by their steps.
        done: The steps that were told last.
        total: Of how many.
        is_sure: Whether these steps have come with metrics, so another bar is of something else.
        before: The steps of the epochs before, where no line tells how many these have.
        per_epoch: The steps of an epoch, where they come with metrics; 0: that is not known.
        goes_on: Whether steps go on from one epoch to the next.
        is_new_epoch: Whether an epoch has begun since they were told.
        has_steps: Whether steps that have no total have been told since an epoch was.
        is_over: Whether the epoch was first told when it was over.
        is_of_parts: Whether epochs are told in parts, so that they are no steps.
        step: The step of the last line that told one.
        unit: What that counts.
        part: What the last line with metrics was about.
    """

    epoch: float | None = None
    first: int = 1
    aside: float = 0.0
    asides: float = math.inf
    done: float = 0.0
    total: float = 0.0
    is_sure: bool = False
    before: float = 0.0
    per_epoch: float = 0.0
    goes_on: bool = False
    is_new_epoch: bool = False
    has_steps: bool = False
    is_over: bool = False
    is_of_parts: bool = False
    step: int | None = None
    unit: str = "step"
    part: str = ""
    table: Table | None = None


class Reader:
    """Reads the lines of one replica, one after another.

    Attributes:
        place: What the lines so far have told that the next one may be without.
    """

    def __init__(self, known: Collection[str] = ()) -> None:
        """Starts with nothing read; ``known`` are further names of metrics."""
        self.place = Place()
        self._known = {*known}
        self._cut: str | None = None  # of a bar's line; None after any other

    def read(self, line: str) -> Reading | None:
        """Takes in a line, or what it has become; returns its metrics, if it has any."""
        text = self._whole(_body(line))
        if not text:
            return None
        if begun := table_from(text):
            self.place = self.place._replace(table=begun)
            return None
        table = self.place.table
        if not (table or _HINTS.search(text)):
            return None
        if table and (row := table.row(text)):
            return self._read_row(row)
        if table and table.ends_at(text):
            self.place = self.place._replace(table=None)
        return None if _NO_METRICS.match(text) else self._read_pairs(text)

    def _whole(self, text: str) -> str:
        """Returns a line with the name that a bar of rich has put at the end of the one before."""
        goes_on = self._cut is not None and text.startswith(_INDENT)
        if goes_on:
            text = f"{self._cut} {text.lstrip()}"
        self._cut = None
        if goes_on or is_rich(text):
            found = _CUT.search(text)
            self._cut = found[0].rstrip() if found else ""
        return text

    def _read_row(self, row: Row) -> Reading | None:
        if row.step is not None:
            self.place = self.place._replace(step=row.step, unit="step", epoch=row.said.epoch)
        elif row.said.epoch is not None:
            self.place = _after(self.place, row.said, None, bool(row.metrics))
        return self._reading(row.metrics)

    def _read_pairs(self, text: str) -> Reading | None:
        parsed = position(text)
        line_position = parsed or Position()
        count = None if line_position.total else _count(text)
        has_position = bool(parsed or count or _EVALUATED.match(text))
        metrics = metrics_of(text, has_position, self._known)
        if metrics and self._evaluates(line_position):
            return self._reading(_with_part("eval_", metrics))
        if metrics:
            is_sum = text.lstrip().startswith("* ")  # of what the lines before are about
            part = self.place.part if is_sum else part_of(text)
            metrics = _with_part(part, metrics) if is_sum else metrics
            self.place = self.place._replace(part=part)
        self.place = _after(self.place, line_position, count, bool(metrics))
        return self._reading(metrics)

    def _reading(self, metrics: dict[str, float]) -> Reading | None:
        return Reading(metrics, self.place.step, self.place.unit) if metrics else None

    def _evaluates(self, line_position: Position) -> bool:
        """Tells whether a bar is of something after an epoch, as of Keras' ``evaluate``."""
        place = self.place
        is_another = (
            bool(line_position.total)
            and line_position.epoch is None
            and line_position.total != place.total
        )
        return is_another and place.is_sure and place.epoch is not None and not place.is_new_epoch


def _body(line: str) -> str:
    """Returns a line without what a logger puts before it; empty for a warning."""
    text = _WIDE.sub(_GAP, plain(last_state(line)))
    while match := _BEFORE.match(text):
        if (match["level"] or match["short"]) in _FAULTS:
            return ""
        if not match.end():
            break
        text = text[match.end() :]
    return text


def _with_part(part: str, metrics: dict[str, float]) -> dict[str, float]:
    return {with_part(part, name): value for name, value in metrics.items()}


def _count(text: str) -> _Count | None:
    """Returns the step that a line tells without how many there are."""
    if match := _NUMBERED.match(text):
        return _Count(float(match[2]), float(match[1]))
    match = _BOOSTED.match(text) or _STEP.search(text)
    return _Count(float(next(filter(None, match.groups())))) if match else None


def _after(place: Place, line_position: Position, count: _Count | None, has_metrics: bool) -> Place:
    """Returns where a program is after a line that tells this."""
    if count and not has_metrics:
        return place
    epoch = None if line_position.is_aside else line_position.epoch
    if epoch is not None and epoch.is_integer():
        if place.epoch is not None and epoch < place.epoch:  # it has been started again
            place = Place(first=place.first, table=place.table)
        if epoch == 0:
            place = place._replace(first=0)
    if line_position.total:
        is_bare = (
            line_position.epoch is None and not has_metrics and line_position.total != place.total
        )
        if is_bare and (place.is_sure or place.done < place.total):
            return place  # a bar of something else
        place = _after_steps(place, line_position, epoch, has_metrics)
    elif count:
        epoch = epoch if count.epoch is None else count.epoch
        place = _after_count(place, count, epoch)
    elif line_position.is_aside and line_position.epoch is not None:
        place = _after_aside(place, line_position.epoch)
    elif epoch is not None:
        place = _after_epoch(place, epoch, has_metrics or line_position.is_over)
    if epoch is None:
        return place._replace(is_new_epoch=False) if count else place
    tells_steps = bool(line_position.total or count)
    is_new = not tells_steps and (place.is_new_epoch or epoch != place.epoch)
    return place._replace(epoch=epoch, is_new_epoch=is_new)


def _after_count(place: Place, count: _Count, epoch: float | None) -> Place:
    """Returns where a program is after a line that tells a step, but not of how many."""
    before = place.before
    is_next = epoch is not None and place.epoch is not None and epoch > place.epoch
    is_next = is_next or (place.is_new_epoch and not place.total)
    if is_next and count.done < place.done:
        before += place.done
    step = int(before + count.done)
    return place._replace(done=count.done, before=before, step=step, unit="step", has_steps=True)


def _after_epoch(place: Place, epoch: float, is_over: bool) -> Place:
    """Returns where a program is after a line that tells an epoch and no step."""
    if place.per_epoch:
        step = (epoch - place.first + is_over) * place.per_epoch
        place = place._replace(is_over=is_over and epoch != place.epoch)
    elif place.has_steps and is_over:
        step = place.before + place.done
    else:
        step = epoch
        place = place._replace(unit="epoch")
    return place._replace(step=int(step), has_steps=False)


def _after_steps(
    place: Place, line_position: Position, epoch: float | None, has_metrics: bool
) -> Place:
    """Returns where a program is after a line that counts steps up to a total."""
    of = place.epoch if epoch is None else epoch
    if epoch is None and of is not None and place.is_over:
        of += 1
    before, goes_on = place.before, place.goes_on
    if of is None or line_position.is_aside:
        if place.per_epoch == line_position.total and line_position.done < place.done / 2:
            before += place.done  # a bar that begins again is of the next epoch
        step = before + line_position.done
        is_of_epoch = True
    else:
        if epoch is not None:
            goes_on = False
        elif place.is_new_epoch and place.total == line_position.total:
            goes_on = 0 < place.done < line_position.done  # a bar of the whole
        step = (
            line_position.done
            if goes_on
            else (of - place.first) * line_position.total + line_position.done
        )
        is_of_epoch = not goes_on
    return place._replace(
        done=line_position.done,
        total=line_position.total,
        step=int(step),
        unit=line_position.unit,
        before=before,
        per_epoch=line_position.total if has_metrics and is_of_epoch else place.per_epoch,
        goes_on=goes_on,
        is_new_epoch=False,
        is_sure=place.is_sure or has_metrics,
    )


def _after_aside(place: Place, epoch: float) -> Place:
    """Returns where a program is after a line that only mentions its epoch."""
    if epoch < place.aside:  # another training
        place = place._replace(done=0.0, total=0.0, is_sure=False, asides=math.inf)
    is_part = place.is_of_parts or not epoch.is_integer()
    step, epochs = None if is_part else int(epoch), place.asides
    if place.total and place.done and epoch:
        # What a bar has become is known twice a second, so there may be more steps than it tells,
        # and less epochs; the epoch is exact.
        epochs = min(epochs, max(1.0, round(place.total * epoch / place.done)))
        step = int(max(place.done, round(epoch * place.total / epochs)))
    return place._replace(
        aside=epoch,
        asides=epochs,
        is_sure=place.total > 0,
        is_of_parts=is_part,
        step=step,
        unit="step" if place.total and place.done else "epoch",
    )
