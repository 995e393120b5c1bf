"""The command line of schedules: ``trireme schedule``."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from typer.core import TyperGroup

from trireme.components.errors import InputError
from trireme.pipelines.cli import argo as argo_cli
from trireme.pipelines.cli.compile import CacheClaim, DatasetClaim, Images
from trireme.pipelines.cli.target import (
    SERVICE_ACCOUNT,
    THERE,
    CaFile,
    Context,
    Endpoint,
    KubeflowTimeZone,
    Namespace,
    Place,
    ServiceAccount,
    There,
    TokenFile,
    check_target,
)

if TYPE_CHECKING:
    from trireme.pipelines.schedules.plans import Keeper


class _Group(TyperGroup):
    """A group in which the name of a pipeline stands for ``set`` with it."""

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        from trireme.pipelines.catalog import PIPELINES

        if args[0] in PIPELINES:
            args = ["set", *args]
        if args[0] not in self.commands:
            raise InputError(
                f"schedule {args[0]}: there is no such command or pipeline; there are "
                f"{', '.join([*self.commands, *PIPELINES])}"
            )
        return super().resolve_command(ctx, args)


app = typer.Typer(
    cls=_Group,
    no_args_is_help=True,
    rich_markup_mode=None,
    help="When pipelines are run; 'schedule PIPELINE' is short for 'schedule set PIPELINE'.",
)

Name = Annotated[str, typer.Argument(metavar="NAME", help="The schedule's name.")]
DryRun = Annotated[bool, typer.Option("--dry-run", help="Show what would change, change nothing.")]


@app.command()
def apply(
    command: typer.Context,
    file: Annotated[Path, typer.Argument(metavar="FILE", help="YAML: a schedule, or a list.")],
    images: Images = None,
    dry_run: DryRun = False,
    target: There = "kfp",
    kubeflow_time_zone: KubeflowTimeZone = "UTC",
    service_account: ServiceAccount = SERVICE_ACCOUNT,
    endpoint: Endpoint = "",
    token_file: TokenFile = "",
    ca_file: CaFile = "",
    namespace: Namespace = "",
    context: Context = "",
) -> None:
    """Make, change or leave alone the schedules that a file describes."""
    place = Place(endpoint, token_file, ca_file, namespace, context)
    keeper = _keeper(command, target, place, kubeflow_time_zone, service_account)
    from trireme.pipelines.cli import schedule_console
    from trireme.pipelines.schedules.schedule import Schedule

    schedule_console.apply(keeper, Schedule.read_file(file), images, dry_run=dry_run)


@app.command(name="set")
def set_schedule(
    command: typer.Context,
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
    target: There = "kfp",
    kubeflow_time_zone: KubeflowTimeZone = "UTC",
    service_account: ServiceAccount = SERVICE_ACCOUNT,
    endpoint: Endpoint = "",
    token_file: TokenFile = "",
    ca_file: CaFile = "",
    namespace: Namespace = "",
    context: Context = "",
) -> None:
    """Make, change or leave alone one schedule."""
    place = Place(endpoint, token_file, ca_file, namespace, context)
    keeper = _keeper(command, target, place, kubeflow_time_zone, service_account)
    from trireme.pipelines import catalog
    from trireme.pipelines.cli import schedule_console
    from trireme.pipelines.schedules.schedule import Schedule

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
    schedule = Schedule.read("schedule", described)
    schedule_console.apply(keeper, [schedule], images, dry_run=dry_run)


@app.command(name="list")
def list_schedules(
    command: typer.Context,
    target: There = "kfp",
    endpoint: Endpoint = "",
    token_file: TokenFile = "",
    ca_file: CaFile = "",
    namespace: Namespace = "",
    context: Context = "",
) -> None:
    """List the schedules that Trireme has made."""
    keeper = _keeper(command, target, Place(endpoint, token_file, ca_file, namespace, context))
    from trireme.pipelines.cli import schedule_console

    schedule_console.list_all(keeper)


@app.command()
def show(
    command: typer.Context,
    name: Name,
    target: There = "kfp",
    endpoint: Endpoint = "",
    token_file: TokenFile = "",
    ca_file: CaFile = "",
    namespace: Namespace = "",
    context: Context = "",
) -> None:
    """Show a schedule, with the next times it runs."""
    keeper = _keeper(command, target, Place(endpoint, token_file, ca_file, namespace, context))
    from trireme.pipelines.cli import schedule_console

    schedule_console.show(keeper, name)


@app.command()
def pause(
    command: typer.Context,
    name: Name,
    target: There = "kfp",
    endpoint: Endpoint = "",
    token_file: TokenFile = "",
    ca_file: CaFile = "",
    namespace: Namespace = "",
    context: Context = "",
) -> None:
    """Have a schedule rest; runs that are under way go on."""
    keeper = _keeper(command, target, Place(endpoint, token_file, ca_file, namespace, context))
    keeper.pause(name)
    typer.echo(f"{name} is paused")


@app.command()
def resume(
    command: typer.Context,
    name: Name,
    target: There = "kfp",
    endpoint: Endpoint = "",
    token_file: TokenFile = "",
    ca_file: CaFile = "",
    namespace: Namespace = "",
    context: Context = "",
) -> None:
    """Have a schedule run again; if it has missed a time, it runs at once."""
    keeper = _keeper(command, target, Place(endpoint, token_file, ca_file, namespace, context))
    keeper.resume(name)
    typer.echo(f"{name} is running")


@app.command()
def delete(
    command: typer.Context,
    name: Name,
    target: There = "kfp",
    endpoint: Endpoint = "",
    token_file: TokenFile = "",
    ca_file: CaFile = "",
    namespace: Namespace = "",
    context: Context = "",
) -> None:
    """Remove a schedule; runs that it has started go on."""
    keeper = _keeper(command, target, Place(endpoint, token_file, ca_file, namespace, context))
    keeper.delete(name)
    typer.echo(f"{name} deleted")


def _keeper(
    command: typer.Context,
    target: str,
    place: Place,
    kubeflow_time_zone: str = "UTC",
    service_account: str = SERVICE_ACCOUNT,
) -> "Keeper[Any]":
    """Returns what keeps the schedules of a target."""
    check_target(command, target, THERE)
    if target == "argo":
        from trireme.pipelines.targets.argo.schedules import ArgoSchedules

        return ArgoSchedules(argo_cli.connected(place.namespace, place.context), service_account)
    from trireme.pipelines.targets.kubeflow.schedules import KubeflowSchedules

    return KubeflowSchedules(place.connect, kubeflow_time_zone)
