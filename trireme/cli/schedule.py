"""The command line of schedules: ``trireme schedule``."""

import sys
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from typer.core import TyperGroup

from trireme.answers.catalogs import ListedSchedule, ScheduleList
from trireme.cli.lazy import application
from trireme.cli.output import Form, Output, show
from trireme.cli.target import Env, Param, Params, PipelineName, SecretEnv, on_target, variables
from trireme.errors import InputError
from trireme.targets.registry import BUILD, CLUSTERS, SCHEDULE
from trireme.terminal.tables import table
from trireme.text.say import say

if TYPE_CHECKING:
    from datetime import datetime

    from trireme.schedules.plans import Kept, Plan
    from trireme.schedules.schedule import Schedule
    from trireme.targets.base import Target
    from trireme.terminal.console import Console

NEXT = 5  # times that are shown


class _Group(TyperGroup):
    """A group in which the name of a pipeline stands for ``set`` with it."""

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        from trireme.pipeline import catalog

        if args[0] not in self.commands and catalog.is_known(args[0]):
            args = ["set", *args]
        if args[0] not in self.commands:
            raise InputError(
                f"schedule {args[0]}: no such command or pipeline; there are "
                f"{', '.join([*self.commands, *catalog.PIPELINES])}"
            )
        return super().resolve_command(ctx, args)


app = application(
    cls=_Group,
    no_args_is_help=True,
    help="Schedules of pipelines; 'schedule PIPELINE' is short for 'schedule set PIPELINE'.",
)

Name = Annotated[str, typer.Argument(metavar="NAME", help="The schedule's name.")]
File = Annotated[
    Path, typer.Argument(metavar="FILE", help="YAML file with a schedule, or a list of them.")
]
DryRun = Annotated[
    bool,
    typer.Option(
        "--dry-run",
        help="Show the changes, but do not make them; without a cluster, check and show the times.",
    ),
]

on_cluster = on_target(default="kfp", known=CLUSTERS)
on_cluster_to_change = partial(on_target, BUILD, SCHEDULE, default="kfp", known=CLUSTERS)


@app.command(short_help="Create or change the schedules of a file.")
@on_cluster_to_change(loading=["images"])
def apply(
    target: "Target",
    loading: dict[str, Any],
    file: File,
    dry_run: DryRun = False,
) -> None:
    """Create or change the schedules of a file; leave those that do not differ."""
    from trireme.schedules.schedule import Schedule

    _apply(target, Schedule.read_file(file), loading["images"], dry_run=dry_run)


@app.command(short_help="Write the schedules of a file as manifests, for git.")
@on_cluster_to_change(loading=["images"])
def render(
    target: "Target",
    loading: dict[str, Any],
    file: File,
    output: Annotated[
        Path, typer.Option("--output", "-o", metavar="DIR", help="Folder for the files.")
    ] = Path("schedules"),
) -> None:
    """Write the schedules of a file as what apply would create.

    For Argo these are CronWorkflows, and a cluster is asked for versions by name only. For Kubeflow
    Pipelines it is the JSON of recurring runs, with the ids that its server has.
    """
    from trireme.files.whole_file import linked, write_whole
    from trireme.schedules.schedule import Schedule

    described, pins = _described(target, Schedule.read_file(file), loading["images"])
    schedules = target.schedules()
    rendered = [(each, schedules.render(each)) for each in schedules.check(described, pins)]
    for checked, (text, suffix) in rendered:
        path = output / f"{checked.schedule.name}.{suffix}"
        try:
            output.mkdir(parents=True, exist_ok=True)
            write_whole(linked(path), text)
        except OSError as error:
            raise InputError(f"--output {output}: cannot be written: {error}") from None
        typer.echo(path)


@app.command(name="set")
@on_cluster_to_change(loading=("dataset_claims", "cache_claim", "storage_class", "shape", "images"))
def set_schedule(
    target: "Target",
    loading: dict[str, Any],
    pipeline: PipelineName,
    cron: Annotated[str, typer.Option(metavar="CRON", help="When to run, such as '0 3 * * 1-5'.")],
    name: Annotated[str, typer.Option(help="Default: the pipeline's name.")] = "",
    time_zone: Annotated[
        str, typer.Option(metavar="ZONE", help="Time zone of CRON, such as Asia/Shanghai.")
    ] = "UTC",
    param: Param = None,
    params: Params = None,
    env: Env = None,
    secret_env: SecretEnv = None,
    version: Annotated[
        str,
        typer.Option(
            help="pinned: compiled now; latest: the newest at each run; or a version's name."
        ),
    ] = "pinned",
    catch_up: Annotated[
        bool, typer.Option("--catch-up", help="Run all missed times, one after the other.")
    ] = False,
    concurrency: Annotated[int, typer.Option(help="The most runs at once, up to 10.")] = 1,
    paused: Annotated[
        bool | None,
        typer.Option("--paused/--running", help="Default: unchanged; a new schedule runs."),
    ] = None,
    starts: Annotated[
        str, typer.Option(metavar="TIME", help="Only after this time, such as 2027-01-01T00:00.")
    ] = "",
    ends: Annotated[str, typer.Option(metavar="TIME", help="Not after this time.")] = "",
    dry_run: DryRun = False,
) -> None:
    """Create or change one schedule, unless it does not differ."""
    from trireme.pipeline import catalog
    from trireme.schedules.schedule import Schedule

    chosen, images = catalog.load(pipeline), loading.pop("images")
    # The other options of loading are fields of a schedule by the same names.
    described: dict[str, Any] = loading | {
        "name": name or chosen.name,
        "pipeline": pipeline,
        "cron": cron,
        "time_zone": time_zone,
        "params": chosen.given(param or [], params, variables(env, secret_env), target.cluster),
        "version": version,
        "catch_up": catch_up,
        "concurrency": concurrency,
        "paused": paused,
        "starts": starts or None,
        "ends": ends or None,
        "shape": str(loading["shape"] or ""),
    }
    schedule = Schedule.read("schedule", described)
    _apply(target, [schedule], images, dry_run=dry_run)


@app.command(name="list")
@on_cluster
def list_schedules(target: "Target", output: Output = Form.TEXT) -> None:
    """List the schedules that Trireme has created."""
    show(_answer(target, target.schedules().listing()), output, _draw_list)


@app.command(name="show")
@on_cluster
def show_schedule(target: "Target", name: Name, output: Output = Form.TEXT) -> None:
    """Show a schedule and its next times."""
    show(_answer(target, target.schedules().find(name)), output, _draw)


def _answer(target: "Target", kept_schedules: "Sequence[Kept]") -> ScheduleList:
    from trireme.schedules.plans import shown

    return ScheduleList(
        target=target.name,
        schedules=[
            ListedSchedule(
                name=kept.schedule.name,
                pipeline=kept.schedule.pipeline,
                cron=kept.schedule.cron,
                time_zone=kept.schedule.time_zone,
                version=kept.schedule.version,
                is_enabled=kept.is_enabled,
                next=kept.schedule.next_times(NEXT) if kept.is_enabled else [],
                facts={key: shown(value) for key, value in kept.facts.items()},
            )
            for kept in kept_schedules
        ],
    )


def _draw_list(answer: ScheduleList) -> None:
    rows = [
        [
            *(row.name, row.pipeline, f"{row.cron} {row.time_zone}", row.version),
            *(_state(row), next(iter(_in_words(row.next)), "")),
        ]
        for row in answer.schedules
    ]
    table(["NAME", "PIPELINE", "CRON", "VERSION", "STATE", "NEXT"], rows)


def _draw(answer: ScheduleList) -> None:
    from trireme.terminal.console import Console

    console = Console(sys.stdout)
    for schedule in answer.schedules:
        console.heading(f"{schedule.name}: {_state(schedule)}")
        console.facts(schedule.facts)
        if schedule.is_enabled:
            _draw_times(schedule.time_zone, schedule.next, console)


def _state(schedule: ListedSchedule) -> str:
    return "running" if schedule.is_enabled else "paused"


@app.command()
@on_cluster
def pause(target: "Target", name: Name) -> None:
    """Pause a schedule; runs under way continue."""
    target.schedules().pause(name)
    typer.echo(f"{name} is paused")


@app.command()
@on_cluster
def resume(target: "Target", name: Name) -> None:
    """Resume a schedule; if it has missed a time, it runs at once."""
    target.schedules().resume(name)
    typer.echo(f"{name} is running")


@app.command()
@on_cluster
def delete(target: "Target", name: Name) -> None:
    """Delete a schedule; runs that it has started continue."""
    target.schedules().delete(name)
    typer.echo(f"{name} deleted")


def _described(
    target: "Target", described: "list[Schedule]", images_file: Path | None
) -> "tuple[list[Schedule], dict[str, str]]":
    """Returns schedules with their parameters accepted, and the images to use by their names."""
    from trireme.compiling import images
    from trireme.pipeline import catalog

    pipelines = [catalog.load(schedule.pipeline) for schedule in described]
    accepted = [
        each.model_copy(update={"params": pipeline.accept(each.params, target.cluster)})
        for each, pipeline in zip(described, pipelines, strict=True)
    ]
    return accepted, images.read(images_file, pipelines)


def _apply(
    target: "Target", described: "list[Schedule]", images_file: Path | None, *, dry_run: bool
) -> None:
    """Makes, changes or leaves alone schedules; says what before it does it."""
    from trireme.kubernetes.errors import NoCluster, Unavailable
    from trireme.terminal.console import Console

    described, pins = _described(target, described, images_file)
    schedules = target.schedules()
    console = Console(sys.stdout)
    all_checked = schedules.check(described, pins)
    try:
        plans = [schedules.compare(checked) for checked in all_checked]
    except (NoCluster, Unavailable) as error:
        if not dry_run:
            raise
        for checked in all_checked:
            console.heading(f"{checked.schedule.name} can be scheduled")
            _show_what_comes(checked.schedule, checked.notes, console, not checked.schedule.paused)
        say(f"note: not compared with what is there: {error}")
        return
    for plan in plans:
        _show_plan(plan, console)
    for plan in plans:
        if plan.verb != "unchanged" and not dry_run:
            facts = schedules.carry_out(plan)
            console.heading(f"{plan.schedule.name} {plan.verb}")
            console.facts(facts)


def _show_plan(plan: "Plan", console: "Console") -> None:
    is_there = plan.verb == "unchanged"
    verb = "is there already, unchanged" if is_there else f"will be {plan.verb}"
    rests = "" if plan.runs else ", paused"
    console.heading(f"{plan.schedule.name} {verb}{rests}")
    for line in plan.differences:
        console.print(f"  {line}")
    _show_what_comes(plan.schedule, plan.notes, console, plan.runs)


def _show_what_comes(
    schedule: "Schedule", notes: list[str], console: "Console", runs: bool
) -> None:
    for note in notes:
        console.print(f"  note: {note}")
    if runs:
        _draw_times(schedule.time_zone, schedule.next_times(NEXT), console)


def _draw_times(time_zone: str, times: "Sequence[datetime]", console: "Console") -> None:
    console.print(f"  next in {time_zone}:")
    for words in _in_words(times):
        console.print(f"    {words}")


def _in_words(times: "Sequence[datetime]") -> list[str]:
    return [time.strftime("%a ") + time.isoformat(" ") for time in times]
