"""Schedules on Kubeflow Pipelines: what is there becomes what was asked for.

A recurring run cannot be changed, only paused, resumed and deleted, so one that differs is
replaced: the new one is made at rest, the old one paused, the new one resumed, the old one deleted.
At no moment do both run, though a time that comes while they change places may be run by either, or
by one after the other. Runs that the old one has started go on. As long as there are two, the
change was broken off: applying the schedule again, the same or another, ends with one.
"""

from collections.abc import Callable
from contextlib import suppress
from functools import cached_property
from typing import Any

import kfp_server_api

from trireme.components.errors import InputError
from trireme.pipelines.schedules.schedule import PINNED, Schedule, cron
from trireme.pipelines.targets.kubeflow import experiments, planning, recurring, uploading
from trireme.pipelines.targets.kubeflow.connection import Connection
from trireme.pipelines.targets.kubeflow.planning import Plan
from trireme.pipelines.targets.kubeflow.recurring import SERVICE, Recurring, Trigger
from trireme.pipelines.targets.kubeflow.refusals import NotFound


class KubeflowSchedules:
    """The schedules of a Kubeflow Pipelines; see ``schedules.plans``."""

    def __init__(self, connect: Callable[[], Connection], time_zone: str = "UTC") -> None:
        """Takes in where they are; nothing is asked yet."""
        self._connect = connect
        self._zone = cron.zone(time_zone)

    @cached_property
    def connection(self) -> Connection:
        """The server."""
        return self._connect()

    def plan(self, described: list[Schedule], pins: dict[str, str]) -> list[Plan]:
        """Returns what is to be done about schedules; nothing is changed."""
        orders = [planning.check(schedule, self._zone, pins) for schedule in described]
        return [planning.plan(self.connection, order) for order in orders]

    def carry_out(self, plan: Plan) -> dict[str, Any]:
        """Does what is to be done; returns how to find what is on the server then."""
        keep = plan.keep or _create(self.connection, plan)
        others = [each for each in plan.found if each.id != keep.id]
        for other in others:
            if other.is_enabled:
                _enable(self.connection, other, False)
        if keep.is_enabled != plan.runs:
            _enable(self.connection, keep, plan.runs)
        for other in others:
            _delete(self.connection, other)
        return {"Id": keep.id, "Page": keep.page}

    def listing(self) -> list[Recurring]:
        """Returns all schedules that Trireme has made, by name."""
        return sorted(recurring.everything(self.connection), key=lambda each: each.schedule.name)

    def find(self, name: str) -> list[Recurring]:
        """Returns what is there of a schedule, the oldest first: several in a change broken off."""
        if not (found := recurring.ours(self.connection, name)):
            raise InputError(
                f"there is no schedule {name!r} at {self.connection.host}; 'trireme schedule "
                "list' shows those there are"
            )
        return found

    def pause(self, name: str) -> None:
        """Has a schedule rest."""
        for each in self.find(name):
            _enable(self.connection, each, False)

    def resume(self, name: str) -> None:
        """Has a schedule run again."""
        found = self.find(name)
        if len(found) > 1:
            raise InputError(f"schedule {name!r}: a change of it was broken off; apply it again")
        _enable(self.connection, found[0], True)

    def delete(self, name: str) -> None:
        """Removes a schedule; its runs stay."""
        for each in self.find(name):
            _delete(self.connection, each)


def _create(connection: Connection, plan: Plan) -> Recurring:
    wanted, order = plan.wanted, plan.order
    if order.schedule.version == PINNED and not wanted.version_id:
        version = uploading.upload(connection, order.pipeline)
        schedule = wanted.schedule.model_copy(update={"version": version.name})
        wanted = Trigger(schedule, wanted.cron, version.pipeline_id, version.id)
    body = wanted.body(
        order.experiment,
        experiments.ensure(connection, order.experiment),
        enabled=plan.runs and not plan.found,
        in_the_end=plan.runs,
    )
    known = {each.id for each in plan.found}

    def made_all_the_same() -> Any:
        named = recurring.named(connection, order.schedule.name)
        new = (each for each in named if each.recurring_run_id not in known)
        return next((each for each in new if recurring.is_ours(each)), None)

    made = connection.ask(
        f"{SERVICE}create_recurring_run", recurring_run=body, happened=made_all_the_same
    )
    return recurring.read(connection, made)


def _enable(connection: Connection, found: Recurring, enabled: bool) -> None:
    verb = "enable" if enabled else "disable"
    connection.ask(f"{SERVICE}{verb}_recurring_run", recurring_run_id=found.id)


def _delete(connection: Connection, found: Recurring) -> None:
    """Deletes a recurring run alone: it owns the Workflows of its runs, which would go with it."""
    with suppress(NotFound):  # by somebody else, or by a request whose answer was lost
        connection.ask(
            f"{SERVICE}delete_recurring_run",
            recurring_run_id=found.id,
            propagation_policy=kfp_server_api.V2beta1DeletePropagationPolicy.ORPHAN,
        )
