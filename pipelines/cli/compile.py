"""The command line of pipelines for a cluster: ``trireme compile`` and ``trireme upload``."""

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from trireme.pipelines.cli import argo as argo_cli
from trireme.pipelines.cli.target import (
    SERVICE_ACCOUNT,
    THERE,
    CaFile,
    Context,
    Endpoint,
    Namespace,
    Place,
    ServiceAccount,
    There,
    TokenFile,
    check_target,
)

if TYPE_CHECKING:
    from trireme.pipelines.console import Console
    from trireme.pipelines.targets.kubeflow.uploading import Version

DatasetClaim = Annotated[
    list[str] | None,
    typer.Option(metavar="CLAIM", help="A PVC for dataset_uri pvc://CLAIM/path; repeatable."),
]
CacheClaim = Annotated[
    str, typer.Option(metavar="CLAIM", help="A PVC for datasets that all runs share.")
]

Images = Annotated[
    Path | None,
    typer.Option(metavar="FILE", help="YAML: for names of images, those with digests to use."),
]

Parallelism = Annotated[
    int | None,
    typer.Option(min=1, metavar="N", help="Trainings of a sweep at once; default: its own, 4."),
]


def compile(
    command: typer.Context,
    pipelines: Annotated[
        list[str] | None, typer.Argument(metavar="[PIPELINE]...", help="All, if none is named.")
    ] = None,
    output: Annotated[
        Path, typer.Option("--output", "-o", metavar="DIR", help="Where the files go.")
    ] = Path("compiled"),
    dataset_claim: DatasetClaim = None,
    cache_claim: CacheClaim = "",
    images: Images = None,
    parallelism: Parallelism = None,
    target: There = "kfp",
    service_account: ServiceAccount = SERVICE_ACCOUNT,
) -> None:
    """Write pipelines as YAML for Kubeflow Pipelines or Argo, to review, commit and upload."""
    check_target(command, target, THERE)
    from trireme.pipelines import catalog
    from trireme.pipelines.compiling import ir
    from trireme.pipelines.compiling.images import pinned, read
    from trireme.pipelines.compiling.loops import limited

    claims, pins = ir.mounts(dataset_claim or [], cache_claim), read(images)
    named = (catalog.load(name) for name in pipelines or catalog.PIPELINES)
    chosen = [limited(pinned(pipeline, pins), parallelism) for pipeline in named]
    if target == "argo":
        argo_cli.compile(chosen, output, claims, service_account)
        return
    for pipeline in chosen:
        typer.echo(ir.write(pipeline, output, claims))


def upload(
    command: typer.Context,
    pipelines: Annotated[
        list[str] | None, typer.Argument(metavar="[PIPELINE]...", help="All, if none is named.")
    ] = None,
    dataset_claim: DatasetClaim = None,
    cache_claim: CacheClaim = "",
    images: Images = None,
    parallelism: Parallelism = None,
    endpoint: Endpoint = "",
    token_file: TokenFile = "",
    ca_file: CaFile = "",
    namespace: Namespace = "",
    context: Context = "",
    target: There = "kfp",
    service_account: ServiceAccount = SERVICE_ACCOUNT,
) -> None:
    """Upload pipelines to Kubeflow or Argo, each if it has changed."""
    check_target(command, target, THERE)
    from trireme.pipelines import catalog
    from trireme.pipelines.compiling import ir
    from trireme.pipelines.compiling.images import pinned, read
    from trireme.pipelines.compiling.loops import limited
    from trireme.pipelines.console import Console
    from trireme.pipelines.targets.kubeflow import uploading

    claims, pins = ir.mounts(dataset_claim or [], cache_claim), read(images)
    named = (catalog.load(name) for name in pipelines or catalog.PIPELINES)
    chosen = [limited(pinned(pipeline, pins), parallelism) for pipeline in named]
    console = Console(sys.stdout)
    if target == "argo":
        cluster = argo_cli.connected(namespace, context)
        argo_cli.upload(chosen, cluster, claims, service_account, console)
        return
    connection = Place(endpoint, token_file, ca_file, namespace, context).connect()
    for pipeline in chosen:
        show(pipeline.name, uploading.upload(connection, pipeline, claims), console)


def show(pipeline: str, version: "Version", console: "Console") -> None:
    """Says which version of a pipeline the server has now.

    Args:
        pipeline: The pipeline's name.
        version: The version.
        console: Where it is said.
    """
    what = "uploaded" if version.is_new else "is there already, unchanged"
    console.print(f"{pipeline} {what}", "bold")
    console.facts({"Version": version.name, "Id": version.id, "Page": version.page})
