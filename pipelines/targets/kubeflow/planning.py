"""What is to be done about a schedule on Kubeflow Pipelines, before anything is changed."""

import json
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any
from zoneinfo import ZoneInfo

from components.errors import InputError
from pipelines import catalog
from pipelines.catalog import Pipeline
from pipelines.schedules import LATEST, PINNED, Schedule
from pipelines.targets.kubeflow import (
    compiling,
    experiments,
    images,
    parameters,
    recurring,
    trigger,
    uploading,
)
from pipelines.targets.kubeflow.connection import Connection
from pipelines.targets.kubeflow.recurring import Recurring, Trigger


@dataclass(frozen=True)
class Order:
    """A schedule that can be applied, as far as can be told before the server is asked.

    Attributes:
        schedule: The schedule.
        pipeline: What it runs.
        claims: What all of its pods have mounted.
        cron: The six fields.
        experiment: Name of the experiment that its runs belong to.
    """

    schedule: Schedule
    pipeline: Pipeline
    claims: dict[str, Path]
    cron: str
    experiment: str


@dataclass(frozen=True)
class Plan:
    """What is to be done about a schedule.

    Attributes:
        order: What was asked for.
        wanted: What is to be on the server.
        found: What is there of its name, the oldest first.
        differences: In what it differs from what is there.
        runs: Whether it is to run in the end.
        keep: What is there already as it is to be.
    """

    order: Order
    wanted: Trigger
    found: list[Recurring]
    differences: list[str]
    runs: bool
    keep: Recurring | None

    @property
    def verb(self) -> str:
        """What happens to the schedule: created, changed or unchanged."""
        if not self.found:
            return "created"
        return "changed" if self.differences else "unchanged"


def check(schedule: Schedule, kubeflows: ZoneInfo, pins: dict[str, str]) -> Order:
    """Refuses a schedule that could not work, before anything is asked or created.

    Args:
        schedule: The schedule.
        kubeflows: The time zone of Kubeflow Pipelines.
        pins: Images that are used in place of others.

    Raises:
        InputError: One sentence that says what is wrong.
    """
    if pins and schedule.version != PINNED:
        raise InputError(
            f"schedule {schedule.name}: --images goes with version {PINNED}; "
            f"{schedule.version!r} has the images that it was uploaded with"
        )
    pipeline = images.pinned(catalog.load(schedule.pipeline), pins)
    claims = compiling.mounts(schedule.dataset_claims, schedule.cache_claim)
    given = pipeline.accept(schedule.params)
    arguments = pipeline.complete(given, set(claims))
    parameters.check(arguments)
    if not schedule.next_times(1):
        raise InputError(f"schedule {schedule.name}: it would be over before its first run")
    schedule = schedule.model_copy(update={"params": given})
    return Order(
        schedule,
        pipeline,
        claims,
        trigger.six_fields(schedule.cron, schedule.zone, kubeflows),
        experiments.name_of(pipeline.name, arguments),
    )


def plan(connection: Connection, order: Order) -> Plan:
    """Returns what is to be done about a schedule; nothing is changed.

    Args:
        connection: The server.
        order: What is asked for.

    Raises:
        InputError: There is no such pipeline or version, or one of its name that is not ours.
    """
    wanted = _wanted(connection, order)
    recurring.description(wanted.schedule, paused=True)
    found = recurring.ours(connection, order.schedule.name)
    runs = _runs(order.schedule, found)
    differences = _differences(wanted, found, runs)
    return Plan(order, wanted, found, differences, runs, _fitting(wanted, found))


def _wanted(connection: Connection, order: Order) -> Trigger:
    """Returns what is to be on the server, with the version that it runs.

    Raises:
        InputError: There is no such pipeline or version.
    """
    version = order.schedule.version
    if version == PINNED:
        compiled = uploading.preview(connection, order.pipeline, order.claims)
        schedule = order.schedule.model_copy(update={"version": compiled.name})
        return Trigger(schedule, order.cron, compiled.pipeline_id, compiled.id)
    pipeline_id = uploading.find_pipeline(connection, order.pipeline.name)
    if not pipeline_id:
        raise InputError(
            f"schedule {order.schedule.name}: pipeline {order.pipeline.name} is not at "
            f"{connection.host} yet; 'trireme upload {order.pipeline.name}' brings it there"
        )
    if version == LATEST:
        return Trigger(order.schedule, order.cron, pipeline_id, "")
    version_id = uploading.find_version(connection, pipeline_id, version)
    if not version_id:
        raise InputError(
            f"schedule {order.schedule.name}: {order.pipeline.name} has no version {version!r}; "
            f"say {PINNED}, {LATEST} or the name of one that is there"
        )
    return Trigger(order.schedule, order.cron, pipeline_id, version_id)


def _runs(schedule: Schedule, found: list[Recurring]) -> bool:
    """Returns whether a schedule is to run in the end."""
    if schedule.paused is not None:
        return not schedule.paused
    if not found:
        return True
    return found[0].is_enabled if len(found) == 1 else found[-1].was_to_run


def _fitting(wanted: Trigger, found: list[Recurring]) -> Recurring | None:
    return next((each for each in reversed(found) if each.trigger.facts == wanted.facts), None)


def _differences(wanted: Trigger, found: list[Recurring], runs: bool) -> list[str]:
    """Says in what a schedule differs from what is there."""
    if not found:
        return []
    fitting = _fitting(wanted, found)
    if fitting and len(found) > 1:
        return ["a change that was broken off is finished"]
    there = fitting or found[-1]
    old = there.trigger.facts | {"paused": not there.is_enabled}
    new = wanted.facts | {"paused": not runs}
    changed = [name for name in old | new if old.get(name) != new.get(name)]
    return [f"{name}: {shown(old.get(name))} -> {shown(new.get(name))}" for name in changed]


def shown(value: Any) -> str:
    """Returns one of a schedule's facts for a person.

    Args:
        value: The fact.
    """
    if isinstance(value, datetime):
        return value.isoformat()
    return "unset" if value is None else value if isinstance(value, str) else json.dumps(value)
