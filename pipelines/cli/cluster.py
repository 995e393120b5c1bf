"""What every command that asks a cluster shares."""

from typing import TYPE_CHECKING, Annotated

import typer

from trireme.components.say import say

if TYPE_CHECKING:
    from trireme.components.kubernetes.connection import Cluster

Namespace = Annotated[
    str, typer.Option("--namespace", "-n", help="Namespace; default: that of the KUBECONFIG.")
]
Context = Annotated[str, typer.Option(help="Context of the KUBECONFIG; default: the current one.")]


def connect(namespace: str, context: str, stays: bool = False) -> "Cluster":
    """Returns the cluster, for a command that asks something or that stays until a job ends."""
    from trireme.components.kubernetes.connection import PATIENCE, PATIENCE_OF_A_PERSON, Cluster

    return Cluster(
        namespace,
        context=context or None,
        patience=PATIENCE if stays else PATIENCE_OF_A_PERSON,
        patience_at_first=PATIENCE_OF_A_PERSON,
        on_wait=say,
    )
