"""Pipelines for a cluster: ``trireme compile`` and ``trireme upload``."""

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from trireme.pipelines.cli.target import (
    CacheClaim,
    DatasetClaim,
    Images,
    Parallelism,
    Shape,
    StorageClass,
    on_target,
)
from trireme.pipelines.targets.registry import BUILD, CLUSTERS

if TYPE_CHECKING:
    from trireme.pipelines.targets.base import Target

Pipelines = Annotated[
    list[str] | None,
    typer.Argument(metavar="[PIPELINE]...", help="As for run; default: all of Trireme's."),
]


@on_target(BUILD, default="kfp", known=CLUSTERS)
def compile(
    target: "Target",
    pipelines: Pipelines = None,
    output: Annotated[
        Path, typer.Option("--output", "-o", metavar="DIR", help="Folder for the files.")
    ] = Path("compiled"),
    dataset_claim: DatasetClaim = None,
    cache_claim: CacheClaim = "",
    storage_class: StorageClass = "",
    shape: Shape = None,
    images: Images = None,
    parallelism: Parallelism = None,
) -> None:
    """Write pipelines as YAML for Kubeflow Pipelines or Argo, to review, commit and upload."""
    from trireme.pipelines.catalog import PIPELINES
    from trireme.pipelines.loading import loaded

    options = (dataset_claim, cache_claim, images, parallelism, storage_class, shape)
    for pipeline in loaded(pipelines or list(PIPELINES), *options):
        typer.echo(target.compile(pipeline, output))


@on_target(BUILD, default="kfp", known=CLUSTERS)
def upload(
    target: "Target",
    pipelines: Pipelines = None,
    dataset_claim: DatasetClaim = None,
    cache_claim: CacheClaim = "",
    storage_class: StorageClass = "",
    shape: Shape = None,
    images: Images = None,
    parallelism: Parallelism = None,
) -> None:
    """Upload the pipelines that have changed to Kubeflow or Argo."""
    from trireme.pipelines.catalog import PIPELINES
    from trireme.pipelines.console import Console
    from trireme.pipelines.loading import loaded

    console = Console(sys.stdout)
    options = (dataset_claim, cache_claim, images, parallelism, storage_class, shape)
    for pipeline in loaded(pipelines or list(PIPELINES), *options):
        target.upload(pipeline).show(pipeline.name, console)
