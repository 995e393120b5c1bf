"""What is to be done about a schedule on Kubeflow Pipelines, before anything is changed."""

from dataclasses import dataclass
from zoneinfo import ZoneInfo

from trireme.components.errors import InputError
from trireme.components.tracking.environment import SECRET
from trireme.pipelines.schedules import plans as schedule_plans
from trireme.pipelines.schedules.schedule import LATEST, PINNED, Schedule
from trireme.pipelines.targets.kubeflow import (
    experiments,
    parameters,
    recurring,
    trigger,
    uploading,
)
from trireme.pipelines.targets.kubeflow.connection import Connection
from trireme.pipelines.targets.kubeflow.recurring import Recurring, Trigger

WITHOUT_THE_PLUGIN = (
    f"Kubeflow's MLflow plugin does not record its runs, which would lose their parameters; the "
    f"Secret {SECRET} does, and the plugin with version {LATEST}"
)


@dataclass(frozen=True)
class Order(schedule_plans.Order):
    """A schedule that can be applied, as far as can be told before the server is asked."""

    cron: str
    experiment: str


@dataclass(frozen=True)
class Plan(schedule_plans.Plan):
    """What is to be done about a schedule.

    Attributes:
        found: What is there of its name, the oldest first.
        keep: What is there already as it is to be.
    """

    order: Order
    wanted: Trigger
    found: list[Recurring]
    keep: Recurring | None


def check(schedule: Schedule, kubeflows: ZoneInfo, pins: dict[str, str]) -> Order:
    """Refuses a schedule that could not work, before anything is asked or created."""
    order = schedule_plans.check(schedule, pins)
    parameters.check(order.arguments)
    return Order(
        **vars(order),
        cron=trigger.six_fields(schedule.cron, schedule.zone, kubeflows),
        experiment=experiments.name_of(order.pipeline.name, order.arguments),
    )


def plan(connection: Connection, order: Order) -> Plan:
    """Returns what is to be done about a schedule; nothing is changed."""
    wanted = _wanted(connection, order)
    recurring.description(wanted.schedule, paused=True)
    found = recurring.ours(connection, order.schedule.name)
    runs = _runs(order.schedule, found)
    differences = _differences(wanted, found, runs)
    return Plan(
        order.schedule,
        bool(found),
        differences,
        runs,
        order,
        wanted,
        found,
        _fitting(wanted, found),
        notes=[] if wanted.is_for_the_plugin else [WITHOUT_THE_PLUGIN],
    )


def _wanted(connection: Connection, order: Order) -> Trigger:
    """Returns what is to be on the server, with the version that it runs."""
    version = order.schedule.version
    if version == PINNED:
        compiled = uploading.preview(connection, order.pipeline)
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
    return schedule_plans.differences(old, new)
