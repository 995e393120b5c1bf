"""Standard cron in a time zone: when a schedule runs.

The five fields are read as Debian's crontab(5) reads them: where the day of month and the day of
week both say something, either is enough; where one of them begins with ``*``, both have to fit.
https://manpages.debian.org/stable/cron/crontab.5.en.html
"""

import difflib
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import cache
from itertools import islice
from zoneinfo import ZoneInfo, available_timezones

from cronsim import CronSim, CronSimError

from trireme.errors import InputError

LONGEST_WAIT = timedelta(days=5 * 365)  # for which the engines of cron look for the next time
DAYS_LOOKED_AT = 60
LOOKED_AHEAD = timedelta(days=20 * 365)
LONGEST = 1_000  # characters of an expression
OF_A_MACHINE = {"Factory", "localtime", "posixrules"}  # zones that are what its owner has set
EVERY_DAY, EVERY_MONTH = frozenset(range(1, 32)), frozenset(range(1, 13))
EVERY_WEEKDAY = frozenset(range(7))


@dataclass(frozen=True)
class Cron:
    """When something is to run; Sunday is 0; either day or weekday has to fit, unless both."""

    text: str
    minutes: frozenset[int]
    hours: frozenset[int]
    days: frozenset[int]
    months: frozenset[int]
    weekdays: frozenset[int]
    needs_both: bool


def parse(text: str) -> Cron:
    """Reads a cron expression of five fields."""
    fields = text.split()
    try:
        if len(fields) != 5:
            raise CronSimError("wrong number of fields")
        if len(text) > LONGEST:
            raise CronSimError(f"more than {LONGEST:,} characters")
        parsed = CronSim(text, datetime(2000, 1, 1))
        if min(parsed.days) < 0 or not all(isinstance(day, int) for day in parsed.weekdays):
            raise CronSimError("not standard, which has no L, W and #")
    except CronSimError as error:
        why = str(error).replace("Bad ", "bad ").replace("-", " ")
        raise InputError(
            f"cron {text!r}: {why}; it must be minute, hour, day of month, month and day of week, "
            "as in '0 3 * * 1-5'"
        ) from None
    cron = Cron(
        " ".join(fields),
        minutes=frozenset(parsed.minutes),
        hours=frozenset(parsed.hours),
        days=frozenset(parsed.days),
        months=frozenset(parsed.months),
        weekdays=frozenset(day % 7 for day in parsed.weekdays if isinstance(day, int)),
        needs_both=parsed.day_and,
    )
    _refuse_rare(cron)
    return cron


@cache
def _zones() -> set[str]:
    """Returns the time zones that are the same on every machine; to find them takes 10 ms."""
    return available_timezones() - OF_A_MACHINE


def zone(name: str) -> ZoneInfo:
    """Returns a time zone."""
    if name in _zones():
        return ZoneInfo(name)
    close = difflib.get_close_matches(name, _zones(), n=1)
    hint = f"did you mean {close[0]}?" if close else "it must be a name such as Europe/Berlin"
    why = "is another one in a pod" if name in OF_A_MACHINE else "does not exist"
    raise InputError(f"time zone {name!r}: {why}; {hint}")


def upcoming(
    cron: Cron,
    time_zone: ZoneInfo,
    count: int,
    starts: datetime | None = None,
    ends: datetime | None = None,
) -> list[datetime]:
    """Returns the next times, in the schedule's zone."""
    now = datetime.now(UTC)
    after = max(now, starts) if starts else now
    times = _times(cron, after.astimezone(time_zone))
    if ends is None:
        return list(islice(times, count))
    # Of one zone, Python compares what clocks show, which they do twice when they are put back.
    end = ends.astimezone(UTC)
    return [time for time in islice(times, count) if time.astimezone(UTC) <= end]


def listed(values: set[int] | frozenset[int]) -> str:
    """Returns numbers as a field, three or more in a row as a range."""
    ranges: list[list[int]] = []
    for value in sorted(values):
        if ranges and value == ranges[-1][-1] + 1:
            ranges[-1].append(value)
        else:
            ranges.append([value])
    return ",".join(
        f"{numbers[0]}-{numbers[-1]}" if len(numbers) > 2 else ",".join(map(str, numbers))
        for numbers in ranges
    )


def _times(cron: Cron, after: datetime) -> Iterator[datetime]:
    # With a field for seconds CronSim has no rules of its own for the hour that summer time skips
    # or repeats, as the engines on clusters have none: a time in it is left out, or comes twice.
    return CronSim(f"0 {cron.text}", after)


def _refuse_rare(cron: Cron) -> None:
    """Refuses what the engines of cron would give up looking for, such as 31 February."""
    began = before = datetime.now(UTC)
    days = CronSim(" ".join(["0", "0", *cron.text.split()[2:]]), before)
    for _ in range(DAYS_LOOKED_AT):
        day = next(days, None)
        if day is not None and day - began > LOOKED_AHEAD:
            return  # 1900 and 2100 had, and have, no 29 February
        if day is None or day - before > LONGEST_WAIT:
            raise InputError(f"cron {cron.text!r}: it may not run for more than five years")
        before = day
