"""Recurring runs, which is what Kubeflow Pipelines calls schedules: what is sent, what is read.

A recurring run has no labels, only a description of at most 255 letters. That is where it says that
it is ours and what was asked for, in words for the UI, too.
"""

import re
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any
from zoneinfo import ZoneInfo

from trireme.errors import InputError
from trireme.schedules.schedule import LATEST, Schedule
from trireme.targets.kubeflow import experiments
from trireme.targets.kubeflow.connection import Connection

DESCRIPTION_LIMIT = 255  # letters that Kubeflow Pipelines keeps

SERVICE = "recurring_runs.recurring_run_service_"
"""What the names of all methods about recurring runs begin with."""

_LIST = f"{SERVICE}list_recurring_runs"
_DESCRIPTION = re.compile(
    r"trireme schedule: (?P<pipeline>\S+) at (?P<cron>.+) (?P<time_zone>\S+), "
    r"version (?P<version>.+?)(?P<paused>, paused)?"
)


@dataclass(frozen=True)
class Trigger:
    """What a schedule runs and when; without a version's id it runs the latest."""

    schedule: Schedule
    cron: str
    pipeline_id: str
    version_id: str

    @property
    def facts(self) -> dict[str, Any]:
        """All in which it can differ from another of its name, in a person's words."""
        version = self.version_id or self.pipeline_id or "new"
        facts = self.schedule.facts
        return facts | {
            "version": f"{self.schedule.version} ({version})",
            "cron": f"{facts['cron']} (on Kubeflow {self.cron})",
            "starts": _start(self.schedule),
        }

    def body(
        self, experiment: str, experiment_id: str, *, enabled: bool, in_the_end: bool
    ) -> dict[str, Any]:
        """Returns the recurring run to be made, which may rest until all is done."""
        schedule = self.schedule
        cron = {"cron": self.cron}
        for key, moment in (("start_time", _start(schedule)), ("end_time", schedule.ends)):
            if moment:
                cron[key] = moment.isoformat()
        reference = {"pipeline_id": self.pipeline_id}
        if self.version_id:
            reference["pipeline_version_id"] = self.version_id
        body = {
            "display_name": schedule.name,
            "description": description(schedule, paused=not in_the_end),
            "pipeline_version_reference": reference,
            "runtime_config": {"parameters": schedule.params},
            "trigger": {"cron_schedule": cron},
            "mode": "ENABLE" if enabled else "DISABLE",
            "max_concurrency": str(schedule.concurrency),
            "no_catchup": not schedule.catch_up,
            "experiment_id": experiment_id,
        }
        return body | (experiments.for_mlflow(experiment) if is_for_the_plugin(schedule) else {})


@dataclass(frozen=True)
class Recurring:
    """A recurring run of Trireme's on the server, and whether it was made to run in the end."""

    id: str
    is_enabled: bool
    was_to_run: bool
    trigger: Trigger
    page: str

    @property
    def schedule(self) -> Schedule:
        """What was asked for."""
        return self.trigger.schedule

    @property
    def facts(self) -> dict[str, Any]:
        """All that there is to say of it, in a person's words."""
        return self.trigger.facts | {"id": self.id, "page": self.page}


def is_for_the_plugin(schedule: Schedule) -> bool:
    """Tells whether Kubeflow Pipelines' MLflow plugin can record the runs of a schedule."""
    # 2.17 makes a recurring run that says anything to a plugin without its parameters, if it has a
    # version of its own (CreateJob in backend/src/apiserver/resource/resource_manager.go).
    return schedule.version == LATEST or not schedule.params


def description(schedule: Schedule, *, paused: bool) -> str:
    """Returns what a recurring run says of itself."""
    text = (
        f"trireme schedule: {schedule.pipeline} at {schedule.cron} {schedule.time_zone}, "
        f"version {schedule.version}{', paused' if paused else ''}"
    )
    if len(text) > DESCRIPTION_LIMIT:
        raise InputError(
            f"cron {schedule.cron!r}: with the names of pipeline and version it is longer than the "
            f"{DESCRIPTION_LIMIT} letters that Kubeflow Pipelines keeps"
        )
    return text


def _start(schedule: Schedule) -> datetime | None:
    """Returns when a schedule begins, if that is still to come or it catches up."""
    # Kubeflow Pipelines would otherwise run it at once, for the last time that it has missed.
    starts = schedule.starts
    return starts if starts and (schedule.catch_up or starts > datetime.now(UTC)) else None


def everything(connection: Connection) -> list[Recurring]:
    """Returns all recurring runs that Trireme has made."""
    listed = connection.pages(_LIST, "recurring_runs", **connection.in_namespace())
    return [*filter(None, (read(connection, source) for source in listed))]


def named(connection: Connection, name: str) -> list[Any]:
    """Returns kfp's models of all recurring runs of a name, the oldest first."""
    sources = connection.named(_LIST, "recurring_runs", name)
    return sorted(sources, key=lambda source: str(source.created_at))


def ours(connection: Connection, name: str) -> list[Recurring]:
    """Returns what is there of a schedule, the oldest first."""
    existing = []
    for source in named(connection, name):
        recurring = read(connection, source)
        if recurring is None:
            raise InputError(
                f"schedule {name!r}: a recurring run of that name exists that Trireme did not "
                f"create; choose another name, or see {_page(connection, source)}"
            )
        existing.append(recurring)
    return existing


def read(connection: Connection, source: Any) -> Recurring | None:
    """Returns a recurring run as the server has told it; None if Trireme did not make it."""
    match = _DESCRIPTION.fullmatch(source.description or "")
    if match is None:
        return None
    described: dict[str, Any] = match.groupdict()
    was_paused = described.pop("paused")
    config, zone = source.runtime_config, ZoneInfo(described["time_zone"])
    cron, reference = source.trigger.cron_schedule, source.pipeline_version_reference
    schedule = Schedule.model_construct(
        name=source.display_name,
        params=dict(config.parameters or {}) if config else {},
        catch_up=not source.no_catchup,
        concurrency=int(source.max_concurrency),
        paused=source.status != "ENABLED",
        starts=cron.start_time and cron.start_time.astimezone(zone),
        ends=cron.end_time and cron.end_time.astimezone(zone),
        **described,
    )
    pipeline_id, version_id = reference.pipeline_id or "", reference.pipeline_version_id or ""
    return Recurring(
        id=source.recurring_run_id,
        is_enabled=source.status == "ENABLED",
        was_to_run=not was_paused,
        trigger=Trigger(schedule, cron.cron, pipeline_id, version_id),
        page=_page(connection, source),
    )


def _page(connection: Connection, source: Any) -> str:
    return connection.page(f"/recurringrun/details/{source.recurring_run_id}")
