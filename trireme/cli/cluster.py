"""Options of every command that asks a cluster."""

from typing import TYPE_CHECKING, Annotated

import typer

from trireme.cli.lazy import CLUSTER
from trireme.text.say import say

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from trireme.kubernetes.connection import Cluster
    from trireme.runner.cluster.checks import Finding

Namespace = Annotated[
    str,
    typer.Option(
        "--namespace",
        "-n",
        metavar="NAME",
        rich_help_panel=CLUSTER,
        help="Namespace; default: that of the KUBECONFIG.",
    ),
]
Context = Annotated[
    str,
    typer.Option(
        metavar="NAME",
        rich_help_panel=CLUSTER,
        help="Context of the KUBECONFIG; default: the current one.",
    ),
]

Probe = Annotated[
    bool,
    typer.Option(
        "--probe",
        help="Try images and MLflow, too, by a pod that pulls them and is removed; takes minutes.",
    ),
]


def connect(namespace: str, context: str, stays: bool = False) -> "Cluster":
    """Returns the cluster, for a command that asks something or that stays until a job ends."""
    from trireme.kubernetes.connection import PATIENCE, PATIENCE_OF_A_PERSON, Cluster

    return Cluster(
        namespace,
        context=context or None,
        patience=PATIENCE if stays else PATIENCE_OF_A_PERSON,
        patience_at_first=PATIENCE_OF_A_PERSON,
        on_wait=say,
    )


def probed(cluster: "Cluster", images: "Sequence[str]", account: str) -> "Iterator[Finding]":
    """Yields what a pod finds of images and of MLflow; the pod is removed on Ctrl-C as well."""
    from trireme.doctor import probe
    from trireme.process.signals import Interrupted, from_a_terminal, handled, interrupt

    every_image = [*images, *probe.engine_images(cluster)]
    try:
        with handled(interrupt, from_a_terminal()):
            yield from probe.probe(cluster, every_image, account, say)
    except Interrupted as interruption:
        raise typer.Exit(128 + interruption.number) from None
