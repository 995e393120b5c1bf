"""Pipelines for a cluster: ``trireme compile`` and ``trireme upload``."""

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from trireme.cli.target import LOADING, on_target
from trireme.targets.registry import BUILD, CLUSTERS
from trireme.text.say import say

if TYPE_CHECKING:
    from collections.abc import Sequence

    from trireme.pipeline.pipeline import Pipeline
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

    made = loaded(pipelines or list(PIPELINES), **loading)
    for pipeline in made:
        typer.echo(target.compile(pipeline, output))
    _tell_of_images(made)


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
    made = loaded(pipelines or list(PIPELINES), **loading)
    for pipeline in made:
        target.upload(pipeline).show(pipeline.name, console)
    _tell_of_images(made, registries=True)


def _tell_of_images(pipelines: "Sequence[Pipeline]", *, registries: bool = False) -> None:
    """Says which images are not pinned and, if registries are to be asked, which are not there."""
    from trireme.compiling import images, registry

    used = set().union(*(pipeline.graph.images for pipeline in pipelines))
    for note in images.notes(used, registry.missing(used) if registries else ()):
        say(note)
