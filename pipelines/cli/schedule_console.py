"""``trireme schedule``: what is done about schedules, and how it is shown."""

import sys
from pathlib import Path
from typing import Any

from trireme.pipelines.compiling import images
from trireme.pipelines.console import Console
from trireme.pipelines.schedules.plans import Keeper, Plan, shown
from trireme.pipelines.schedules.schedule import Schedule
from trireme.pipelines.tables import table

NEXT = 5  # times that are shown


def apply(
    keeper: Keeper[Any], described: list[Schedule], images_file: Path | None, *, dry_run: bool
) -> None:
    """Makes, changes or leaves alone schedules; says what before it does it.

    Args:
        keeper: What runs them.
        described: What is to be there.
        images_file: Which images are used in place of others; ``None`` for none.
        dry_run: Only say it.

    Raises:
        TriremeError: One of them cannot be there; nothing is changed then, if it can be told.
    """
    plans = keeper.plan(described, images.read(images_file))
    console = Console(sys.stdout)
    for plan in plans:
        _show_plan(plan, console)
    for plan in plans:
        if plan.verb != "unchanged" and not dry_run:
            where = keeper.carry_out(plan)
            console.print(f"{plan.schedule.name} {plan.verb}", "bold")
            console.facts(where)


def list_all(keeper: Keeper[Any]) -> None:
    """Lists the schedules that Trireme has made.

    Args:
        keeper: What runs them.
    """
    rows = []
    for found in keeper.listing():
        schedule = found.schedule
        when = f"{schedule.cron} {schedule.time_zone}"
        state = "running" if found.is_enabled else "paused"
        upcoming = (*(_times(schedule, 1) if found.is_enabled else []), "")[0]
        rows.append([schedule.name, schedule.pipeline, when, schedule.version, state, upcoming])
    table(["NAME", "PIPELINE", "CRON", "VERSION", "STATE", "NEXT"], rows)


def show(keeper: Keeper[Any], name: str) -> None:
    """Shows a schedule and when it runs next.

    Args:
        keeper: What runs it.
        name: Its name.
    """
    console = Console(sys.stdout)
    for found in keeper.find(name):
        console.print(f"{name}: {'running' if found.is_enabled else 'paused'}", "bold")
        console.facts({key: shown(value) for key, value in found.facts.items()})
        if found.is_enabled:
            _show_times(found.schedule, console)


def _show_plan(plan: Plan, console: Console) -> None:
    is_there = plan.verb == "unchanged"
    what = "is there already, unchanged" if is_there else f"is to be {plan.verb}"
    rests = "" if plan.runs else ", paused"
    console.print(f"{plan.schedule.name} {what}{rests}", "bold")
    for line in plan.differences:
        console.print(f"  {line}")
    for note in plan.notes:
        console.print(f"  note: {note}")
    if plan.runs:
        _show_times(plan.schedule, console)


def _show_times(schedule: Schedule, console: Console) -> None:
    console.print(f"  next in {schedule.time_zone}:")
    for time in _times(schedule, NEXT):
        console.print(f"    {time}")


def _times(schedule: Schedule, count: int) -> list[str]:
    return [time.strftime("%a ") + time.isoformat(" ") for time in schedule.next_times(count)]
