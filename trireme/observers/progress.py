"""Progress of a training, from what its program prints anyway.

What a line says of it ``printed.position`` reads. Speed and time left come from our own clock.
"""

import time
from collections import deque
from collections.abc import Callable

from trireme.observers.base import Job, Observer
from trireme.observers.printed.position import Position, position, telling
from trireme.observers.timeline import RUNNING
from trireme.progress import Progress
from trireme.text.units import clock

EVERY = 0.5  # seconds between two states that are passed on
BURST = 2.0  # seconds in which lines may come that were printed before we began to read
LOOKED = 20  # lines at most, of many that come together, that are looked at
READ = 5  # of these, the last that tell progress
SAMPLES = 30  # seconds over which speed is measured

_HINTS = ("/", "poch", "POCH", "of", "OF", "Train: ")  # which a line that tells it has one of


class _Bar:
    """A count of steps up to a total."""

    def __init__(self, said: Position, at: float) -> None:
        self.total, self.done, self.unit = said.total, said.done, said.unit
        self.began = self.last = at

    @property
    def share(self) -> float:
        return min(1.0, self.done / self.total)


class Course:
    """The course of a training, by its program's lines, one after another."""

    def __init__(self, begins_at: int = 1) -> None:
        self._epoch: float | None = None
        self._epochs = 0
        self._is_over = False  # the epoch
        self._begins_at = begins_at  # the number of the first epoch
        self._aside: float | None = None  # the epoch, where it is only mentioned
        self._bar: _Bar | None = None  # the training's
        self._other: _Bar | None = None  # of another total, such as a validation's
        self._is_of_epoch = False  # the training's bar, not of the whole
        self._before = 0.0  # the bar's steps when the epoch began
        self._rounds = 1  # how often the bar has begun
        self._began: float | None = None  # reading
        self._unit = ""
        self._speed: float | None = None
        self._samples: deque[tuple[float, float]] = deque(maxlen=SAMPLES)
        self._first: tuple[float, float] | None = None  # time and share
        self._left: float | None = None

    def read(self, line: str, at: float) -> bool:
        """Takes in a line, printed at some point of time; returns whether it tells progress."""
        line_position = position(line)
        if line_position is None or self._is_late(line_position):
            return False
        if line_position.epoch is not None:
            self._take_epoch(line_position)
        if line_position.total and not self._takes_steps(line_position, at):
            return False
        self._measure(line_position, at)
        return True

    def again(self) -> "Course":
        """Returns the course of the same program when it is started again."""
        return Course(self._begins_at)

    def done(self) -> tuple[str, float] | None:
        """Returns what it has done in all: what that counts, and how many; None if unknown."""
        epoch = self._aside if self._epoch is None else self._epoch
        bar = self._bar
        if bar and not self._is_of_epoch:
            return bar.unit, bar.done
        if bar:
            before = self._rounds - 1 if epoch is None else epoch - self._begins_at
            return bar.unit, before * bar.total + (bar.total if self._is_over else bar.done)
        if epoch is None:
            return None
        return "epoch", epoch - (0 if self._epoch is None else self._begins_at) + self._is_over

    def progress(self, *, has_ended: bool = False, has_finished: bool = False) -> Progress | None:
        """Returns how far the training is, if anything is known; at its end without time left.

        Args:
            has_finished: It is through, whether its program has told its last steps or not.
        """
        share = self._share()
        epoch = self._aside if self._epoch is None else self._epoch
        if share is not None:
            share = 1.0 if has_finished else share
            words = [f"{_percent(share)}%"]
        elif self._bar:
            number = self._rounds if epoch is None else epoch
            done = 1.0 if has_finished else self._bar.share
            words = [f"{_percent(done)}% of epoch {number:g}"]
        elif epoch is not None:
            words = [f"epoch {epoch:g}"]
        else:
            return None
        if self._speed:
            words.append(_speed(self._speed, self._unit))
        seconds_left = None if share is None or share == 1 or has_ended else self._left
        if seconds_left is not None:
            words.append(f"{clock(seconds_left + 0.5)} left")
        return Progress(share, ", ".join(words), seconds_left)

    def _is_late(self, line_position: Position) -> bool:
        """Tells whether a line is of another process of the replica, which is not as far."""
        if (
            self._epoch is None
            or line_position.epoch is None
            or line_position.is_aside
            or line_position.epoch >= self._epoch
        ):
            return False
        return line_position.done > line_position.total / 2

    def _take_epoch(self, line_position: Position) -> None:
        if line_position.is_aside:
            self._aside = line_position.epoch
            return
        bar = self._bar
        if (
            self._epoch is not None
            and line_position.epoch is not None
            and line_position.epoch < self._epoch
        ):
            self.__init__()  # type: ignore[misc]  # another training, or this one once more
        elif self._epoch is None and bar and bar.share == 1 and not line_position.is_over:
            self._bar = None  # it came before training
        elif line_position.epoch != self._epoch and bar:
            self._before = bar.done
            # Where it is over with the epoch, and not with the last one, it has been the epoch's.
            self._is_of_epoch |= bar.share == 1 and line_position.epoch != line_position.epochs
            if self._is_of_epoch and not line_position.is_over:
                bar.done = 0.0
                self._samples.clear()
        self._begins_at = 0 if line_position.epoch == 0 else self._begins_at
        self._epoch, self._epochs = line_position.epoch, line_position.epochs or self._epochs
        self._is_over = line_position.is_over

    def _takes_steps(self, line_position: Position, at: float) -> bool:
        """Takes in the steps of a line; returns whether they are the training's."""
        bar = self._bar
        if bar is None or (line_position.total != bar.total and line_position.is_training):
            bar = self._begin(_Bar(line_position, at))
        elif line_position.total != bar.total:
            other = self._other
            is_new = other is None or other.total != line_position.total
            if other is None or is_new or line_position.done < other.done:
                other = _Bar(line_position, at)
            self._other = other
            # What comes before training ends for good, and is shorter than that.
            is_longer = at - other.began > bar.last - bar.began
            if self._epoch is not None or bar.done < bar.total or not is_longer:
                return False
            bar = self._begin(other)
        elif line_position.done < bar.done and not self._begins_again(line_position, at):
            return False
        if line_position.epoch is not None and not line_position.is_aside:
            self._is_of_epoch = True
        if 0 < self._before < line_position.done:
            self._is_of_epoch = False  # it goes on from one epoch to the next
        bar.done, bar.last = line_position.done, at
        return True

    def _begin(self, bar: _Bar) -> _Bar:
        self._bar, self._other = bar, None
        self._is_of_epoch = self._epoch is not None
        self._rounds, self._before, self._first = 1, 0.0, None
        self._samples.clear()
        return bar

    def _begins_again(self, line_position: Position, at: float) -> bool:
        """Takes in that there are fewer steps than before; returns whether it is a new epoch."""
        assert self._bar
        if line_position.done > self._bar.done / 2:
            return False  # of another process of the replica, which is not as far
        if self._is_over and self._epoch is not None:
            self._epoch, self._is_over = self._epoch + 1, False
        elif self._epoch is not None:
            return False  # another loop over as many steps, in the same epoch
        self._rounds, self._before = self._rounds + 1, 0.0
        self._is_of_epoch, self._bar.began = True, at
        self._samples.clear()
        return True

    def _share(self) -> float | None:
        within = self._bar.share if self._bar else 0.0
        if self._bar and not self._is_of_epoch:
            return within
        if not self._epochs or self._epoch is None:
            return None
        epochs = self._epochs + 1 - self._begins_at  # from 0 to the last, which is one more
        done = self._epoch - self._begins_at + (1.0 if self._is_over else within)
        return max(0.0, min(1.0, done / epochs))

    def _measure(self, line_position: Position, at: float) -> None:
        """Measures speed and the time that is left."""
        self._began = at if self._began is None else self._began
        is_burst = at < self._began + BURST
        unit, count = (
            (line_position.unit, line_position.done)
            if line_position.total
            else ("epoch", line_position.epoch or 0.0)
        )
        if line_position.total or not self._bar:
            falls = bool(self._samples) and count < self._samples[-1][1]
            if is_burst or falls or unit != self._unit:
                self._samples.clear()
                self._unit = unit
            if not self._samples or at - self._samples[-1][0] >= 1:
                self._samples.append((at, count))
            since, before = self._samples[0]
            if at - since >= EVERY and count > before:
                self._speed = (count - before) / (at - since)
        share = self._share()
        if share is None:
            return
        if is_burst or self._first is None or share < self._first[1]:
            self._first = at, share
        began, share_before = self._first
        if share > share_before and at > began:
            self._left = (1 - share) * (at - began) / (share - share_before)


class Meter(Observer):
    """Reads what a job's leading replica prints, and passes on how far it is.

    Attributes:
        progress: How far it was when that was last passed on.
    """

    def __init__(
        self,
        leader: str,
        keep: Callable[[Progress], object] = lambda progress: None,
        count: Callable[[str, float], object] = lambda unit, done: None,
    ) -> None:
        """Starts with nothing read.

        Args:
            leader: The name of the replica.
            keep: Gets each new state, but not more than two a second.
            count: Gets what the present attempt has done in all, see ``Course.done``, each time.
        """
        self._leader, self._keep, self._count = leader, keep, count
        self._course = Course()
        self.progress: Progress | None = None
        self._at = 0.0
        self._attempt = 0.0  # when the present one of the leader began

    def tick(self, job: Job) -> None:
        """Takes in that the leader's program has been started again, maybe from a checkpoint."""
        life = job.lives().get(self._leader)
        began = (
            max((each.began for each in life.spans if each.state == RUNNING), default=0.0)
            if life
            else 0.0
        )
        if began > self._attempt:
            if self._attempt:
                self._course = self._course.again()
            self._attempt = began

    def lines(self, replica: str, text: str) -> None:
        """Takes in lines, or the present state of a bar that is being rewritten."""
        if replica != self._leader:
            return
        now = time.monotonic()
        tells = [self._course.read(line, now) for line in _telling(text)]
        if not any(tells):
            return
        if done := self._course.done():
            self._count(*done)
        if now < self._at + EVERY:
            return
        self._at = now
        self._pass_on(self._course.progress())

    rewritten = lines

    def end(self, failure: BaseException | None) -> None:
        """Passes on how far it was at its end: all of it where it has finished.

        Programs that tell every tenth step, or stop early, have told less.
        """
        self._pass_on(self._course.progress(has_ended=True, has_finished=failure is None))

    def _pass_on(self, progress: Progress | None) -> None:
        if progress and progress != self.progress:
            self.progress = progress
            self._keep(progress)


def _telling(text: str) -> list[str]:
    """Returns which lines may tell progress: of very many that come together, the last ones."""
    chosen: list[str] = []
    end, places = len(text), {hint: text.rfind(hint) for hint in _HINTS}
    for _ in range(LOOKED):
        places = {hint: at if at < end else text.rfind(hint, 0, end) for hint, at in places.items()}
        if (at := max(places.values())) < 0 or len(chosen) == READ:
            break
        start = text.rfind("\n", 0, at) + 1
        after = text.find("\n", at)
        line = text[start : len(text) if after < 0 else after]
        if telling(line):
            chosen.append(line)
        end = max(0, start - 1)
    return chosen[::-1]


def _percent(share: float) -> int:
    return int(share * 100 + 1e-9)


def _speed(speed: float, unit: str) -> str:
    """Returns a speed as a person reads it: so many steps a second, or seconds a step."""
    if speed < 1:
        return f"{1 / speed:.1f} s/{unit}"
    return f"{speed:.1f} {unit}s/s" if speed < 10 else f"{speed:,.0f} {unit}s/s"
