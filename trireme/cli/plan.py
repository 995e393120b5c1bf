"""The command line of plans: ``trireme plan`` and ``trireme job plan``."""

import sys
from collections.abc import Callable, Iterable
from contextlib import suppress
from dataclasses import replace
from decimal import Decimal
from functools import partial
from itertools import chain
from typing import TYPE_CHECKING, Annotated, Any

import typer

from trireme.answers.answer import amounts
from trireme.answers.plans import (
    NeededObject,
    PlannedCost,
    PlannedJob,
    PlannedPods,
    PlannedStep,
    RunPlan,
)
from trireme.cli.cluster import Context, Namespace, Probe, connect, probed
from trireme.cli.job.description import described
from trireme.cli.job.options import File, Operator
from trireme.cli.lazy import application
from trireme.cli.output import Form, Output, checked, draw_fact, show
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

NoCheck = Annotated[
    bool, typer.Option("--no-check", help="Do not ask the cluster, nor registries for images.")
]


@app.command(cls=WithWords)
@on_target(BUILD, loading=("dataset_claims", "cache_claim", "storage_class", "shape", "images"))
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
    output: Output = Form.TEXT,
) -> None:
    """Show what a run would create, request and cost, and check that it can; create nothing."""
    from trireme import planning
    from trireme.compiling import images, registry
    from trireme.compiling.loading import ready
    from trireme.kubernetes import access, credentials
    from trireme.runner import reclaimed

    has_cluster = not (target.is_here or no_check) and credentials.are_there()
    to_cluster = target.cluster if has_cluster else None
    job = variables(env, secret_env)
    chosen, values = asked(context, pipeline, loading, param, params, data, job, to_cluster)
    chosen, arguments = ready(chosen, values, target)
    cluster = target.cluster() if has_cluster else None
    prices, is_known = _prices(cluster)
    if not target.is_here and not is_known and "budget" in arguments:
        arguments["budget"] = 0.0  # what it is enough for is not to be told without prices
    pins = images.read(loading["images"])  # checked when the pipeline was loaded
    manifest = {} if target.is_here else {"manifest": partial(planning.manifest_for, cluster)}
    planned = planning.plan_pipeline(chosen, arguments, prices, **manifest, pins=pins)
    planned = target.plan(planned, chosen)
    warnings: list[str] = []
    facts: dict[str, str] = {}
    also: list[Iterable[Finding]] = []
    if target.is_here:
        from trireme.job.rules import GPU
        from trireme.runner.local.gpus import lacking_gpus

        gpus = int(planned.total.requests.get(GPU, 0)) if planned.manifest else 0
        warnings += filter(None, [lacking_gpus(gpus)])
        facts = planned.facts
    else:
        rights = access.in_words(dict.fromkeys([*planned.rights, *planned.deploying]))
        size = planned.workspace
        volume = {"Workspace": f"a ReadWriteMany claim of {size} for each run"} if size else {}
        facts = ({"Code": str(chosen.bundle)} if chosen.bundle else {}) | volume
        facts |= planned.facts | {"Rights": f"the run's service account needs: {rights}"}
        missing = () if no_check else registry.missing(planned.images)
        warnings += images.notes(planned.images, missing)
    if planned.job:
        names = (str(values.get(f"code_{field}", "")) for field in ("url", "directory"))
        warnings += [f"note: {note}" for note in [reclaimed.note(planned.job, *names)] if note]
    facts |= _saving(target, chosen.name, planned.total.count)
    if cluster is not None:
        also.append(target.check(chosen, cluster))
        if probe:
            also.append(probed(cluster, planned.images, planned.account))
    answer = replace(
        _answer(planned), pipeline=chosen.name, place=target.title, facts=facts, warnings=warnings
    )
    draw = _draw_here if target.is_here else _draw_there
    _show(answer, planned, cluster, output, draw, chain.from_iterable(also))


def plan_job(
    file: File = None,
    operator: Operator = "",
    no_check: NoCheck = False,
    namespace: Namespace = "",
    context: Context = "",
    workspace: Workspace = "",
    output: Output = Form.TEXT,
) -> None:
    """Show what a job would create, request and cost, and check that it can; create nothing."""
    from trireme import planning
    from trireme.kubernetes import access, credentials
    from trireme.runner.notes import notes

    has_cluster = not no_check and bool(context or credentials.are_there())
    to_cluster = partial(connect, namespace, context) if has_cluster else None
    job = described(file, workspace, connect=to_cluster, operator=operator)
    cluster = to_cluster() if to_cluster else None
    prices, _ = _prices(cluster)
    manifest = planning.manifest_for(cluster, job)
    planned = planning.plan_job(manifest, prices)
    answer = replace(
        _answer(planned),
        place="a cluster",
        facts={"Rights": f"yours: {access.in_words(planned.rights)}"},
        warnings=[f"note: {note}" for note in notes(job, manifest, followed=False)],
    )
    _show(answer, planned, cluster, output, _draw_job)


def _prices(cluster: "Cluster | None") -> "tuple[Prices | None, bool]":
    """Returns the price table, if there is one, and whether it is known which there is."""
    from trireme import planning
    from trireme.cost import prices
    from trireme.kubernetes.errors import Forbidden

    if cluster:
        with suppress(Forbidden):
            return planning.read_prices(cluster), True
    price_table = prices.read()
    return price_table, price_table is not None


def _saving(target: "Target", pipeline: str, replicas: int) -> dict[str, str]:
    """Returns how often to save, if earlier runs of a pipeline tell that."""
    from trireme.observers.goodput import interval

    before = target.goodput_before(pipeline)
    saving = before and interval.how_often(before, replicas)
    return {"Saving": f"{saving._replace(now=None)}, by earlier runs"} if saving else {}


def _answer(planned: "Plan") -> RunPlan:
    """Returns what is planned as an answer, before anything is checked."""
    job = planned.manifest and PlannedJob(
        job_kind=planned.manifest["kind"],
        pods=[_pods(pods) for pods in planned.pods],
        together=_pods(planned.total),
        trainings=planned.trainings,
        at_once=planned.at_once,
    )
    return RunPlan(
        pipeline="",
        place="",
        steps=[PlannedStep(name=name, image=image) for name, image in planned.steps],
        job=job or None,
        cost=_cost(planned),
        needs=[
            NeededObject(kind=needed.kind, name=needed.name, optional=needed.optional)
            for needed in planned.needed
        ],
        facts={},
        warnings=[],
        namespace="",
        findings=[],
        failed=False,
    )


def _pods(pods: "Pods") -> PlannedPods:
    return PlannedPods(
        name=pods.name,
        count=pods.count,
        image=pods.image,
        requests=amounts(pods.requests),
        hour=pods.hour,
    )


def _cost(planned: "Plan") -> PlannedCost | None:
    """Returns what training costs; nothing without a price table."""
    if planned.prices is None:
        return None
    hour, limit = planned.total.hour, planned.time_limit
    limit_cost = hour * limit / 3600 if limit else None
    return PlannedCost(
        currency=planned.prices.currency,
        hour=hour,
        time_limit=limit,
        most=limit_cost,
        most_in_all=None if limit_cost is None else limit_cost * planned.trainings,
    )


def _show(
    answer: RunPlan,
    planned: "Plan",
    cluster: "Cluster | None",
    form: Form,
    draw: Callable[[RunPlan], None],
    also: Iterable["Finding"] = (),
) -> None:
    """Shows a plan, and what the cluster says of it as it comes.

    Raises:
        typer.Exit: With 1 if something is wrong.
    """
    answer = replace(answer, namespace=cluster.namespace if cluster else "")
    for warning in answer.warnings:
        typer.echo(warning, err=True)
    if form is Form.TEXT:
        draw(answer)
    if cluster is None:
        show(answer, form)
        return
    if form is Form.TEXT:
        typer.echo(f"\nchecked in namespace {cluster.namespace}:")
    findings = checked(chain(planned.check(cluster), also), form, draw_fact)
    failed = any(finding.verdict == "failed" for finding in findings)
    checked_answer = replace(answer, findings=findings, failed=failed)
    show(checked_answer, form)
    if failed:
        raise typer.Exit(1)


def _draw_here(plan: RunPlan) -> None:
    typer.echo(f"{plan.pipeline} on {plan.place}\n")
    if plan.job:
        _draw_pods(plan)
        _facts(_cost_in_words(plan) | plan.facts)
    else:
        table(["STEP", "IMAGE"], [[step.name, step.image] for step in plan.steps])


def _draw_there(plan: RunPlan) -> None:
    typer.echo(f"{plan.pipeline} on {plan.place}\n")
    table(["STEP", "IMAGE"], [[step.name, step.image] for step in plan.steps])
    typer.echo()
    _draw_job(plan)


def _draw_job(plan: RunPlan) -> None:
    _draw_pods(plan)
    _facts(_cost_in_words(plan) | _needs(plan) | plan.facts)
    if not plan.namespace:
        typer.echo("\nnot checked on a cluster")


def _draw_pods(plan: RunPlan) -> None:
    """Draws the training job's pods, as far as it is known beforehand."""
    if not plan.job:
        return
    head = [plan.job.job_kind.upper(), "PODS", "IMAGE", "CPU", "MEMORY", "DEVICES"]
    head += ["AN HOUR"] if plan.cost else []
    table(head, [_row(pods, plan.cost) for pods in [*plan.job.pods, plan.job.together]])
    typer.echo()
    if plan.job.trainings > 1:
        typer.echo(f"{plan.job.trainings} such jobs, up to {plan.job.at_once} at a time\n")


def _row(pods: PlannedPods, cost: PlannedCost | None) -> list[Any]:
    from trireme.cost.table import in_words
    from trireme.kubernetes.amounts import shown

    def of(name: str) -> str:
        return shown(name, Decimal(str(pods.requests.get(name, 0))))

    others = [name for name in pods.requests if name not in ("cpu", "memory")]
    return [
        *(pods.name, pods.count, pods.image, of("cpu"), of("memory")),
        ", ".join(f"{of(name)} {name}" for name in others),
        *([in_words(pods.hour, cost.currency)] if cost else []),
    ]


def _cost_in_words(plan: RunPlan) -> dict[str, str]:
    from trireme.cost.table import in_words

    if not (cost := plan.cost):
        return {}
    words = f"{in_words(cost.hour, cost.currency)} an hour of training"
    if cost.most is not None:
        limit_cost = in_words(cost.most, cost.currency)
        words += f", at most {limit_cost} in its time limit of {cost.time_limit:,} s"
        if plan.job and plan.job.trainings > 1 and cost.most_in_all is not None:
            words += f", {in_words(cost.most_in_all, cost.currency)} in all"
    return {"Cost": words}


def _needs(plan: RunPlan) -> dict[str, str]:
    """Returns what has to be there, by kind."""
    names: dict[str, list[str]] = {}
    for needed in plan.needs:
        optional = " (optional)" if needed.optional else ""
        names.setdefault(needed.kind, []).append(f"{needed.name}{optional}")
    return {kind: ", ".join(of_kind) for kind, of_kind in names.items()}


def _facts(facts: dict[str, str]) -> None:
    from trireme.terminal.console import Console

    Console(sys.stdout).facts(facts)
