"""The command line of deploying: ``trireme deploy``."""

from typing import Annotated

import typer

from trireme.cli.cluster import Context, Namespace, connect
from trireme.cli.registry import ServedModel
from trireme.deployment.kinds import check_kind
from trireme.errors import InputError
from trireme.images import PYTORCH
from trireme.text.say import say

TIMEOUT = 600  # seconds, as in trireme.deployment.deploy, which takes long to load


def deploy(
    model: ServedModel,
    kind: Annotated[
        str, typer.Option("--as", metavar="KIND", help="deployment (with a Service), or kserve.")
    ] = "deployment",
    image: Annotated[
        str, typer.Option(help="With --as deployment: image with MLflow and the model's packages.")
    ] = PYTORCH,
    timeout: Annotated[
        int,
        typer.Option(
            min=1, metavar="SECONDS", help="Time limit for the new version to become ready."
        ),
    ] = TIMEOUT,
    namespace: Namespace = "",
    context: Context = "",
) -> None:
    """Deploy a registered model to a cluster, and roll back if it does not work."""
    from trireme.deployment import deploy as deployed

    check_kind("--as", kind)
    if kind == "kserve" and image != PYTORCH:
        raise InputError("--image needs --as deployment; KServe has its own images")
    cluster = connect(namespace, context, stays=True)
    done, address = deployed.deploy(model, kind, image, timeout, cluster, say)
    typer.echo(f"{done}\nin the cluster: {address.url}\nfrom here: {address.command}")
