"""The ledger of a training: what all of its time went to, by cause, from what was recorded of it.

``ledger`` is a function of its facts alone. The causes share out the whole time; what cannot be
told is ``unknown``, and nothing is guessed.
"""

from bisect import bisect_right
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields
from itertools import pairwise
from math import isfinite
from typing import Any, NamedTuple

from trireme.cost.table import in_words
from trireme.observers.incidents import EPISODE
from trireme.observers.timeline import QUEUED, RESTARTING, RUNNING, STARTING, Span
from trireme.text.units import lasting
from trireme.tracking.journal import GOODPUT

QUEUE, IMAGE, START, PREFLIGHT = "queue", "image", "start", "preflight"
FIRST_STEP, TRAINING, CHECKPOINT, REPEATED = "first_step", "training", "checkpoint", "repeated"
HANG, RESTART, IDLE, UNKNOWN = "hang", "restart", "idle", "unknown"

CAUSES = {
    TRAINING: "training",
    QUEUE: "queue",
    IMAGE: "image",
    START: "start",
    PREFLIGHT: "preflight",
    FIRST_STEP: "first step",
    CHECKPOINT: "checkpoint stops",
    REPEATED: "repeated steps",
    HANG: "hang",
    RESTART: "restart",
    IDLE: "idle",
    UNKNOWN: "unknown",
}
"""What time goes to, with a person's words for it."""

SHOWN = 0.05  # seconds of a cause from which on it is shown
LATE = 5.0  # seconds after a program's start when it is too late to see its first step


class Mark(NamedTuple):
    """How far a program was: so many steps, samples or epochs, whichever its ``unit`` is."""

    at: float
    unit: str
    done: float


class Checkpoint(NamedTuple):
    """A checkpoint that was seen.

    Attributes:
        at: When its last file was written.
        began: When training stopped for it, where it did.
        stop: Seconds that it kept training from going on; None where that cannot be told.
    """

    at: float
    began: float = 0.0
    stop: float | None = None


@dataclass(frozen=True)
class Facts:
    """What is known of one job; times are in seconds since the epoch.

    Attributes:
        asked: When it was made.
        until: When it ended; now, while it lasts.
        replicas: What each spent its time with, by name.
        leader: The replica that ends the job.
        expected: How many replicas it has.
        needed: How many of them suffice, as in an elastic job; None for all.
        marks: How far its program was, in order.
        checkpoints: Those that were seen; None where nobody could see any.
        hangs: From when to when it hung; None while it lasts.
        preflights: When a preflight was passed.
        pulls: While an image was brought, by replica.
        followed: Since when its lines are read.
        reached: How far jobs before it were, by unit; it went on from a checkpoint of theirs.
        is_resumed: Whether there were any.
        gpus: How many each replica has, by role in lower case.
        prices: What an hour of each costs, likewise; None where there is no price table.
        currency: What that is in.
    """

    asked: float
    until: float
    replicas: Mapping[str, Sequence[Span]]
    leader: str = ""
    expected: int = 1
    needed: int | None = None
    marks: Sequence[Mark] = ()
    checkpoints: Sequence[Checkpoint] | None = None
    hangs: Sequence[tuple[float, float | None]] = ()
    preflights: Sequence[float] = ()
    pulls: Mapping[str, Sequence[tuple[float, float]]] = field(default_factory=dict)
    followed: float = 0.0
    reached: Mapping[str, float] = field(default_factory=dict)
    is_resumed: bool = False
    gpus: Mapping[str, float] = field(default_factory=dict)
    prices: Mapping[str, float] | None = None
    currency: str = ""


@dataclass(frozen=True)
class Ledger:
    """What the time of a training, or of several, went to.

    Attributes:
        seconds: By cause; together its whole time, from when its job was made.
        gpu_seconds: The same of all GPUs that its replicas held; empty where they have none.
        cost: What its replicas cost meanwhile; empty where there is no price table.
        currency: What that is in.
        ran: Seconds that all its replicas ran.
        replica_seconds: Those that they ran, added up.
        interruptions: How often it stopped before its end and went on.
        restarts: After how many of these it is known when the next new step was done.
        restarting: Seconds until then, added up.
        checkpoints: How many were seen; None where nobody could see any.
        stops: Of how many of these it is known for how long they stopped it.
        gaps: How often one followed another in the same attempt.
        between: Seconds from one to the other, added up.
        silent: Seconds of running in which its program told no progress, and never had.
    """

    seconds: Mapping[str, float] = field(default_factory=dict)
    gpu_seconds: Mapping[str, float] = field(default_factory=dict)
    cost: Mapping[str, float] = field(default_factory=dict)
    currency: str = ""
    ran: float = 0.0
    replica_seconds: float = 0.0
    interruptions: int = 0
    restarts: int = 0
    restarting: float = 0.0
    checkpoints: int | None = None
    stops: int = 0
    gaps: int = 0
    between: float = 0.0
    silent: float = 0.0

    @property
    def whole(self) -> float:
        """All of its time, in seconds."""
        return sum(self.seconds.values())

    @property
    def share(self) -> float | None:
        """The goodput: the share of its time after the queue in which it trained."""
        held = self.whole - self.seconds.get(QUEUE, 0.0)
        return self.seconds.get(TRAINING, 0.0) / held if held > 0 else None

    @property
    def stop(self) -> float | None:
        """Seconds that a checkpoint keeps training from going on, the mean; None if unknown."""
        return self.seconds.get(CHECKPOINT, 0.0) / self.stops if self.stops else None

    @property
    def saved_every(self) -> float | None:
        """Seconds from one checkpoint to the next, the mean; None where there were not two."""
        return self.between / self.gaps if self.gaps else None

    @property
    def restart(self) -> float | None:
        """Seconds from an interruption to the next new step, the mean; None if unknown."""
        return self.restarting / self.restarts if self.restarts else None

    @property
    def between_interruptions(self) -> float | None:
        """Seconds that it runs from one to the next, the mean; None where there was none."""
        return self.ran / self.interruptions if self.interruptions else None

    def __add__(self, other: "Ledger") -> "Ledger":
        """Returns the ledger of both."""
        checkpoints = [each for each in (self.checkpoints, other.checkpoints) if each is not None]
        currencies = {each.currency for each in (self, other) if each.cost}
        added: dict[str, Any] = {
            each.name: getattr(self, each.name) + getattr(other, each.name)
            for each in fields(self)
            if isinstance(getattr(self, each.name), int | float) and each.name != "checkpoints"
        }
        return Ledger(
            **added,
            seconds=_added(self.seconds, other.seconds),
            gpu_seconds=_added(self.gpu_seconds, other.gpu_seconds),
            # Money of two kinds has no sum.
            cost=_added(self.cost, other.cost) if len(currencies) < 2 else {},
            currency=min(currencies) if len(currencies) == 1 else "",
            checkpoints=sum(checkpoints) if checkpoints else None,
        )


def _added(one: Mapping[str, float], other: Mapping[str, float]) -> dict[str, float]:
    return {
        cause: one.get(cause, 0.0) + other.get(cause, 0.0)
        for cause in CAUSES
        if cause in one or cause in other
    }


class _Part(NamedTuple):
    """A part of the time, and what it went to; before it is looked into, a state of the job."""

    cause: str
    began: float
    ended: float


def ledger(facts: Facts) -> Ledger:
    """Returns what the time of a job went to."""
    states = _without_peers_ends(facts, _states(facts))
    attempts = [part for part in states if part.cause == RUNNING]
    parts = [part for part in states if part.cause != RUNNING]
    silent = 0.0
    is_silent = not facts.marks and not facts.reached
    for attempt in attempts:
        found = _attempt(facts, attempt, is_silent=is_silent)
        silent += sum(part.ended - part.began for part in found if is_silent)
        parts += found
    hangs = [(began, facts.until if ended is None else ended) for began, ended in facts.hangs]
    parts = [*_painted(parts, HANG, hangs)]
    seconds = dict.fromkeys(CAUSES, 0.0)
    for part in parts:
        seconds[part.cause] += part.ended - part.began
    ran = sum(attempt.ended - attempt.began for attempt in attempts)
    again = attempts if facts.is_resumed else attempts[1:]
    starts = [facts.asked, *(attempt.ended for attempt in attempts)]
    starts = starts if facts.is_resumed else starts[1:]
    waits = [
        first - start
        for start, attempt in zip(starts, again, strict=False)
        if (first := _first(facts, attempt)) is not None
    ]
    seen = facts.checkpoints or ()
    gaps = [
        following.at - each.at
        for each, following in pairwise(seen)
        if each.at <= following.at  # the clock may have been set back
        and any(run.began <= each.at and following.at <= run.ended for run in attempts)
    ]
    held = _held(facts)
    return Ledger(
        seconds={cause: seconds[cause] for cause in CAUSES if seconds[cause] > 0},
        gpu_seconds=_weighed(parts, held, facts.gpus),
        cost={
            cause: money / 3600
            for cause, money in _weighed(parts, held, facts.prices or {}).items()
        },
        currency=facts.currency if facts.prices else "",
        ran=ran,
        replica_seconds=sum(
            max(0.0, (facts.until if span.ended is None else span.ended) - span.began)
            for spans in facts.replicas.values()
            for span in spans
            if span.state == RUNNING
        ),
        interruptions=len(again),
        restarts=len(waits),
        restarting=sum(waits),
        checkpoints=None if facts.checkpoints is None else len(facts.checkpoints),
        stops=sum(each.stop is not None for each in seen),
        gaps=len(gaps),
        between=sum(gaps),
        silent=silent,
    )


def _states(facts: Facts) -> list[_Part]:
    """Returns the states that a job was in, one after another: what it waited for, or that it ran.

    A job waits for its last replica: while one is queued, so is the job.
    """
    changes: list[tuple[float, str, int]] = []
    leader_over, failed = float("inf"), list[float]()
    for name, spans in facts.replicas.items():
        for span in spans:
            ended = facts.until if span.ended is None else span.ended
            changes += [(span.began, span.state, 1), (ended, span.state, -1)]
        if spans and spans[-1].ended is not None:
            changes.append((spans[-1].ended, "over", 1))
            leader_over = spans[-1].ended if name == facts.leader else leader_over
            failed += [spans[-1].ended] if spans[-1].failed else []
    for pulls in facts.pulls.values():
        for began, ended in pulls:
            changes += [(began, IMAGE, 1), (ended, IMAGE, -1)]
    # Where nothing is done any more after a replica has failed for good, the rest is ending.
    last = max((mark.at for mark in facts.marks), default=0.0)
    over = min([leader_over, *(at for at in failed if last <= at)])
    if facts.asked < over < facts.until:
        changes.append((over, IDLE, 1))
    counts = Counter[str]()
    unseen = max(0, facts.expected - len(facts.replicas))
    found: list[_Part] = []
    at = facts.asked
    for moment, state, difference in sorted([*changes, (facts.until, "", 0)]):
        moment = min(max(moment, facts.asked), facts.until)
        if moment > at:
            now = _state(counts, unseen, facts)
            if found and found[-1].cause == now:
                found[-1] = found[-1]._replace(ended=moment)
            else:
                found.append(_Part(now, at, moment))
            at = moment
        counts[state] += difference
    return found


def _without_peers_ends(facts: Facts, states: list[_Part]) -> list[_Part]:
    """Returns states in which an incident is one: replicas that fail of another's fail later.

    Those that failed first may have been started again by then, so that for a while all ran.
    """
    found: list[_Part] = []
    for part, after in pairwise([*states, _Part("", facts.until, facts.until)]):
        before = found[-1].cause if found else ""
        is_short = part.ended - part.began <= EPISODE
        if before == after.cause == RESTART and is_short and _first(facts, part) is None:
            part = part._replace(cause=RESTART)
        if before == part.cause:
            found[-1] = found[-1]._replace(ended=part.ended)
        else:
            found.append(part)
    return found


def _state(counts: Counter[str], unseen: int, facts: Facts) -> str:
    """Returns what a job does of whose replicas so many are in each state."""
    if counts[IDLE]:
        return IDLE
    alive = sum(counts[state] for state in (QUEUED, STARTING, RUNNING, RESTARTING)) + unseen
    needed = alive if facts.needed is None else min(facts.needed, alive)
    if alive and counts[RUNNING] >= needed:
        return RUNNING
    if counts[QUEUED] or unseen:
        return QUEUE
    if counts[STARTING]:
        return IMAGE if counts[IMAGE] else START
    return RESTART if counts[RESTARTING] else UNKNOWN


def _attempt(facts: Facts, run: _Part, *, is_silent: bool) -> list[_Part]:
    """Returns what the time went to in which all replicas ran."""
    passed = [at for at in facts.preflights if run.began < at <= run.ended]
    begun = max([run.began, *passed])
    found = [_Part(PREFLIGHT, run.began, begun)] if passed else []
    if is_silent:
        return [*found, _Part(TRAINING, begun, run.ended)]
    first = _first(facts, run)
    is_late = facts.followed > begun + LATE  # what it did before that nobody has seen
    until = run.ended if first is None else max(first, begun)
    found.append(_Part(UNKNOWN if is_late else FIRST_STEP, begun, until))
    if first is None:
        return found
    again = max(until, _caught_up(facts, run) or until)
    found += [_Part(REPEATED, until, again), _Part(TRAINING, again, run.ended)]
    stops = [
        (each.began, each.began + each.stop)
        for each in facts.checkpoints or ()
        if each.stop and until <= each.began < run.ended
    ]
    return [*_painted(found, CHECKPOINT, stops)]


def _first(facts: Facts, run: _Part) -> float | None:
    """Returns when the first step of an attempt was done; None where that is not known."""
    done = (mark.at for mark in facts.marks if run.began < mark.at <= run.ended and mark.done > 0)
    return next(done, None)


def _caught_up(facts: Facts, run: _Part) -> float | None:
    """Returns when an attempt had done all steps of those before it; None for no such steps."""
    marks = [mark for mark in facts.marks if run.began < mark.at <= run.ended and mark.done > 0]
    if not marks:
        return None
    unit = marks[-1].unit
    marks = [mark for mark in marks if mark.unit == unit]
    before = [mark.done for mark in facts.marks if mark.at <= run.began and mark.unit == unit]
    reached = max([facts.reached.get(unit, 0.0), *before])
    if marks[0].done >= reached:
        return None
    for earlier, later in pairwise(marks):
        if later.done >= reached:
            share = (reached - earlier.done) / (later.done - earlier.done)
            return earlier.at + share * (later.at - earlier.at)
    return run.ended


def _painted(
    parts: Iterable[_Part], cause: str, times: Iterable[tuple[float, float]]
) -> Iterator[_Part]:
    """Yields parts of which what lies in some times went to something else."""
    ordered = sorted(times)
    for part in parts:
        at = part.began
        for began, ended in ordered:
            left, right = max(at, began), min(part.ended, ended)
            if right <= left:
                continue
            if left > at:
                yield _Part(part.cause, at, left)
            yield _Part(cause, left, right)
            at = right
        if part.ended > at:
            yield _Part(part.cause, at, part.ended)


def _held(facts: Facts) -> dict[str, list[tuple[float, float]]]:
    """Returns from when to when each replica held its machine: from the queue to its end."""
    held = {}
    for name, spans in facts.replicas.items():
        placed = [span for span in spans if span.state != QUEUED]
        if placed:
            ended = facts.until if placed[-1].ended is None else placed[-1].ended
            held[name] = [(placed[0].began, ended)]
    return held


def _weighed(
    parts: Sequence[_Part],
    held: Mapping[str, Sequence[tuple[float, float]]],
    weights: Mapping[str, float],
) -> dict[str, float]:
    """Returns the time of parts, each with the weights of the replicas that are held then."""
    changes = defaultdict[float, float](float)
    for name, times in held.items():
        if weight := weights.get(name.rpartition("-")[0], 0.0):
            for began, ended in times:
                changes[began] += weight
                changes[ended] -= weight
    if not changes:
        return {}
    moments: list[float] = []
    rates: list[float] = []
    sums: list[float] = []
    rate = total = 0.0
    for at in sorted(changes):
        total += rate * (at - moments[-1]) if moments else 0.0
        rate += changes[at]
        moments.append(at)
        rates.append(rate)
        sums.append(total)

    def until(at: float) -> float:
        number = bisect_right(moments, at) - 1
        return sums[number] + rates[number] * (at - moments[number]) if number >= 0 else 0.0

    weighed = dict.fromkeys(CAUSES, 0.0)
    for part in parts:
        weighed[part.cause] += until(part.ended) - until(part.began)
    return {cause: weighed[cause] for cause in CAUSES if weighed[cause] > 1e-9}


_NUMBERS = tuple(
    each.name
    for each in fields(Ledger)
    if each.name not in ("seconds", "gpu_seconds", "cost", "currency")
)
_ALWAYS = tuple(name for name in _NUMBERS if name != "checkpoints")


def metrics(of: Ledger) -> dict[str, float]:
    """Returns a ledger as the metrics of an MLflow run: minutes, GPU-hours, money."""
    found = {f"minutes/{cause}": seconds / 60 for cause, seconds in of.seconds.items()}
    found |= {f"gpu_hours/{cause}": seconds / 3600 for cause, seconds in of.gpu_seconds.items()}
    found |= {f"cost/{cause}": money for cause, money in of.cost.items()}
    found |= {name: value for name in _NUMBERS if (value := getattr(of, name)) is not None}
    if of.share is not None:
        found["share"] = of.share
    return {f"{GOODPUT}{name}": float(value) for name, value in found.items()}


def from_metrics(known: Mapping[str, float], currency: str = "") -> Ledger | None:
    """Returns the ledger that a run's metrics are of, which anybody may log; None if of none."""
    own = {
        name.removeprefix(GOODPUT): value
        for name, value in known.items()
        if name.startswith(GOODPUT) and isfinite(value) and value >= 0  # else somebody else's
    }

    def of(kind: str, unit: float) -> dict[str, float]:
        return {c: value * unit for c in CAUSES if (value := own.get(f"{kind}/{c}", 0.0))}

    if not own.keys() >= {*_ALWAYS}:
        return None
    cost = of("cost", 1)
    return Ledger(
        seconds=of("minutes", 60),
        gpu_seconds=of("gpu_hours", 3600),
        cost=cost,
        currency=currency if cost else "",
        ran=own["ran"],
        replica_seconds=own["replica_seconds"],
        interruptions=int(own["interruptions"]),
        restarts=int(own["restarts"]),
        restarting=own["restarting"],
        checkpoints=int(own["checkpoints"]) if "checkpoints" in own else None,
        stops=int(own["stops"]),
        gaps=int(own["gaps"]),
        between=own["between"],
        silent=own["silent"],
    )


def sentence(of: Ledger) -> str:
    """Says what the time of a training went to, in one line."""
    share = of.share
    if share is None:
        return f"in the queue for {lasting(of.whole)}"
    held = of.whole - of.seconds.get(QUEUE, 0.0)
    parts = sorted(
        (
            (seconds, cause)
            for cause, seconds in of.seconds.items()
            if cause != QUEUE and seconds >= SHOWN
        ),
        reverse=True,
    )
    words = ", ".join(f"{CAUSES[cause]} {lasting(seconds)}" for seconds, cause in parts)
    queue = of.seconds.get(QUEUE, 0.0)
    words += f"; {lasting(queue)} in the queue before" if queue >= 1 else ""
    if of.gpu_seconds:
        words += f"; {sum(of.gpu_seconds.values()) / 3600:.2f} GPU hours"
    if of.cost:
        words += f"; {in_words(sum(of.cost.values()), of.currency)}"
    if of.silent:
        words += "; it tells no progress, so running counts as training"
    return f"{share:.0%} of {lasting(held)}: {words}"
