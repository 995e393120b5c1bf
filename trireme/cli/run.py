"""``trireme run``: a pipeline, here or on a cluster."""

import sys
from contextlib import suppress
from typing import TYPE_CHECKING, Annotated, Any

import typer

from trireme.answers.catalogs import ListedPipeline, PipelineList
from trireme.cli.lazy import application
from trireme.cli.output import Form, Output, show
from trireme.cli.target import (
    LOADING,
    Data,
    Env,
    Param,
    Params,
    PipelineOrProgram,
    SecretEnv,
    Verbose,
    WithWords,
    asked,
    on_target,
    variables,
)
from trireme.errors import InputError, TriremeError
from trireme.targets.registry import BUILD

if TYPE_CHECKING:
    from trireme.targets.base import Target

app = application()


@app.command(cls=WithWords, add_help_option=False)
@on_target(BUILD, loading=LOADING)
def run(
    target: "Target",
    context: typer.Context,
    loading: dict[str, Any],
    pipeline: PipelineOrProgram = "",
    data: Data = "",
    param: Param = None,
    params: Params = None,
    env: Env = None,
    secret_env: SecretEnv = None,
    verbose: Verbose = False,
    no_wait: Annotated[
        bool, typer.Option("--no-wait", help="Start the run, which goes on, and return at once.")
    ] = False,
    wants_help: Annotated[
        bool, typer.Option("--help", help="Show this help, or a pipeline's parameters, and exit.")
    ] = False,
    output: Output = Form.TEXT,
) -> None:
    """Run a pipeline or a training program here or, with --target kfp or argo, on a cluster."""
    if wants_help:
        typer.echo(_parameters_help(pipeline) if pipeline else context.get_help())
        raise typer.Exit
    if not pipeline:
        from trireme.pipeline.catalog import PIPELINES

        raise InputError(f"PIPELINE is missing: give one of {', '.join(PIPELINES)}, or a file")

    from trireme.terminal.console import Console

    console = Console(sys.stdout if output is Form.TEXT else sys.stderr, verbose)
    with console.waiting(f"loading {pipeline}"):  # kfp, for the most part
        from trireme.compiling.loading import ready

        to_cluster, job = None if target.is_here else target.cluster, variables(env, secret_env)
        chosen, values = asked(context, pipeline, loading, param, params, data, job, to_cluster)
    chosen, arguments = ready(chosen, values, target)
    name = chosen.name_of_a_run()
    try:
        status = target.run(chosen, arguments, name, console, wait=not no_wait)
    except BaseException:
        with suppress(TriremeError):  # as of a run that was never made: why it failed comes first
            _show(target, name, output)
        raise
    _show(target, name, output)
    raise typer.Exit(status)


def _show(target: "Target", name: str, form: Form) -> None:
    if form is not Form.TEXT:  # which the console has shown
        from trireme.targets import answers

        show(answers.run_status(target, target.find(name)), form)


def _parameters_help(reference: str) -> str:
    from trireme.pipeline import catalog
    from trireme.pipeline.program import program_of

    program = program_of(reference)
    pipeline = catalog.load(program.pipeline if program else reference)
    lines = [f"Usage: trireme run {reference} [-p NAME=VALUE]... [--params FILE] [--verbose]", ""]
    lines += [pipeline.graph.description, "", "Parameters:"]
    for parameter in pipeline.parameters.values():
        default = "" if parameter.default in ("", None) else f", default {parameter.default}"
        needed = ", needed" if parameter.is_needed else ""
        lines += ["", f"  {parameter.name}  ({parameter.type_in_words}{default}{needed})"]
        lines += [f"      {parameter.description}"]
    return "\n".join(lines)


def list_pipelines(output: Output = Form.TEXT) -> None:
    """List the pipelines."""
    from importlib.util import find_spec

    from trireme import plugins
    from trireme.pipeline.catalog import PIPELINES, added

    every = dict(PIPELINES)
    for name, entry in added().items():
        try:  # to load them takes kfp, and more than a second
            lacks = find_spec(entry.module) is None
        except Exception:  # of a package around it
            lacks = True
        note = f"; cannot be loaded: there is no module {entry.module}" if lacks else ""
        every[name] = f"From {plugins.whose(entry)}{note}"
    listed = [ListedPipeline(name=name, description=text) for name, text in every.items()]
    show(PipelineList(pipelines=listed), output, _draw)


def _draw(answer: PipelineList) -> None:
    for pipeline in answer.pipelines:
        typer.echo(f"{pipeline.name}  {pipeline.description}")
