"""The command line of deploying: ``trireme deploy``."""

from typing import Annotated

import typer

from trireme.components.deployment.kinds import check_kind
from trireme.components.errors import InputError
from trireme.components.images import PYTORCH
from trireme.components.say import say
from trireme.pipelines.cli.cluster import Context, Namespace, connect
from trireme.pipelines.cli.registry import ServedModel

TIMEOUT = 600  # seconds, as in trireme.components.deployment.deploy, which takes long to load


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
    from trireme.components.deployment import deploy as deployed

    check_kind("--as", kind)
    if kind == "kserve" and image != PYTORCH:
        raise InputError("--image needs --as deployment; KServe has its own images")
    cluster = connect(namespace, context, stays=True)
    done, place = deployed.deploy(model, kind, image, timeout, cluster, say)
    typer.echo(f"{done}\nin the cluster: {place.url}\nfrom here: {place.command}")
