"""CronWorkflows, which is what Argo calls schedules: what is sent, what is read.

https://argo-workflows.readthedocs.io/en/latest/cron-workflows/
"""

import json
import re
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

from hera.workflows import models

from trireme.errors import InputError
from trireme.schedules.cron import EVERY_DAY, EVERY_WEEKDAY, listed, parse
from trireme.schedules.schedule import LATEST, Schedule
from trireme.targets.argo.compiling import PIPELINE, VERSION

ANNOTATION = "trireme/schedule"
"""The annotation that says what was asked for, and that Trireme has made the CronWorkflow."""

KEPT = 10
"""Runs of a schedule that are kept, of those that have succeeded and of the others."""

ALWAYS = 365 * 24 * 60 * 60
"""Seconds for which a time that was missed can be made up for, where that is wanted."""

_NOT_ANNOTATED = {"paused", "dataset_claims", "cache_claim", "storage_class", "shape"}
"""Fields of a schedule that its CronWorkflow has as ``suspend``, or in its version."""


@dataclass(frozen=True)
class CronWorkflow:
    """A CronWorkflow that Trireme has made, or is to make; the schedule names its version."""

    schedule: Schedule
    manifest: dict[str, Any]

    @property
    def is_enabled(self) -> bool:
        """Whether it runs."""
        return not self.manifest["spec"].get("suspend", False)

    @property
    def content(self) -> dict[str, Any]:
        """What it does, whether it rests or not."""
        return self.manifest["spec"] | {"suspend": None}

    @property
    def facts(self) -> dict[str, Any]:
        """All in which it can differ from another of its name, in a person's words."""
        return self.schedule.facts


def made(schedule: Schedule, workflow: dict[str, Any], *, runs: bool) -> CronWorkflow:
    """Returns the CronWorkflow that a schedule becomes."""
    labels = {PIPELINE: schedule.pipeline}
    if schedule.version != LATEST:
        labels[VERSION] = schedule.version
    annotation = schedule.model_dump(mode="json", exclude=_NOT_ANNOTATED, exclude_none=True)
    described = {
        "apiVersion": "argoproj.io/v1alpha1",
        "kind": "CronWorkflow",
        "metadata": {
            "name": schedule.name,
            "labels": labels,
            "annotations": {ANNOTATION: json.dumps(annotation)},
        },
        "spec": {
            "schedules": [five_fields(schedule.cron)],
            "timezone": schedule.time_zone,
            "when": _when(schedule),
            "concurrencyPolicy": "Forbid" if schedule.concurrency == 1 else "Allow",
            "startingDeadlineSeconds": ALWAYS if schedule.catch_up else None,
            "successfulJobsHistoryLimit": KEPT,
            "failedJobsHistoryLimit": KEPT,
            "suspend": not runs,
            "workflowSpec": workflow,
        },
    }
    checked = models.CronWorkflow.model_validate(described)
    return CronWorkflow(schedule, checked.model_dump(mode="json", by_alias=True, exclude_none=True))


def read(manifest: dict[str, Any]) -> CronWorkflow | None:
    """Returns a CronWorkflow of the cluster; None if Trireme did not make it."""
    annotation = (manifest["metadata"].get("annotations") or {}).get(ANNOTATION)
    if not annotation:
        return None
    try:
        return CronWorkflow(Schedule(**json.loads(annotation)), manifest)
    except (ValueError, TypeError):
        raise InputError(
            f"CronWorkflow {manifest['metadata']['name']}: its annotation {ANNOTATION} cannot be "
            "read; another release of Trireme has made it, or somebody has changed it"
        ) from None


def notes(schedule: Schedule) -> list[str]:
    """Says what Argo cannot do as it was asked for, a sentence each."""
    lines = []
    if schedule.concurrency > 1:
        lines.append(f"concurrency {schedule.concurrency}: Argo runs one at a time or any number")
    if schedule.catch_up:
        lines.append("catch_up: Argo runs only the last of several missed times")
    return lines


def _when(schedule: Schedule) -> str | None:
    """Returns the condition of a run's start, which comes within a minute of its time."""
    conditions = []
    if schedule.starts:
        conditions.append(f"now() >= {_after(schedule.starts)}")
    if schedule.ends:
        conditions.append(f"now() < {_after(schedule.ends)}")
    return f"{{{{={' && '.join(conditions)}}}}}" if conditions else None


def _after(moment: datetime) -> str:
    """Returns the first minute after a moment, in the language of Argo's expressions."""
    minute = moment.astimezone(UTC).replace(second=0) + timedelta(minutes=1)
    return f"date('{minute:%Y-%m-%dT%H:%M:%SZ}')"


_THE_SAME = re.compile(r"\*(/\d+)?|\d+(-\d+)?(,\d+(-\d+)?)*", re.ASCII)
"""Fields that mean the same to everybody."""


def five_fields(text: str) -> str:
    """Returns a cron expression as Argo wants it, as it is wherever that is possible."""
    # Argo parses with robfig/cron 3. There a day has to fit both fields of days where one of them
    # is ``*``, and otherwise either: ``*/2`` is no ``*``. Weekdays are counted from 0 to 6, and the
    # step of a range never leaves it. Argo v4.0's definitions allow no names:
    # https://github.com/robfig/cron/blob/v3.0.1/parser.go
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
                f"cron {text!r}: the day has to match both fields of days, but Argo also runs on "
                "days that match one; set one of them to *"
            )
    at = f"{_field(minutes, cron.minutes)} {_field(hours, cron.hours)}"
    return f"{at} {days} {_field(months, cron.months)} {weekdays}"


def _field(field: str, values: frozenset[int]) -> str:
    return field if _THE_SAME.fullmatch(field) else listed(values)
