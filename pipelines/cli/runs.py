"""The command line of runs that there are: ``trireme list``, ``status``, ``cancel``, ..."""

import sys
from contextlib import suppress
from typing import TYPE_CHECKING, Annotated

import typer

from trireme.components.errors import InputError
from trireme.components.tracking import abandoned_runs
from trireme.pipelines.cli import argo as argo_cli
from trireme.pipelines.cli.target import (
    CaFile,
    Context,
    Endpoint,
    Namespace,
    Place,
    Target,
    TokenFile,
    check_target,
)
from trireme.pipelines.tables import age, table

if TYPE_CHECKING:
    from trireme.components.training.lines import Lines

RunName = Annotated[str, typer.Argument(metavar="RUN", help="Its name; or with kfp its id.")]


def list_runs(
    context: typer.Context,
    target: Target = "local",
    endpoint: Endpoint = "",
    token_file: TokenFile = "",
    ca_file: CaFile = "",
    namespace: Namespace = "",
    kube_context: Context = "",
) -> None:
    """List the runs of pipelines, the latest first."""
    check_target(context, target)
    if target == "argo":
        argo_cli.list_runs(argo_cli.connected(namespace, kube_context))
    elif target == "kfp":
        from trireme.pipelines.targets.kubeflow import runs

        place = Place(endpoint, token_file, ca_file, namespace, kube_context)
        found = runs.latest(place.connect())
        table(
            ["NAME", "STATE", "AGE", "SECONDS", "ID"],
            [
                [run.name, run.state, age(run.created), f"{run.seconds:.0f}", run.id]
                for run in found
            ],
        )
        abandoned_runs.end({run.name: run.state for run in found})
    else:
        from trireme.pipelines.targets.local import runs as local_runs

        here = local_runs.latest()
        table(
            ["NAME", "STATE", "AGE", "SECONDS"],
            [[run.name, run.state, age(run.created), f"{run.seconds:.0f}"] for run in here],
        )
        if not here:
            typer.echo("no runs yet; 'trireme pipelines' lists what can be run", err=True)


def status(
    context: typer.Context,
    run: RunName,
    target: Target = "local",
    endpoint: Endpoint = "",
    token_file: TokenFile = "",
    ca_file: CaFile = "",
    namespace: Namespace = "",
    kube_context: Context = "",
) -> None:
    """Show a run and its steps."""
    check_target(context, target)
    from trireme.pipelines.console import Console

    console = Console(sys.stdout)
    if target == "argo":
        argo_cli.status(argo_cli.connected(namespace, kube_context), run, console)
        return
    head = ["STEP", "STATE", "SECONDS", "RESULT"]
    if target == "kfp":
        from trireme.pipelines.targets.kubeflow import reading, results, runs

        connection = Place(endpoint, token_file, ca_file, namespace, kube_context).connect()
        there = runs.find(connection, run)
        console.print(f"{there.name}: {there.state}, {there.seconds:.0f} s", "bold")
        if there.error:
            console.print(there.error)
        ways = runs.all_steps(connection, there)
        said = results.results(connection, kube_context, there, list(ways))
        rows = [
            [step.name, step.state, f"{step.seconds:.0f}", said.get(step.name, "")]
            for step in reading.steps_of(there, ways)
        ]
        facts = {"Id": there.id, "Page": there.page}
        abandoned_runs.end({there.name: there.state})
    else:
        from trireme.pipelines.targets.local import runs as local_runs

        here = local_runs.find(run)
        console.print(f"{here.name}: {here.state}, {here.seconds:.0f} s", "bold")
        rows = [
            [name, ended["state"], f"{ended['seconds']:.0f}", ended.get("result", "")]
            for name, ended in here.steps.items()
        ]
        rows += [[name, here.state, "", ""] for name in here.logs if name not in here.steps]
        facts = {"Directory": str(here.directory)}
    table(head, rows)
    console.facts(facts)


def logs(
    context: typer.Context,
    run: RunName,
    follow: Annotated[bool, typer.Option("--follow", "-f", help="Until the run ends.")] = False,
    step: Annotated[str, typer.Option(help="Only this one, as in train, or trial-000.")] = "",
    target: Target = "local",
    endpoint: Endpoint = "",
    token_file: TokenFile = "",
    ca_file: CaFile = "",
    namespace: Namespace = "",
    kube_context: Context = "",
) -> None:
    """Show what the steps of a run have printed, each line with its step."""
    check_target(context, target)
    from trireme.components.signals import Interrupted, from_a_terminal, handled, interrupt
    from trireme.pipelines.console import plain
    from trireme.pipelines.engine_lines import StepLines

    lines = StepLines(plain, needs_reader=True)
    try:
        with suppress(BrokenPipeError), handled(interrupt, from_a_terminal()):
            if target == "argo":
                cluster = argo_cli.connected(namespace, kube_context, stays=follow)
                argo_cli.logs(cluster, run, step, lines, follow=follow)
            elif target == "kfp":
                place = Place(endpoint, token_file, ca_file, namespace, kube_context)
                _logs_there(place, run, step, lines, follow=follow)
            else:
                from trireme.pipelines.targets.local import runs as local_runs

                local_runs.logs(run, step, lines, follow=follow)
    except Interrupted as interruption:  # the run goes on
        raise typer.Exit(128 + interruption.number) from None


def cancel(
    context: typer.Context,
    run: RunName,
    target: Target = "local",
    endpoint: Endpoint = "",
    token_file: TokenFile = "",
    ca_file: CaFile = "",
    namespace: Namespace = "",
    kube_context: Context = "",
) -> None:
    """End a run; what it has left stays."""
    check_target(context, target)
    if target == "argo":
        argo_cli.cancel(argo_cli.connected(namespace, kube_context), run)
        return
    if target == "kfp":
        from trireme.pipelines.targets.kubeflow import runs

        connection = Place(endpoint, token_file, ca_file, namespace, kube_context).connect()
        there = runs.find(connection, run)
        runs.cancel(connection, there)
        typer.echo(f"{there.name} is being cancelled")
        return
    from trireme.pipelines.targets.local import runs as local_runs

    local_runs.cancel(run)
    typer.echo(f"{run} cancelled")


def retry(
    context: typer.Context,
    run: RunName,
    target: Target = "local",
    endpoint: Endpoint = "",
    token_file: TokenFile = "",
    ca_file: CaFile = "",
    namespace: Namespace = "",
    kube_context: Context = "",
) -> None:
    """Have a run that failed on a cluster tried again, from the steps on that failed."""
    check_target(context, target)
    if target == "argo":
        argo_cli.retry(argo_cli.connected(namespace, kube_context), run)
        return
    if target != "kfp":
        raise InputError(
            "retry goes with --target kfp or argo; here 'trireme run' runs it from its start"
        )
    from trireme.pipelines.targets.kubeflow import retrying, runs

    connection = Place(endpoint, token_file, ca_file, namespace, kube_context).connect()
    there = runs.find(connection, run)
    note = retrying.retry(connection, kube_context, there)
    typer.echo(f"{there.name} is tried again")
    if note:
        typer.echo(f"note: {note}", err=True)


def _logs_there(place: Place, name: str, step: str, lines: "Lines", *, follow: bool) -> None:
    from trireme.components.kubernetes.connection import (
        PATIENCE,
        PATIENCE_OF_A_PERSON,
        Cluster,
    )
    from trireme.pipelines.targets.kubeflow import logs, runs

    connection = place.connect(stays=follow)
    run = runs.find(connection, name)
    steps = list(runs.all_steps(connection, run))
    cluster = Cluster(
        connection.namespace_of_runs,
        context=place.context or None,
        patience=PATIENCE if follow else PATIENCE_OF_A_PERSON,
    )
    if follow:
        logs.follow(connection, cluster, run, steps, step, lines)
    else:
        logs.logs(cluster, run, steps, step, lines)
