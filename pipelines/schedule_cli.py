"""The command line of schedules: ``trireme schedule``."""

from pathlib import Path
from typing import Annotated, Any

import typer
from typer.core import TyperGroup

from components.errors import InputError
from pipelines.kubeflow_options import CaFile, Context, Endpoint, Namespace, Place, TokenFile
from pipelines.upload_cli import CacheClaim, DatasetClaim, Images

TARGETS = ("kfp",)


class _Group(TyperGroup):
    """A group in which the name of a pipeline stands for ``set`` with it."""

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        from pipelines.catalog import PIPELINES

        return super().resolve_command(ctx, ["set", *args] if args[0] in PIPELINES else args)


app = typer.Typer(
    cls=_Group,
    no_args_is_help=True,
    rich_markup_mode=None,
    help="When pipelines are run; 'schedule PIPELINE' is short for 'schedule set PIPELINE'.",
)

Target = Annotated[str, typer.Option(metavar="TARGET", help="kfp: Kubeflow Pipelines.")]
Name = Annotated[str, typer.Argument(metavar="NAME", help="The schedule's name.")]
DryRun = Annotated[bool, typer.Option("--dry-run", help="Show what would change, change nothing.")]
KubeflowTimeZone = Annotated[
    str,
    typer.Option(
        metavar="ZONE",
        envvar="KFP_TIME_ZONE",
        help="CRON_SCHEDULE_TIMEZONE of Kubeflow's controller of schedules.",
    ),
]


@app.command()
def apply(
    file: Annotated[Path, typer.Argument(metavar="FILE", help="YAML: a schedule, or a list.")],
    images: Images = None,
    dry_run: DryRun = False,
    target: Target = "kfp",
    kubeflow_time_zone: KubeflowTimeZone = "UTC",
    endpoint: Endpoint = "",
    token_file: TokenFile = "",
    ca_file: CaFile = "",
    namespace: Namespace = "",
    context: Context = "",
) -> None:
    """Make, change or leave alone the schedules that a file describes."""
    _check_target(target)
    from pipelines import schedule_kubeflow
    from pipelines.schedules import Schedule

    place = Place(endpoint, token_file, ca_file, namespace, context)
    described = Schedule.read_file(file)
    schedule_kubeflow.apply(described, images, kubeflow_time_zone, place, dry_run=dry_run)


@app.command(name="set")
def set_schedule(
    pipeline: Annotated[str, typer.Argument(metavar="PIPELINE", help="What is to run.")],
    cron: Annotated[str, typer.Option(metavar="CRON", help="When, as in '0 3 * * 1-5'.")],
    name: Annotated[str, typer.Option(help="Default: the pipeline's name.")] = "",
    time_zone: Annotated[
        str, typer.Option(metavar="ZONE", help="Where these hours are, as in Asia/Shanghai.")
    ] = "UTC",
    param: Annotated[
        list[str] | None,
        typer.Option("--param", "-p", metavar="NAME=VALUE", help="A parameter; repeatable."),
    ] = None,
    params: Annotated[
        Path | None, typer.Option(metavar="FILE", help="YAML file of parameters; -p wins.")
    ] = None,
    version: Annotated[
        str,
        typer.Option(help="pinned: as compiled now; latest: at each run; or a version's name."),
    ] = "pinned",
    catch_up: Annotated[
        bool, typer.Option("--catch-up", help="Run what was missed, one after the other.")
    ] = False,
    concurrency: Annotated[int, typer.Option(help="Runs at once, at most 10.")] = 1,
    paused: Annotated[
        bool | None, typer.Option("--paused/--running", help="Default: as it is; a new one runs.")
    ] = None,
    starts: Annotated[str, typer.Option(metavar="TIME", help="As in 2027-01-01T00:00.")] = "",
    ends: Annotated[str, typer.Option(metavar="TIME", help="Likewise.")] = "",
    dataset_claim: DatasetClaim = None,
    cache_claim: CacheClaim = "",
    images: Images = None,
    dry_run: DryRun = False,
    target: Target = "kfp",
    kubeflow_time_zone: KubeflowTimeZone = "UTC",
    endpoint: Endpoint = "",
    token_file: TokenFile = "",
    ca_file: CaFile = "",
    namespace: Namespace = "",
    context: Context = "",
) -> None:
    """Make, change or leave alone one schedule."""
    _check_target(target)
    from pipelines import catalog, schedule_kubeflow
    from pipelines.schedules import Schedule

    described: dict[str, Any] = {
        "name": name or pipeline,
        "pipeline": pipeline,
        "cron": cron,
        "time_zone": time_zone,
        "params": catalog.load(pipeline).given(param or [], params),
        "version": version,
        "catch_up": catch_up,
        "concurrency": concurrency,
        "paused": paused,
        "starts": starts or None,
        "ends": ends or None,
        "dataset_claims": dataset_claim or [],
        "cache_claim": cache_claim,
    }
    place = Place(endpoint, token_file, ca_file, namespace, context)
    schedule = Schedule.read("schedule", described)
    schedule_kubeflow.apply([schedule], images, kubeflow_time_zone, place, dry_run=dry_run)


@app.command(name="list")
def list_schedules(
    target: Target = "kfp",
    endpoint: Endpoint = "",
    token_file: TokenFile = "",
    ca_file: CaFile = "",
    namespace: Namespace = "",
    context: Context = "",
) -> None:
    """List the schedules that Trireme has made."""
    _check_target(target)
    from pipelines import schedule_kubeflow

    schedule_kubeflow.list_all(Place(endpoint, token_file, ca_file, namespace, context))


@app.command()
def show(
    name: Name,
    target: Target = "kfp",
    endpoint: Endpoint = "",
    token_file: TokenFile = "",
    ca_file: CaFile = "",
    namespace: Namespace = "",
    context: Context = "",
) -> None:
    """Show a schedule, with the next times it runs."""
    _check_target(target)
    from pipelines import schedule_kubeflow

    schedule_kubeflow.show(Place(endpoint, token_file, ca_file, namespace, context), name)


@app.command()
def pause(
    name: Name,
    target: Target = "kfp",
    endpoint: Endpoint = "",
    token_file: TokenFile = "",
    ca_file: CaFile = "",
    namespace: Namespace = "",
    context: Context = "",
) -> None:
    """Have a schedule rest; runs that are under way go on."""
    _check_target(target)
    from pipelines.targets.kubeflow import schedules

    schedules.pause(Place(endpoint, token_file, ca_file, namespace, context).connect(), name)
    typer.echo(f"{name} is paused")


@app.command()
def resume(
    name: Name,
    target: Target = "kfp",
    endpoint: Endpoint = "",
    token_file: TokenFile = "",
    ca_file: CaFile = "",
    namespace: Namespace = "",
    context: Context = "",
) -> None:
    """Have a schedule run again; if it has missed a time, it runs at once."""
    _check_target(target)
    from pipelines.targets.kubeflow import schedules

    schedules.resume(Place(endpoint, token_file, ca_file, namespace, context).connect(), name)
    typer.echo(f"{name} is running")


@app.command()
def delete(
    name: Name,
    target: Target = "kfp",
    endpoint: Endpoint = "",
    token_file: TokenFile = "",
    ca_file: CaFile = "",
    namespace: Namespace = "",
    context: Context = "",
) -> None:
    """Remove a schedule; runs that it has started stay."""
    _check_target(target)
    from pipelines.targets.kubeflow import schedules

    schedules.delete(Place(endpoint, token_file, ca_file, namespace, context).connect(), name)
    typer.echo(f"{name} deleted")


def _check_target(target: str) -> None:
    if target not in TARGETS:
        raise InputError(f"--target {target!r}: schedules can be on {', '.join(TARGETS)}")
