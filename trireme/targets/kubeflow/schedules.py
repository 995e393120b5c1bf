"""Schedules on Kubeflow Pipelines: what is there becomes what was asked for.

A recurring run cannot be changed, only paused, resumed and deleted, so one that differs is
replaced: the new one is made at rest, the old one paused, the new one resumed, the old one deleted.
At no moment do both run, though a time that comes while they change places may be run by either, or
by one after the other. Runs that the old one has started go on. As long as there are two, the
change was broken off: applying the schedule again, the same or another, ends with one.
"""

import json
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from trireme.errors import InputError
from trireme.kubernetes.errors import NotFound
from trireme.schedules import cron, plans
from trireme.schedules.schedule import LATEST, PINNED, Schedule
from trireme.targets.kubeflow import (
    compiling,
    experiments,
    parameters,
    recurring,
    trigger,
    uploading,
)
from trireme.targets.kubeflow.client import ORPHAN
from trireme.targets.kubeflow.connection import Connection
from trireme.targets.kubeflow.recurring import SERVICE, Recurring, Trigger, is_for_the_plugin
from trireme.tracking.environment import SECRET

WITHOUT_THE_PLUGIN = (
    f"Kubeflow's MLflow plugin does not record its runs, which would lose their parameters; the "
    f"Secret {SECRET} does, and the plugin with version {LATEST}"
)


@dataclass(frozen=True)
class CheckedSchedule(plans.CheckedSchedule):
    """A schedule that can be applied, as far as can be told before the server is asked."""

    cron: str
    experiment: str


@dataclass(frozen=True)
class Plan(plans.Plan):
    """What is to be done about a schedule; ``keep`` is there already as it is to be."""

    found: list[Recurring]
    checked: CheckedSchedule
    wanted: Trigger
    keep: Recurring | None


class KubeflowSchedules(plans.Schedules[CheckedSchedule, Plan, Recurring]):
    """The schedules of a Kubeflow Pipelines; see ``schedules.plans``."""

    def __init__(self, connect: Callable[[], Connection], time_zone: str = "UTC") -> None:
        """Takes in where they are; nothing is asked yet."""
        self._connect = connect
        self._zone = cron.zone(time_zone)

    @cached_property
    def connection(self) -> Connection:
        """The server."""
        return self._connect()

    @property
    def place(self) -> str:
        return f"at {self.connection.host}"

    def check(self, described: list[Schedule], pins: dict[str, str]) -> list[CheckedSchedule]:
        return [self._check(schedule, pins) for schedule in described]

    def compare(self, checked: CheckedSchedule) -> Plan:
        desired = _desired(self.connection, checked)
        recurring.description(desired.schedule, paused=True)
        existing = self.named(checked.schedule.name)
        if checked.schedule.paused is not None:
            runs = not checked.schedule.paused
        elif len(existing) > 1:
            runs = existing[-1].was_to_run
        else:
            runs = all(recurring_run.is_enabled for recurring_run in existing)
        return Plan(
            checked.schedule,
            existing,
            _differences(desired, existing, runs),
            runs,
            checked,
            desired,
            _fitting(desired, existing),
            notes=checked.notes,
        )

    def render(self, checked: CheckedSchedule) -> tuple[str, str]:
        """Returns the request's JSON; the ids in it are those of the server, which has all."""
        connection, name = self.connection, checked.schedule.name
        desired = _desired(connection, checked)
        if checked.schedule.version == PINNED and not desired.version_id:
            raise InputError(
                f"schedule {name}: version {desired.schedule.version} of {checked.pipeline.name} "
                f"is not at {connection.host} yet; "
                f"'trireme upload {checked.pipeline.name}' uploads it"
            )
        experiment_id = experiments.find(connection, checked.experiment)
        if not experiment_id:
            raise InputError(
                f"schedule {name}: experiment {checked.experiment!r} is not at {connection.host} "
                f"yet; it is created by a first run or schedule, or in Kubeflow's UI"
            )
        body = _body(checked, desired, experiment_id, runs=not checked.schedule.paused)
        return json.dumps(body, indent=2) + "\n", "json"

    def carry_out(self, plan: Plan) -> dict[str, Any]:
        keep = plan.keep or _create(self.connection, plan)
        others = [recurring_run for recurring_run in plan.found if recurring_run.id != keep.id]
        for other in others:
            if other.is_enabled:
                self.enable(other, False)
        if keep.is_enabled != plan.runs:
            self.enable(keep, plan.runs)
        for other in others:
            self.remove(other)
        return {"Id": keep.id, "Page": keep.page}

    def everything(self) -> list[Recurring]:
        return recurring.everything(self.connection)

    def named(self, name: str) -> list[Recurring]:
        """Returns what is there of a schedule, the oldest first: several in a change broken off."""
        return recurring.ours(self.connection, name)

    def enable(self, kept: Recurring, enabled: bool) -> None:
        verb = "enable" if enabled else "disable"
        self.connection.ask(f"{SERVICE}{verb}_recurring_run", recurring_run_id=kept.id)

    def remove(self, kept: Recurring) -> None:
        """Removes a recurring run alone: it owns the Workflows of its runs, which stay."""
        with suppress(NotFound):  # by somebody else, or by a request whose answer was lost
            self.connection.ask(
                f"{SERVICE}delete_recurring_run",
                recurring_run_id=kept.id,
                propagation_policy=ORPHAN,
            )

    def _check(self, schedule: Schedule, pins: dict[str, str]) -> CheckedSchedule:
        """Refuses a schedule that could not work, before anything is asked or created."""
        checked = plans.check(schedule, pins)
        parameters.check(checked.arguments)
        if schedule.version == PINNED:
            compiling.check(checked.pipeline.graph)
        is_recorded = is_for_the_plugin(checked.schedule)
        return CheckedSchedule(
            **vars(checked) | {"notes": [] if is_recorded else [WITHOUT_THE_PLUGIN]},
            cron=trigger.six_fields(schedule.cron, schedule.zone, self._zone),
            experiment=experiments.experiment_name(checked.pipeline.name, checked.arguments),
        )


def _desired(connection: Connection, checked: CheckedSchedule) -> Trigger:
    """Returns what is to be on the server, with the version that it runs."""
    version = checked.schedule.version
    if version == PINNED:
        compiled = uploading.preview(connection, checked.pipeline)
        schedule = checked.schedule.model_copy(update={"version": compiled.name})
        return Trigger(schedule, checked.cron, compiled.pipeline_id, compiled.id)
    pipeline_id = uploading.find_pipeline(connection, checked.pipeline.name)
    if not pipeline_id:
        raise InputError(
            f"schedule {checked.schedule.name}: pipeline {checked.pipeline.name} is not at "
            f"{connection.host} yet; 'trireme upload {checked.pipeline.name}' uploads it"
        )
    if version == LATEST:
        return Trigger(checked.schedule, checked.cron, pipeline_id, "")
    version_id = uploading.find_version(connection, pipeline_id, version)
    if not version_id:
        raise InputError(
            f"schedule {checked.schedule.name}: {checked.pipeline.name} has no version "
            f"{version!r}; give {PINNED}, {LATEST} or the name of an uploaded version"
        )
    return Trigger(checked.schedule, checked.cron, pipeline_id, version_id)


def _fitting(desired: Trigger, existing: list[Recurring]) -> Recurring | None:
    return next((run for run in reversed(existing) if run.trigger.facts == desired.facts), None)


def _differences(desired: Trigger, existing: list[Recurring], runs: bool) -> list[str]:
    """Says in what a schedule differs from what is current."""
    if not existing:
        return []
    fitting = _fitting(desired, existing)
    if fitting and len(existing) > 1:
        return ["an interrupted change is completed"]
    current = fitting or existing[-1]
    old = current.trigger.facts | {"paused": not current.is_enabled}
    new = desired.facts | {"paused": not runs}
    return plans.differences(old, new)


def _body(
    checked: CheckedSchedule,
    desired: Trigger,
    experiment_id: str,
    *,
    runs: bool,
    at_rest: bool = False,
) -> dict[str, Any]:
    """Returns the recurring run that is asked for, at rest as long as another of its name runs."""
    return desired.body(
        checked.experiment, experiment_id, enabled=runs and not at_rest, in_the_end=runs
    )


def _create(connection: Connection, plan: Plan) -> Recurring:
    desired, checked = plan.wanted, plan.checked
    if checked.schedule.version == PINNED and not desired.version_id:
        version = uploading.upload(connection, checked.pipeline)
        schedule = desired.schedule.model_copy(update={"version": version.name})
        desired = Trigger(schedule, desired.cron, version.pipeline_id, version.id)
    experiment_id = experiments.ensure(connection, checked.experiment)
    body = _body(checked, desired, experiment_id, runs=plan.runs, at_rest=bool(plan.found))
    known_ids = {schedule.id for schedule in plan.found}

    def made_all_the_same() -> Any:
        sources = recurring.named(connection, checked.schedule.name)
        new = (source for source in sources if source.recurring_run_id not in known_ids)
        return next((source for source in new if recurring.read(connection, source)), None)

    source = connection.ask(
        f"{SERVICE}create_recurring_run", recurring_run=body, happened=made_all_the_same
    )
    created = recurring.read(connection, source)
    assert created
    return created
