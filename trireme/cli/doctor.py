"""The command ``trireme doctor``."""

from collections.abc import Iterable, Iterator
from itertools import chain
from typing import TYPE_CHECKING, NoReturn

import typer

from trireme.answers.plans import Diagnosis, Place
from trireme.cli.cluster import Context, Namespace, Probe, connect, probed
from trireme.cli.output import Form, Output, checked, draw_fact, show
from trireme.cli.target import Images, Workspace

if TYPE_CHECKING:
    from trireme.doctor import Fact

FAILED = "failed"
"""The verdict on what keeps runs from working."""


def doctor(
    namespace: Namespace = "",
    context: Context = "",
    workspace: Workspace = "",
    probe: Probe = False,
    images: Images = None,
    output: Output = Form.TEXT,
) -> None:
    """Show what is on this machine and on the cluster, what is missing, and what mends it."""
    from trireme.compiling.images import read
    from trireme.doctor import Fact, Verdict, machine
    from trireme.doctor import cluster as of_cluster
    from trireme.images import BASE, PYTORCH
    from trireme.kubernetes import credentials
    from trireme.targets import registry

    pins = read(images, [])
    this_machine = _place("This machine", machine.facts(), output)
    if not (context or credentials.are_there()):
        if output is Form.TEXT:
            typer.echo("\nNo cluster: set KUBECONFIG to a file that kubectl can use")
        _end([this_machine], output)
    cluster = connect(namespace, context)

    def host() -> str:
        options = {"kube_context": context} | ({"namespace": namespace} if namespace else {})
        return str(registry.open("kfp", options).connection.host)  # type: ignore[attr-defined]

    title = f"Kubernetes {of_cluster.version(cluster)}, namespace {cluster.namespace}"
    facts = chain(of_cluster.facts(cluster), map(of_cluster.kubeflow, [host]))
    if probe:
        wanted_images = [pins.get(name, name) for name in (BASE, PYTORCH)]
        findings = probed(cluster, wanted_images, of_cluster.account_of_steps(cluster))
        facts = chain(
            facts, (Fact(Verdict(finding.verdict), finding.sentence) for finding in findings)
        )
    if output is Form.TEXT:
        typer.echo()
    _end([this_machine, _place(title, facts, output)], output)


def _place(title: str, facts: "Iterable[Fact]", form: Form) -> Place:
    """Returns what is so at a place, and what that allows; draws it as it comes."""
    if form is Form.TEXT:
        typer.echo(title)
    allows: list[str] = []

    def noted() -> "Iterator[Fact]":
        for fact in facts:
            if fact.allows and fact.verdict != FAILED:
                allows.append(fact.allows)
            yield fact

    place = Place(title=title, facts=checked(noted(), form, draw_fact), allows=allows)
    if form is Form.TEXT:
        typer.echo(f"  allows   {'; '.join(allows) or 'nothing'}")
    return place


def _end(places: list[Place], form: Form) -> NoReturn:
    """Shows the answer, whose text is drawn already, and ends the command."""
    failed = any(fact.verdict == FAILED for place in places for fact in place.facts)
    show(Diagnosis(failed=failed, places=places), form)
    raise typer.Exit(int(failed))
