"""Cron as Argo wants it: five fields, of numbers only.

Argo parses with robfig/cron 3. There a day has to fit both fields of days where one of them is
``*``, and otherwise either: ``*/2`` is no ``*``. Weekdays are counted from 0 to 6, and the step of
a range never leaves it. Argo v4.0's definitions allow no names:
https://github.com/robfig/cron/blob/v3.0.1/parser.go
"""

import re

from trireme.components.errors import InputError
from trireme.pipelines.schedules.cron import EVERY_DAY, EVERY_WEEKDAY, listed, parse

_THE_SAME = re.compile(r"\*(/\d+)?|\d+(-\d+)?(,\d+(-\d+)?)*", re.ASCII)
"""Fields that mean the same to everybody."""


def five_fields(text: str) -> str:
    """Returns a cron expression as Argo wants it, as it is wherever that is possible."""
    cron = parse(text)
    minutes, hours, days, months, weekdays = cron.text.split()
    days = _field(days, cron.days)
    weekdays = _field(weekdays, cron.weekdays) if "7" not in weekdays else listed(cron.weekdays)
    if cron.needs_both:
        if cron.days == EVERY_DAY:
            days = "*"
        elif cron.weekdays == EVERY_WEEKDAY:
            weekdays = "*"
        else:
            raise InputError(
                f"cron {text!r}: on Argo a day that fits either field of days is enough, and here "
                "it has to fit both; say one of them as *"
            )
    return " ".join(
        [
            _field(minutes, cron.minutes),
            _field(hours, cron.hours),
            days,
            _field(months, cron.months),
            weekdays,
        ]
    )


def _field(field: str, values: frozenset[int]) -> str:
    return field if _THE_SAME.fullmatch(field) else listed(values)
