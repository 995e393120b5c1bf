"""The command ``trireme doctor``."""

from collections.abc import Iterable
from typing import TYPE_CHECKING

import typer

from trireme.pipelines.cli import job as job_cli
from trireme.pipelines.cli.target import Workspace

if TYPE_CHECKING:
    from trireme.components.kubernetes.connection import Cluster
    from trireme.components.training.cluster.checks import Finding


def doctor(
    namespace: job_cli.Namespace = "", context: job_cli.Context = "", workspace: Workspace = ""
) -> None:
    """Show what is on this machine and on the cluster, what is missing, and what mends it."""
    from trireme.components.errors import TriremeError
    from trireme.components.kubernetes import credentials
    from trireme.pipelines.doctor import cluster as of_cluster
    from trireme.pipelines.doctor import machine

    typer.echo("This machine")
    failed = _show(machine.findings())
    if not (context or credentials.are_there()):
        typer.echo("\nNo cluster: set KUBECONFIG to a file that kubectl can use")
        raise typer.Exit(int(failed))
    cluster = job_cli.connect(namespace, context)
    try:
        version = of_cluster.version(cluster)
        typer.echo(f"\nKubernetes {version}, namespace {cluster.namespace}")
        failed |= _show(of_cluster.findings(cluster))
        failed |= _show([_kubeflow(cluster, context)])
    except TriremeError as error:
        typer.echo(f"\nThe cluster\n  failed   {error}")
        failed = True
    raise typer.Exit(int(failed))


def _kubeflow(cluster: "Cluster", context: str) -> "Finding":
    from trireme.pipelines.doctor.cluster import engine
    from trireme.pipelines.targets import registry

    def look() -> str:
        given = {"kube_context": context} | ({"namespace": cluster.namespace} if context else {})
        connection = registry.open("kfp", given).connection  # type: ignore[attr-defined]
        return f"Kubeflow Pipelines: pipelines with --target kfp, at {connection.host}"

    return engine("Kubeflow Pipelines for --target kfp", look)


def _show(findings: "Iterable[Finding]") -> bool:
    """Shows what was found, each as it is; tells whether something keeps runs from working."""
    failed = False
    for finding in findings:
        typer.echo(f"  {finding.verdict:<8} {finding.sentence}")
        failed |= finding.verdict == "failed"
    return failed
