"""The command ``trireme doctor``."""

from collections.abc import Iterable
from itertools import chain
from typing import TYPE_CHECKING

import typer

from trireme.cli.cluster import Context, Namespace, Probe, connect, probed
from trireme.cli.target import Workspace

if TYPE_CHECKING:
    from trireme.doctor import Fact


def doctor(
    namespace: Namespace = "",
    context: Context = "",
    workspace: Workspace = "",
    probe: Probe = False,
) -> None:
    """Show what is on this machine and on the cluster, what is missing, and what mends it."""
    from trireme import images
    from trireme.doctor import Fact, Verdict, machine
    from trireme.doctor import cluster as of_cluster
    from trireme.kubernetes import credentials
    from trireme.targets import registry

    failed = _show("This machine", machine.facts())
    if not (context or credentials.are_there()):
        typer.echo("\nNo cluster: set KUBECONFIG to a file that kubectl can use")
        raise typer.Exit(int(failed))
    cluster = connect(namespace, context)

    def host() -> str:
        given = {"kube_context": context} | ({"namespace": namespace} if namespace else {})
        return str(registry.open("kfp", given).connection.host)  # type: ignore[attr-defined]

    title = f"Kubernetes {of_cluster.version(cluster)}, namespace {cluster.namespace}"
    facts = chain(of_cluster.facts(cluster), map(of_cluster.kubeflow, [host]))
    if probe:
        wanted = [images.BASE, images.PYTORCH]
        found = probed(cluster, wanted, of_cluster.account_of_steps(cluster))
        facts = chain(facts, (Fact(Verdict(it.verdict), it.sentence) for it in found))
    failed |= _show(f"\n{title}", facts)
    raise typer.Exit(int(failed))


def _show(title: str, facts: "Iterable[Fact]") -> bool:
    """Shows what is so, and what that allows; tells whether something keeps runs from working."""
    typer.echo(title)
    failed, allowed = False, []
    for fact in facts:
        typer.echo(f"  {fact.verdict:<8} {fact.sentence}")
        failed |= fact.verdict == "failed"
        if fact.allows and fact.verdict != "failed":
            allowed.append(fact.allows)
    typer.echo(f"  allows   {'; '.join(allowed) or 'nothing'}")
    return failed
