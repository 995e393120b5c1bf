"""Cron as Kubeflow Pipelines wants it: six fields, in the one time zone that it has.

Its controller parses with robfig/cron 1.2, which begins with seconds, knows no zone in the
expression, and counts weekdays from 0 to 6. All schedules are in the zone that
CRON_SCHEDULE_TIMEZONE of the controller names, UTC unless somebody has set it:
https://github.com/kubeflow/pipelines/tree/2.17.0/backend/src/crd/controller/scheduledworkflow/util
https://github.com/robfig/cron/blob/v1.2.0/parser.go
"""

import re
from collections.abc import Iterable
from datetime import UTC, datetime, timedelta
from itertools import product
from zoneinfo import ZoneInfo

from trireme.errors import InputError
from trireme.schedules.cron import EVERY_DAY, EVERY_MONTH, EVERY_WEEKDAY, Cron, listed, parse

A_DAY = 24 * 60  # minutes
HORIZON = 366 * 24  # hours ahead in which two zones are compared

_STARRED = re.compile(r"\*(/\d+)?")


def six_fields(text: str, zone: ZoneInfo, kubeflows: ZoneInfo) -> str:
    """Returns a cron expression as Kubeflow Pipelines wants it."""
    cron = parse(text)
    _, _, days, _, weekdays = cron.text.split()
    days, weekdays = _days(days, cron.days, text), _days(weekdays, cron.weekdays, text)
    at = set(product(cron.hours, cron.minutes))
    if shift := _between(zone, kubeflows):
        moved = [divmod(60 * hour + minute + shift, A_DAY) for hour, minute in at]
        at = {divmod(time, 60) for _, time in moved}
        days_later = {later for later, _ in moved}
        if _needs_several(cron, at, days_later):
            raise InputError(
                f"cron {text!r}: no single schedule in {kubeflows.key}, the time zone of "
                f"Kubeflow Pipelines, is the same as this one in {zone.key}; split it, or set "
                f"Kubeflow's CRON_SCHEDULE_TIMEZONE to {zone.key} and give --kubeflow-time-zone "
                f"{zone.key}"
            )
        if _is_daily(cron):
            days = weekdays = "*"
        else:
            weekdays = _shifted(weekdays, cron.weekdays, min(days_later))
    hours = _field({hour for hour, _ in at}, range(24))
    minutes = _field({minute for _, minute in at}, range(60))
    return f"0 {minutes} {hours} {days} {_field(cron.months, EVERY_MONTH)} {weekdays}"


def _between(zone: ZoneInfo, kubeflows: ZoneInfo) -> int:
    """Returns the minutes by which clocks in Kubeflow's zone are ahead."""
    if zone == kubeflows:
        return 0
    now = datetime.now(UTC).replace(minute=0, second=0, microsecond=0)
    differences = {
        _offset(moment, kubeflows) - _offset(moment, zone)
        for moment in (now + timedelta(hours=hour) for hour in range(HORIZON))
    }
    if len(differences) > 1:
        raise InputError(
            f"time_zone {zone.key!r}: Kubeflow Pipelines has one time zone for all schedules, "
            f"here {kubeflows.key}, and the hours between the two change with summer time; set "
            f"its CRON_SCHEDULE_TIMEZONE to {zone.key} and give --kubeflow-time-zone {zone.key}, "
            f"or give the times in {kubeflows.key}"
        )
    return differences.pop()


def _offset(moment: datetime, zone: ZoneInfo) -> int:
    offset = moment.astimezone(zone).utcoffset() or timedelta()
    return round(offset.total_seconds() / 60)


def _days(field: str, days: frozenset[int], text: str) -> str:
    """Returns a field of days with the meaning that it has in a crontab."""
    # To both a field that begins with ``*`` says nothing that the other field of days could be an
    # alternative to; only to crontab a 7 is Sunday.
    if _STARRED.fullmatch(field):
        return field
    if field.startswith("*"):
        raise InputError(f"cron {text!r}: {field!r} cannot be expressed on Kubeflow Pipelines")
    return listed(days)


def _is_daily(cron: Cron) -> bool:
    of_both = [cron.days == EVERY_DAY, cron.weekdays == EVERY_WEEKDAY]
    return cron.months == EVERY_MONTH and (all(of_both) if cron.needs_both else any(of_both))


def _needs_several(cron: Cron, times: set[tuple[int, int]], days_later: set[int]) -> bool:
    """Whether hours that are another day's, or another half hour's, are no single expression."""
    hours, minutes = ({time[part] for time in times} for part in (0, 1))
    if len(hours) * len(minutes) != len(times):
        return True
    if days_later == {0} or _is_daily(cron):
        return False
    by_weekday = cron.months == EVERY_MONTH and cron.days == EVERY_DAY and cron.needs_both
    return len(days_later) > 1 or not by_weekday


def _shifted(field: str, weekdays: frozenset[int], days_later: int) -> str:
    return listed({(day + days_later) % 7 for day in weekdays}) if days_later else field


def _field(values: set[int] | frozenset[int], every: Iterable[int]) -> str:
    return "*" if values == set(every) else listed(values)
