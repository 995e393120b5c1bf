"""What ``--target argo`` does in each of the commands that have it."""

import time
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from trireme.components.errors import TriremeError
from trireme.components.tracking import abandoned_runs
from trireme.pipelines.tables import age, table

if TYPE_CHECKING:
    from trireme.components.kubernetes.connection import Cluster
    from trireme.components.training.lines import Lines
    from trireme.pipelines.catalog import Pipeline
    from trireme.pipelines.console import Console
    from trireme.pipelines.targets.argo.workflows import Workflow

PAUSE = 2.0  # seconds between two looks at a workflow


def connected(namespace: str, context: str, *, stays: bool = False) -> "Cluster":
    """Returns the cluster of the KUBECONFIG, or of the pod that this is in.

    For a command that asks something, or that stays until a run ends.
    """
    from trireme.components.kubernetes.connection import (
        PATIENCE,
        PATIENCE_OF_A_PERSON,
        Cluster,
    )

    return Cluster(
        namespace,
        context=context or None,
        patience=PATIENCE if stays else PATIENCE_OF_A_PERSON,
        patience_at_first=PATIENCE_OF_A_PERSON,
    )


def compile(
    pipelines: list["Pipeline"], output: Path, claims: dict[str, Path], service_account: str
) -> None:
    """Writes pipelines as WorkflowTemplates."""
    from trireme.pipelines.targets.argo import compiling

    for pipeline in pipelines:
        typer.echo(compiling.write(pipeline, output, claims, service_account))


def upload(
    pipelines: list["Pipeline"],
    cluster: "Cluster",
    claims: dict[str, Path],
    service_account: str,
    console: "Console",
) -> None:
    """Applies pipelines' WorkflowTemplates, each if it has changed."""
    from trireme.pipelines.targets.argo import compiling, workflows

    for pipeline in pipelines:
        made = compiling.compiled(pipeline, claims, service_account)
        is_new = workflows.upload(cluster, made)
        what = "uploaded" if is_new else "is there already, unchanged"
        console.print(f"{pipeline.name} {what}", "bold")
        console.facts({"Version": (made.labels or {})[workflows.VERSION]})


def run(
    pipeline: "Pipeline",
    arguments: dict[str, Any],
    cluster: "Cluster",
    claims: dict[str, Path],
    service_account: str,
    console: "Console",
    *,
    wait: bool,
) -> int:
    """Runs a pipeline; returns the command's exit status.

    Raises:
        TriremeError: It cannot be started, or has not succeeded.
    """
    from trireme.components.training.cluster import checks
    from trireme.components.training.manifests.references import Needed
    from trireme.pipelines.targets.argo import compiling, tracking, workflows

    template = compiling.compiled(pipeline, claims, service_account)
    checks.must_be_there(cluster, Needed("ServiceAccount", service_account))
    workflow = workflows.start(cluster, pipeline, template, arguments)
    console.print(f"{workflow.name} started", "bold")
    if lacking := tracking.lacking(cluster):
        console.print(f"note: {lacking}")
    there = f"--target argo --namespace {cluster.namespace}"
    console.facts({"Status": f"trireme status {workflow.name} {there}"})
    if not wait:
        return 0
    seen: dict[str, str] = {}
    while True:
        for step in workflow.steps:
            if seen.get(step.node) != step.state:
                seen[step.node] = step.state
                console.print(f"{step.name} {step.state}")
        if workflow.state in workflows.ENDED:
            break
        time.sleep(PAUSE)
        workflow = workflows.find(cluster, workflow.name)
    console.print(f"{workflow.name} {workflow.state}", "bold")
    for step in workflow.steps:
        if step.result:
            console.print(f"{step.name}: {step.result}")
    if workflow.state != "FINISHED":
        raise TriremeError(_why(workflow))
    return 0


def list_runs(cluster: "Cluster") -> None:
    """Lists the latest runs."""
    from trireme.components.kubernetes import access
    from trireme.pipelines.targets.argo import workflows

    found = workflows.latest(cluster)
    rows = [[run.name, run.state, age(run.created), f"{run.seconds:.0f}"] for run in found]
    table(["NAME", "STATE", "AGE", "SECONDS"], rows)
    abandoned_runs.end({run.name: run.state for run in found})
    if not found:
        access.check_namespace(cluster)
        typer.echo(f"no runs in namespace {cluster.namespace}", err=True)


def status(cluster: "Cluster", name: str, console: "Console") -> None:
    """Shows a run and its steps."""
    from trireme.components.kubernetes.errors import Forbidden
    from trireme.pipelines.targets.argo import logs, workflows
    from trireme.pipelines.targets.pod_logs import last_words

    there = workflows.find(cluster, name)
    console.print(f"{there.name}: {there.state}, {there.seconds:.0f} s", "bold")
    if there.message:
        console.print(there.message)
    said: dict[str, str] = {}
    with suppress(Forbidden):  # who may not list pods sees what the workflow tells
        said = last_words(logs.pods(cluster, there))
    rows = [
        [step.name, step.state, f"{step.seconds:.0f}", said.get(step.name) or step.result]
        for step in there.steps
    ]
    table(["STEP", "STATE", "SECONDS", "RESULT"], rows)
    abandoned_runs.end({there.name: there.state})


def logs(cluster: "Cluster", name: str, step: str, lines: "Lines", *, follow: bool) -> None:
    """Shows what the steps of a run have printed, or print until it ends."""
    from trireme.pipelines.targets.argo import logs, workflows

    show = logs.follow if follow else logs.logs
    show(cluster, workflows.find(cluster, name), step, lines)


def cancel(cluster: "Cluster", name: str) -> None:
    """Stops a run."""
    from trireme.pipelines.targets.argo import workflows

    workflows.cancel(cluster, workflows.find(cluster, name))
    typer.echo(f"{name} is being cancelled")


def retry(cluster: "Cluster", name: str) -> None:
    """Has a run that failed tried again."""
    from trireme.pipelines.targets.argo import server

    server.retry(cluster, name)
    typer.echo(f"{name} is tried again")


def _why(workflow: "Workflow") -> str:
    failed = next((step for step in workflow.steps if step.state == "FAILED"), None)
    if failed:
        return f"step {failed.name} failed: {failed.message or 'see its log'}"
    return f"run {workflow.name} {workflow.state}: {workflow.message}"
