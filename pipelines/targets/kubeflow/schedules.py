"""Schedules on Kubeflow Pipelines: what is there becomes what was asked for.

A recurring run cannot be changed, only paused, resumed and deleted, so one that differs is
replaced: the new one is made at rest, the old one paused, the new one resumed, the old one deleted.
At no moment do both run, though a time that comes while they change places may be run by either, or
by one after the other. As long as there are two, the change was broken off: applying the schedule
again, the same or another, ends with one.
"""

from contextlib import suppress
from typing import Any

from components.errors import InputError
from pipelines.schedules import PINNED
from pipelines.targets.kubeflow import experiments, recurring, uploading
from pipelines.targets.kubeflow.connection import Connection
from pipelines.targets.kubeflow.planning import Plan
from pipelines.targets.kubeflow.recurring import SERVICE, Recurring, Trigger
from pipelines.targets.kubeflow.refusals import NotFound


def carry_out(connection: Connection, plan: Plan) -> Recurring:
    """Does what is to be done; returns what is on the server then.

    Args:
        connection: The server.
        plan: What is to be done.

    Raises:
        Refused: The server does not take it; see ``pipelines.targets.kubeflow.refusals``.
        Unavailable: The server does not answer.
    """
    keep = plan.keep or _create(connection, plan)
    others = [each for each in plan.found if each.id != keep.id]
    for other in others:
        if other.is_enabled:
            _enable(connection, other, False)
    if keep.is_enabled != plan.runs:
        _enable(connection, keep, plan.runs)
    for other in others:
        _delete(connection, other)
    return keep


def listing(connection: Connection) -> list[Recurring]:
    """Returns all schedules that Trireme has made, by name."""
    return sorted(recurring.everything(connection), key=lambda each: each.trigger.schedule.name)


def find(connection: Connection, name: str) -> list[Recurring]:
    """Returns what is there of a schedule, the oldest first: more than one in a change broken off.

    Args:
        connection: The server.
        name: The schedule's name.

    Raises:
        InputError: There is none, or one that Trireme did not make.
    """
    if not (found := recurring.ours(connection, name)):
        raise InputError(
            f"there is no schedule {name!r} at {connection.host}; 'trireme schedule list' shows "
            "those there are"
        )
    return found


def pause(connection: Connection, name: str) -> None:
    """Has a schedule rest.

    Args:
        connection: The server.
        name: Its name.

    Raises:
        InputError: As in ``find``.
    """
    for each in find(connection, name):
        _enable(connection, each, False)


def resume(connection: Connection, name: str) -> None:
    """Has a schedule run again.

    Args:
        connection: The server.
        name: Its name.

    Raises:
        InputError: As in ``find``, or a change of it was broken off.
    """
    found = find(connection, name)
    if len(found) > 1:
        raise InputError(f"schedule {name!r}: a change of it was broken off; apply it again")
    _enable(connection, found[0], True)


def delete(connection: Connection, name: str) -> None:
    """Removes a schedule; its runs stay.

    Args:
        connection: The server.
        name: Its name.

    Raises:
        InputError: As in ``find``.
    """
    for each in find(connection, name):
        _delete(connection, each)


def _create(connection: Connection, plan: Plan) -> Recurring:
    wanted, order = plan.wanted, plan.order
    if order.schedule.version == PINNED and not wanted.version_id:
        version = uploading.upload(connection, order.pipeline, order.claims)
        schedule = wanted.schedule.model_copy(update={"version": version.name})
        wanted = Trigger(schedule, wanted.cron, version.pipeline_id, version.id)
    body = wanted.body(
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
    with suppress(NotFound):  # by somebody else, or by a request whose answer was lost
        connection.ask(f"{SERVICE}delete_recurring_run", recurring_run_id=found.id)
