"""The command line: ``trireme``."""

import io
import os
import shlex
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from trireme.components import extras
from trireme.components.errors import InputError, TriremeError
from trireme.components.say import say
from trireme.pipelines.cli import argo as argo_cli
from trireme.pipelines.cli import compile as upload_cli
from trireme.pipelines.cli import dataset as dataset_cli
from trireme.pipelines.cli import deploy as deploy_cli
from trireme.pipelines.cli import job as job_cli
from trireme.pipelines.cli import plan as plan_cli
from trireme.pipelines.cli import registry as registry_cli
from trireme.pipelines.cli import reproduce as reproduce_cli
from trireme.pipelines.cli import runs as runs_cli
from trireme.pipelines.cli import schedule as schedule_cli
from trireme.pipelines.cli import serve as serve_cli
from trireme.pipelines.cli.compile import CacheClaim, DatasetClaim, Images, Parallelism
from trireme.pipelines.cli.target import (
    SERVICE_ACCOUNT,
    CaFile,
    Context,
    Endpoint,
    Namespace,
    Place,
    ServiceAccount,
    Target,
    TokenFile,
    check_target,
)

if TYPE_CHECKING:
    from trireme.pipelines.catalog import Pipeline
    from trireme.pipelines.console import Console
    from trireme.pipelines.targets.local.target import Result

app = typer.Typer(
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,  # halves the time that --help takes
)

job_cli.app.command(name="plan")(plan_cli.plan_job)
app.add_typer(job_cli.app, name="job")
app.add_typer(dataset_cli.app, name="dataset")
app.add_typer(schedule_cli.app, name="schedule")
app.command()(upload_cli.compile)
app.command()(upload_cli.upload)
app.command()(plan_cli.plan)
app.command(name="list")(runs_cli.list_runs)
app.command()(runs_cli.status)
app.command()(runs_cli.logs)
app.command()(runs_cli.cancel)
app.command()(runs_cli.retry)
app.command()(registry_cli.promote)
app.command()(registry_cli.rollback)
app.command()(reproduce_cli.reproduce)
app.command()(serve_cli.serve)
app.command()(deploy_cli.deploy)


PipelineName = Annotated[
    str | None,
    typer.Argument(metavar="PIPELINE", help="Name of a pipeline, see 'trireme pipelines'."),
]


def _version(is_asked: bool) -> None:
    if is_asked:
        from importlib.metadata import version

        typer.echo(version("trireme"))
        raise typer.Exit


@app.callback()
def trireme(
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Show it and exit.")
    ] = False,
) -> None:
    """Distributed deep-learning training as pipelines."""


@app.command(add_help_option=False)
def run(
    context: typer.Context,
    pipeline: PipelineName = None,
    param: Annotated[
        list[str] | None,
        typer.Option("--param", "-p", metavar="NAME=VALUE", help="A parameter; repeatable."),
    ] = None,
    params: Annotated[
        Path | None, typer.Option(metavar="FILE", help="YAML file of parameters; -p wins.")
    ] = None,
    verbose: Annotated[
        bool, typer.Option("--verbose", "-v", help="Show every line of every step and replica.")
    ] = False,
    target: Target = "local",
    no_wait: Annotated[
        bool, typer.Option("--no-wait", help="On a cluster: start it and return at once.")
    ] = False,
    dataset_claim: DatasetClaim = None,
    cache_claim: CacheClaim = "",
    images: Images = None,
    parallelism: Parallelism = None,
    endpoint: Endpoint = "",
    token_file: TokenFile = "",
    ca_file: CaFile = "",
    namespace: Namespace = "",
    kube_context: Context = "",
    service_account: ServiceAccount = SERVICE_ACCOUNT,
    wants_help: Annotated[
        bool, typer.Option("--help", help="Show this, or a pipeline's parameters, and exit.")
    ] = False,
) -> None:
    """Run a pipeline on this machine or, with --target kfp or argo, on a cluster."""
    if wants_help:
        typer.echo(_parameters_help(pipeline) if pipeline else context.get_help())
        raise typer.Exit
    if pipeline is None:
        from trireme.pipelines.catalog import PIPELINES

        raise InputError(f"PIPELINE: name one of {', '.join(PIPELINES)}")

    check_target(context, target)

    from trireme.pipelines.console import Console

    console = Console(sys.stdout, verbose)
    with console.waiting(f"loading {pipeline}"):  # kfp, for the most part
        from trireme.pipelines import catalog

        chosen = catalog.load(pipeline)
    if target != "local":
        from trireme.pipelines.compiling import ir
        from trireme.pipelines.compiling.images import pinned, read
        from trireme.pipelines.compiling.loops import limited

        chosen = limited(pinned(chosen, read(images)), parallelism)
        claims = ir.mounts(dataset_claim or [], cache_claim)
        arguments = chosen.arguments(param or [], params, set(claims))
    if target == "argo":
        cluster = argo_cli.connected(namespace, kube_context, stays=not no_wait)
        raise typer.Exit(
            argo_cli.run(
                chosen, arguments, cluster, claims, service_account, console, wait=not no_wait
            )
        )
    if target == "kfp":
        from trireme.pipelines.targets.kubeflow import running as run_kubeflow

        place = Place(endpoint, token_file, ca_file, namespace, kube_context)
        raise typer.Exit(
            run_kubeflow.run(chosen, arguments, claims, place, console, wait=not no_wait)
        )
    arguments = chosen.arguments(param or [], params)

    from trireme.pipelines.targets.local import target as local

    result = local.run(chosen, arguments, console)
    _show(result, console)
    raise typer.Exit(result.exit_status)


@app.command(name="pipelines")
def list_pipelines() -> None:
    """List the pipelines there are."""
    from trireme.pipelines.catalog import PIPELINES

    for name, description in PIPELINES.items():
        typer.echo(f"{name}  {description}")


@app.command()
def ui(
    port: Annotated[
        int | None, typer.Option(min=1, max=65535, help="Port on 127.0.0.1, default 5000.")
    ] = None,
) -> None:
    """Open MLflow's UI on the runs recorded here."""
    from trireme.components.deployment.serving import check_port
    from trireme.components.home import home
    from trireme.components.tracking.store import TRAINING, UI_PORT, default_uri, must_work, public

    uri = os.environ.get("MLFLOW_TRACKING_URI") or default_uri(home())
    if uri.startswith(("http://", "https://")):
        typer.echo(f"The runs are at {public(uri)}")
        return
    port = port or UI_PORT
    check_port(port)
    must_work(uri)
    home().mkdir(parents=True, exist_ok=True)
    page = f"http://127.0.0.1:{port}/#/experiments{TRAINING}"
    typer.echo(f"{page} shows {public(uri)}; Ctrl-C ends it")
    sys.stdout.flush()
    command = [sys.executable, "-m", "mlflow", "server", "--host", "127.0.0.1"]
    command += ["--port", str(port), "--workers", "1", "--uvicorn-opts", "--log-level=warning"]
    environment = {
        "MLFLOW_BACKEND_STORE_URI": uri,  # here, as it may hold a password: anybody sees arguments
        "MLFLOW_SERVER_ENABLE_JOB_EXECUTION": "false",  # seven processes for what we do not use
        "MLFLOW_LOGGING_LEVEL": "WARNING",
        "PYTHONWARNINGS": "ignore",  # of MLflow's own code
    }
    os.execve(command[0], command, os.environ | environment)


def _parameters_help(name: str) -> str:
    from trireme.pipelines import catalog

    pipeline = catalog.load(name)
    lines = [f"Usage: trireme run {name} [-p NAME=VALUE]... [--params FILE] [--verbose]", ""]
    lines += [_description(pipeline), "", "Parameters:"]
    for parameter in pipeline.parameters.values():
        default = "" if parameter.default in ("", None) else f", default {parameter.default}"
        lines += ["", f"  {parameter.name}  ({parameter.type_in_words}{default})"]
        lines += [f"      {parameter.description}"]
    return "\n".join(lines)


def _description(pipeline: "Pipeline") -> str:
    return str(pipeline.graph.pipeline_spec.pipeline_info.description)


def _show(result: "Result", console: "Console") -> None:
    """Prints how a run ended and where its things are."""
    from trireme.components.cost.table import in_words

    said: dict[str, Any] = {}
    for record in (record for records in result.steps.values() for record in records):
        said |= record.get("headline", {}) | record.get("total", {}) | record.get("tags", {})
    facts = {}
    for name, value in said.items():
        if name.startswith("held_out_"):
            from trireme.components.evaluation.figures import words

            figure = words(name.removeprefix("held_out_"))
            digits = ".4f" if figure == "accuracy" else ".4g"
            facts[figure[0].upper() + figure[1:]] = f"{value:{digits}} on held-out samples"
    exported, model = result.workspace / "exported", result.workspace / "model"
    if exported.exists():
        facts["Model"] = str(exported)
    elif model.exists():
        facts["Model"] = str(model)
        if "gate" in said and not result.error:
            facts["Not exported"] = said["gate"]
    if "verdict" in said:
        facts["Verdict"] = said["verdict"]
    if "cost" in said:
        facts["Cost"] = in_words(said["cost"], said["currency"])
    if result.model_version:
        facts["Registered"] = result.model_version
    report = result.workspace / "report.html"
    if report.exists():
        facts["Report"] = str(report)
    facts["Run"] = str(result.directory)
    if result.mlflow_page:
        facts["MLflow"] = result.mlflow_page
        if result.needs_ui:
            facts["MLflow"] += f" (start it with: {_this_command()} ui)"
    console.print()
    console.print(f"{result.name} {result.status}", "bold")
    console.facts(facts)
    if result.error:
        sys.stdout.flush()
        raise result.error


def _this_command() -> str:
    return shlex.quote(os.path.relpath(sys.argv[0])) if "/" in sys.argv[0] else "trireme"


def main() -> None:
    """Runs the command line; a person's mistake is one sentence and exit status 2."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="replace")  # a terminal may not have every letter
    try:
        with extras.explained():
            app()
    except TriremeError as error:
        if error.detail:
            from trireme.pipelines.console import plain

            say(plain(error.detail))
        say(f"error: {error}")
        sys.exit(error.exit_status)
