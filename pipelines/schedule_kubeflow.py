"""``trireme schedule --target kfp``: what is done about schedules, and how it is shown."""

import sys
from pathlib import Path

from pipelines import cron
from pipelines.console import Console
from pipelines.kubeflow_options import Place
from pipelines.schedules import Schedule
from pipelines.tables import table
from pipelines.targets.kubeflow import images, planning, schedules
from pipelines.targets.kubeflow.planning import Plan

NEXT = 5  # times that are shown


def apply(
    described: list[Schedule],
    images_file: Path | None,
    time_zone: str,
    place: Place,
    *,
    dry_run: bool,
) -> None:
    """Makes, changes or leaves alone schedules; says what before it does it.

    Args:
        described: What is to be there.
        images_file: Which images are used in place of others; ``None`` for none.
        time_zone: That of Kubeflow Pipelines.
        place: Where Kubeflow Pipelines is.
        dry_run: Only say it.

    Raises:
        TriremeError: One of them cannot be there; nothing is changed then, if it can be told.
    """
    zone, pins = cron.zone(time_zone), images.read(images_file)
    orders = [planning.check(schedule, zone, pins) for schedule in described]
    connection = place.connect()
    plans = [planning.plan(connection, order) for order in orders]
    console = Console(sys.stdout)
    for plan in plans:
        _show_plan(plan, console)
    for plan in plans:
        if plan.verb != "unchanged" and not dry_run:
            made = schedules.carry_out(connection, plan)
            console.print(f"{plan.order.schedule.name} {plan.verb}", "bold")
            console.facts({"Id": made.id, "Page": made.page})


def list_all(place: Place) -> None:
    """Lists the schedules that Trireme has made.

    Args:
        place: Where Kubeflow Pipelines is.
    """
    rows = []
    for found in schedules.listing(place.connect()):
        schedule = found.trigger.schedule
        when = f"{schedule.cron} {schedule.time_zone}"
        state = "running" if found.is_enabled else "paused"
        upcoming = (*(_times(schedule, 1) if found.is_enabled else []), "")[0]
        rows.append([schedule.name, schedule.pipeline, when, schedule.version, state, upcoming])
    table(["NAME", "PIPELINE", "CRON", "VERSION", "STATE", "NEXT"], rows)


def show(place: Place, name: str) -> None:
    """Shows a schedule and when it runs next.

    Args:
        place: Where Kubeflow Pipelines is.
        name: Its name.
    """
    console = Console(sys.stdout)
    for found in schedules.find(place.connect(), name):
        console.print(f"{name}: {'running' if found.is_enabled else 'paused'}", "bold")
        facts = {key: planning.shown(value) for key, value in found.trigger.facts.items()}
        console.facts(facts | {"id": found.id, "page": found.page})
        if found.is_enabled:
            _show_times(found.trigger.schedule, console)


def _show_plan(plan: Plan, console: Console) -> None:
    is_there = plan.verb == "unchanged"
    what = "is there already, unchanged" if is_there else f"is to be {plan.verb}"
    rests = "" if plan.runs else ", paused"
    console.print(f"{plan.order.schedule.name} {what}{rests}", "bold")
    for difference in plan.differences:
        console.print(f"  {difference}")
    if plan.runs:
        _show_times(plan.order.schedule, console)


def _show_times(schedule: Schedule, console: Console) -> None:
    console.print(f"  next in {schedule.time_zone}:")
    for time in _times(schedule, NEXT):
        console.print(f"    {time}")


def _times(schedule: Schedule, count: int) -> list[str]:
    return [time.strftime("%a ") + time.isoformat(" ") for time in schedule.next_times(count)]
