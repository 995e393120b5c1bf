"""The command line of plans: ``trireme plan`` and ``trireme job plan``."""

import sys
from collections.abc import Iterable
from contextlib import suppress
from decimal import Decimal
from functools import partial
from itertools import chain
from typing import TYPE_CHECKING, Annotated, Any

import typer

from trireme.cli.cluster import Context, Namespace, Probe, connect, probed
from trireme.cli.job.description import described
from trireme.cli.job.options import File, Operator
from trireme.cli.lazy import application
from trireme.cli.target import (
    Data,
    Env,
    Param,
    Params,
    PipelineOrProgram,
    SecretEnv,
    WithWords,
    Workspace,
    asked,
    on_target,
    variables,
)
from trireme.targets.registry import BUILD
from trireme.terminal.tables import table

if TYPE_CHECKING:
    from trireme.cost.prices import Prices
    from trireme.kubernetes.connection import Cluster
    from trireme.planning import Plan, Pods
    from trireme.runner.cluster.checks import Finding
    from trireme.targets.base import Target

app = application()

NoCheck = Annotated[bool, typer.Option("--no-check", help="Do not ask the cluster.")]


@app.command(cls=WithWords)
@on_target(BUILD, loading=("dataset_claims", "cache_claim", "storage_class", "shape"))
def plan(
    target: "Target",
    context: typer.Context,
    loading: dict[str, Any],
    pipeline: PipelineOrProgram,
    data: Data = "",
    param: Param = None,
    params: Params = None,
    env: Env = None,
    secret_env: SecretEnv = None,
    no_check: NoCheck = False,
    probe: Probe = False,
) -> None:
    """Show what a run would create, request and cost, and check that it can; create nothing."""
    from trireme import planning
    from trireme.compiling.loading import ready
    from trireme.kubernetes import access, credentials

    has_cluster = not (target.is_here or no_check) and credentials.are_there()
    there = target.cluster if has_cluster else None
    job = variables(env, secret_env)
    chosen, given = asked(context, pipeline, loading, param, params, data, job, there)
    chosen, arguments = ready(chosen, given, target)
    cluster = target.cluster() if has_cluster else None
    known, is_known = _prices(cluster)
    if not target.is_here and not is_known and "budget" in arguments:
        arguments["budget"] = 0.0  # what it is enough for is not to be told without prices
    manifest = {} if target.is_here else {"manifest": partial(planning.manifest_for, cluster)}
    planned = target.plan(planning.plan_pipeline(chosen, arguments, known, **manifest), chosen)
    typer.echo(f"{chosen.name} on {target.title}\n")
    if target.is_here and planned.manifest:
        from trireme.job.rules import GPU
        from trireme.runner.local.gpus import lacking_gpus

        _show_job(planned)
        _facts(_cost(planned))
        if lacking := lacking_gpus(int(planned.total.requests.get(GPU, 0))):
            typer.echo(lacking, err=True)
        return
    table(["STEP", "IMAGE"], map(list, planned.steps))
    if target.is_here:
        return
    typer.echo()
    _show_job(planned)
    rights = access.in_words(dict.fromkeys([*planned.rights, *planned.deploying]))
    size = planned.workspace
    volume = {"Workspace": f"a ReadWriteMany claim of {size} for each run"} if size else {}
    code = {"Code": str(chosen.bundle)} if chosen.bundle else {}
    facts = _cost(planned) | code | volume | _needs(planned) | planned.facts
    _facts(facts | {"Rights": f"the run's service account needs: {rights}"})
    if cluster is None:
        _check(planned, None)
        return
    also: list[Iterable[Finding]] = [target.check(chosen, cluster)]
    if probe:
        also.append(probed(cluster, planned.images, planned.account))
    _check(planned, cluster, chain.from_iterable(also))


def plan_job(
    file: File = None,
    operator: Operator = "",
    no_check: NoCheck = False,
    namespace: Namespace = "",
    context: Context = "",
    workspace: Workspace = "",
) -> None:
    """Show what a job would create, request and cost, and check that it can; create nothing."""
    from trireme import planning
    from trireme.kubernetes import access, credentials
    from trireme.runner.notes import notes

    has_cluster = not no_check and bool(context or credentials.are_there())
    there = partial(connect, namespace, context) if has_cluster else None
    job = described(file, workspace, connect=there, operator=operator)
    cluster = there() if there else None
    known, _ = _prices(cluster)
    manifest = planning.manifest_for(cluster, job)
    planned = planning.plan_job(manifest, known)
    for note in notes(job, manifest, followed=False):
        typer.echo(f"note: {note}", err=True)
    _show_job(planned)
    rights = {"Rights": f"yours: {access.in_words(planned.rights)}"}
    _facts(_cost(planned) | _needs(planned) | rights)
    _check(planned, cluster)


def _prices(cluster: "Cluster | None") -> "tuple[Prices | None, bool]":
    """Returns the price table, if there is one, and whether it is known which there is."""
    from trireme import planning
    from trireme.cost import prices
    from trireme.kubernetes.errors import Forbidden

    if cluster:
        with suppress(Forbidden):
            return planning.read_prices(cluster), True
    known = prices.read()
    return known, known is not None


def _show_job(planned: "Plan") -> None:
    """Shows the training job's pods, as far as it is known beforehand."""
    if not planned.manifest:
        return
    head = [planned.manifest["kind"].upper()]
    head += ["PODS", "IMAGE", "CPU", "MEMORY", "DEVICES", *(["AN HOUR"] if planned.prices else [])]
    table(head, [_row(pods, planned.prices) for pods in [*planned.pods, planned.total]])
    typer.echo()
    if planned.trainings > 1:
        typer.echo(f"{planned.trainings} such jobs, up to {planned.at_once} at a time\n")


def _cost(planned: "Plan") -> dict[str, str]:
    """Returns what training costs; nothing without a price table."""
    if planned.prices is None:
        return {}
    hour, in_words = planned.total.hour, planned.prices.in_words
    cost = f"{in_words(hour)} an hour of training"
    if planned.time_limit:
        most = hour * planned.time_limit / 3600
        cost += f", at most {in_words(most)} in its time limit of {planned.time_limit:,} s"
        if planned.trainings > 1:
            cost += f", {in_words(most * planned.trainings)} in all"
    return {"Cost": cost}


def _row(pods: "Pods", known: "Prices | None") -> list[Any]:
    from trireme.kubernetes.amounts import shown

    others = {name: n for name, n in pods.requests.items() if name not in ("cpu", "memory")}
    return [
        pods.name,
        pods.count,
        pods.image,
        *(shown(name, pods.requests.get(name, Decimal(0))) for name in ("cpu", "memory")),
        ", ".join(f"{shown(name, amount)} {name}" for name, amount in others.items()),
        *([known.in_words(pods.hour)] if known else []),
    ]


def _needs(planned: "Plan") -> dict[str, str]:
    """Returns what has to be there, by kind."""
    names: dict[str, list[str]] = {}
    for needed in planned.needed:
        optional = " (optional)" if needed.optional else ""
        names.setdefault(needed.kind, []).append(f"{needed.name}{optional}")
    return {kind: ", ".join(those) for kind, those in names.items()}


def _check(planned: "Plan", cluster: "Cluster | None", also: Iterable["Finding"] = ()) -> None:
    """Shows what the cluster says; ends the command with exit status 1 if something is wrong."""
    typer.echo()
    if cluster is None:
        typer.echo("not checked on a cluster")
        return
    typer.echo(f"checked in namespace {cluster.namespace}:")
    failed = False
    for finding in chain(planned.check(cluster), also):
        typer.echo(f"  {finding.verdict:<8} {finding.sentence}")
        failed |= finding.verdict == "failed"
    if failed:
        raise typer.Exit(1)


def _facts(facts: dict[str, str]) -> None:
    from trireme.terminal.console import Console

    Console(sys.stdout).facts(facts)
