"""The command line of plans: ``trireme plan`` and ``trireme job plan``."""

import sys
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import replace
from decimal import Decimal
from functools import partial
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from trireme.pipelines import job_cli
from trireme.pipelines.tables import table
from trireme.pipelines.target_options import (
    EDITOR,
    RUNNER,
    SERVICE_ACCOUNT,
    Context,
    Namespace,
    ServiceAccount,
    Target,
    check_target,
)
from trireme.pipelines.targets.kubeflow import KUBEFLOW
from trireme.pipelines.upload_cli import CacheClaim, DatasetClaim

if TYPE_CHECKING:
    from trireme.components.cost.prices import Prices
    from trireme.components.kubernetes.connection import Cluster
    from trireme.components.training.cluster.checks import Finding
    from trireme.pipelines.plan import Plan, Pods

NoCheck = Annotated[bool, typer.Option("--no-check", help="Ask no cluster.")]


def plan(
    context: typer.Context,
    pipeline: Annotated[str, typer.Argument(help="Name of a pipeline, see 'trireme pipelines'.")],
    param: Annotated[
        list[str] | None,
        typer.Option("--param", "-p", metavar="NAME=VALUE", help="A parameter; repeatable."),
    ] = None,
    params: Annotated[
        Path | None, typer.Option(metavar="FILE", help="YAML file of parameters; -p wins.")
    ] = None,
    target: Target = "local",
    no_check: NoCheck = False,
    dataset_claim: DatasetClaim = None,
    cache_claim: CacheClaim = "",
    namespace: Namespace = "",
    kube_context: Context = "",
    service_account: ServiceAccount = SERVICE_ACCOUNT,
) -> None:
    """Show what a run would make, request and cost, and check that it can; make nothing."""
    check_target(context, target)

    from trireme.components.kubernetes import access
    from trireme.components.training.manifests.references import Needed
    from trireme.pipelines import catalog
    from trireme.pipelines import plan as planning
    from trireme.pipelines.compiling import ir

    chosen = catalog.load(pipeline)
    claims = ir.mounts(dataset_claim or [], cache_claim)
    arguments = chosen.arguments(param or [], params, None if target == "local" else set(claims))
    where = namespace or (KUBEFLOW if target == "kfp" else "")
    cluster = None if target == "local" else _cluster_at_hand(where, kube_context, no_check)
    known, is_known = _prices(cluster)
    if target != "local" and not is_known:
        arguments["budget"] = 0.0  # what it is enough for is not to be told without prices
    if target == "local":
        planned = planning.of_pipeline(chosen, arguments, claims, known)
        from trireme.pipelines.targets.kfp_local import AT_ONCE

        typer.echo(f"{pipeline} on this machine\n")
        _show_job(replace(planned, at_once=min(planned.at_once, AT_ONCE)))
        _facts(_cost(planned))
        return
    operator = partial(planning.operator_at, cluster)
    planned = planning.of_pipeline(chosen, arguments, claims, known, operator)
    also: list[Finding] = []
    if target == "kfp":
        service_account = RUNNER if where == KUBEFLOW else EDITOR
        planned = planning.on_kubeflow(planned)
        account = Needed("ServiceAccount", service_account)
        planned = replace(planned, needed=[account, *planned.needed])
    else:
        from trireme.pipelines.targets.argo import planning as argo_planning
        from trireme.pipelines.targets.argo.compiling import compiled

        planned = argo_planning.on_argo(planned, service_account)
        if cluster:
            also = [argo_planning.check(cluster, compiled(chosen, claims, service_account))]
    typer.echo(f"{pipeline} on {'Argo' if target == 'argo' else 'Kubeflow'}\n")
    table(["STEP", "IMAGE"], map(list, planned.steps))
    typer.echo()
    _show_job(planned)
    rights = access.in_words(dict.fromkeys([*planned.rights, *planned.deploying]))
    _facts(
        {
            **_cost(planned),
            "Workspace": f"a ReadWriteMany claim of {planned.workspace} for each run",
            **_needs(planned),
            **({"MLflow": planning.RECORDED} if target == "kfp" else {}),
            "Rights": f"of the run's service account: {rights}",
        }
    )
    _check(planned, cluster, also, service_account)


def plan_job(
    file: job_cli.File = None,
    operator: job_cli.Operator = "",
    no_check: NoCheck = False,
    namespace: job_cli.Namespace = "",
    context: job_cli.Context = "",
) -> None:
    """Show what a job would make, request and cost, and check that it can; make nothing."""
    from trireme.components.kubernetes import access
    from trireme.components.training.manifests import render
    from trireme.components.training.manifests.notes import notes
    from trireme.pipelines import plan as planning

    job = job_cli.described(file, operator=operator)
    cluster = _cluster_at_hand(namespace, context, no_check)
    known, _ = _prices(cluster)
    manifest = render(job, planning.operator_at(cluster, job))
    planned = planning.of_job(manifest, known)
    for note in notes(job, manifest, followed=False):
        typer.echo(f"note: {note}", err=True)
    _show_job(planned)
    rights = {"Rights": f"yours: {access.in_words(planned.rights)}"}
    _facts(_cost(planned) | _needs(planned) | rights)
    _check(planned, cluster)


def _cluster_at_hand(namespace: str, context: str, no_check: bool) -> "Cluster | None":
    from trireme.components.kubernetes import credentials

    if no_check or not (context or credentials.are_there()):
        return None
    return job_cli.connect(namespace, context)


def _prices(cluster: "Cluster | None") -> "tuple[Prices | None, bool]":
    """Returns the price table, if there is one, and whether it is known which there is."""
    from trireme.components.cost import prices
    from trireme.components.kubernetes.errors import Forbidden
    from trireme.pipelines import plan as planning

    if cluster:
        with suppress(Forbidden):
            return planning.prices_of(cluster), True
    known = prices.read()
    return known, known is not None


def _show_job(planned: "Plan") -> None:
    """Shows the training job's pods."""
    head = [
        planned.manifest["kind"].upper(),
        "PODS",
        "IMAGE",
        "CPU",
        "MEMORY",
        "DEVICES",
        "AN HOUR",
    ]
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
    from trireme.components.kubernetes.amounts import shown

    others = {name: n for name, n in pods.requests.items() if name not in ("cpu", "memory")}
    return [
        pods.name,
        pods.count,
        pods.image,
        *(shown(name, pods.requests.get(name, Decimal(0))) for name in ("cpu", "memory")),
        ", ".join(f"{shown(name, amount)} {name}" for name, amount in others.items()),
        known.in_words(pods.hour) if known else "",
    ]


def _needs(planned: "Plan") -> dict[str, str]:
    """Returns what has to be there, by kind."""
    names: dict[str, list[str]] = {}
    for needed in planned.needed:
        optional = " (if it is there)" if needed.optional else ""
        names.setdefault(needed.kind, []).append(f"{needed.name}{optional}")
    return {kind: ", ".join(those) for kind, those in names.items()}


def _check(
    planned: "Plan",
    cluster: "Cluster | None",
    also: Iterable["Finding"] = (),
    account: str = "",
) -> None:
    """Shows what the cluster says; ends the command with exit status 1 if something is wrong."""
    typer.echo()
    if cluster is None:
        typer.echo("not checked on a cluster")
        return
    typer.echo(f"checked in namespace {cluster.namespace}:")
    failed = False
    for finding in chain(planned.check(cluster, account), also):
        typer.echo(f"  {finding.verdict:<8} {finding.sentence}")
        failed |= finding.verdict == "failed"
    if failed:
        raise typer.Exit(1)


def _facts(facts: dict[str, str]) -> None:
    from trireme.pipelines.console import Console

    Console(sys.stdout).facts(facts)
