"""The command line of deploying: ``trireme deploy``."""

import sys
import tempfile
from pathlib import Path
from typing import Annotated

import typer

from components.errors import InputError
from components.images import PYTORCH
from pipelines.job_cli import Context, Namespace

TIMEOUT = 600  # seconds


def deploy(
    model: Annotated[
        str,
        typer.Argument(
            metavar="MODEL[@ALIAS|/VERSION]",
            help="A registered model: by default its champion, else its newest version.",
        ),
    ],
    kind: Annotated[
        str, typer.Option("--as", metavar="KIND", help="deployment (with a Service), or kserve.")
    ] = "deployment",
    image: Annotated[
        str,
        typer.Option(help="With --as deployment: has MLflow and what the model needs."),
    ] = PYTORCH,
    timeout: Annotated[
        int, typer.Option(min=1, metavar="SECONDS", help="In which it has to come up.")
    ] = TIMEOUT,
    namespace: Namespace = "",
    context: Context = "",
) -> None:
    """Deploy a registered model to a cluster, and put back what was there if it does not work."""
    if kind not in ("deployment", "kserve"):
        raise InputError(f"--as {kind!r}: must be deployment or kserve")
    if kind == "kserve" and image != PYTORCH:
        raise InputError("--image: goes with --as deployment; KServe has images of its own")

    from components.deployment import deploying, plans, registered
    from components.tracking import store
    from components.training.cluster.connection import PATIENCE, PATIENCE_OF_A_PERSON, Cluster

    uri = store.use()
    found = registered.find(model)
    if found.note:
        _show(found.note)
    cluster = Cluster(
        namespace,
        context=context or None,
        patience=PATIENCE,
        patience_at_first=PATIENCE_OF_A_PERSON,
        on_wait=_show,
    )
    with tempfile.TemporaryDirectory(prefix="trireme-") as directory:
        brought = registered.bring(found, Path(directory, "model"))
        if kind == "kserve":
            plan = plans.as_kserve(brought)
        else:
            plan = plans.as_deployment(brought, uri, image)
    agreement = deploying.deploy(cluster, plan, timeout, _show)
    if agreement is None:
        typer.echo(f"{found} is deployed already; nothing was changed")
    else:
        typer.echo(f"{found} is deployed, and {agreement}")
    place = plans.place(cluster, plan)
    typer.echo(f"in the cluster: {place.url}\nfrom here: {place.command}")


def _show(sentence: str) -> None:
    print(sentence, file=sys.stderr, flush=True)
