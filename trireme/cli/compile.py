"""Pipelines for a cluster: ``trireme compile`` and ``trireme upload``."""

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from trireme.cli.target import LOADING, on_target
from trireme.targets.registry import BUILD, CLUSTERS

if TYPE_CHECKING:
    from trireme.targets.base import Target

Pipelines = Annotated[
    list[str] | None,
    typer.Argument(metavar="[PIPELINE]...", help="As for run; default: all of Trireme's."),
]


@on_target(BUILD, loading=LOADING, default="kfp", known=CLUSTERS)
def compile(
    target: "Target",
    loading: dict[str, Any],
    pipelines: Pipelines = None,
    output: Annotated[
        Path, typer.Option("--output", "-o", metavar="DIR", help="Folder for the files.")
    ] = Path("compiled"),
) -> None:
    """Write pipelines as YAML for Kubeflow Pipelines or Argo, to review, commit and upload."""
    from trireme.compiling.loading import loaded
    from trireme.pipeline.catalog import PIPELINES

    for pipeline in loaded(pipelines or list(PIPELINES), **loading):
        typer.echo(target.compile(pipeline, output))


@on_target(BUILD, loading=LOADING, default="kfp", known=CLUSTERS)
def upload(
    target: "Target",
    loading: dict[str, Any],
    pipelines: Pipelines = None,
) -> None:
    """Upload the pipelines that have changed to Kubeflow or Argo."""
    from trireme.compiling.loading import loaded
    from trireme.pipeline.catalog import PIPELINES
    from trireme.terminal.console import Console

    console = Console(sys.stdout)
    for pipeline in loaded(pipelines or list(PIPELINES), **loading):
        target.upload(pipeline).show(pipeline.name, console)
