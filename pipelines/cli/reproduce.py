"""``trireme reproduce``: train again as a run did."""

import sys
from functools import partial
from typing import TYPE_CHECKING, Annotated

import typer

from trireme.pipelines.cli.target import (
    CacheClaim,
    DatasetClaim,
    Images,
    Shape,
    StorageClass,
    on_target,
)
from trireme.pipelines.targets.registry import BUILD

if TYPE_CHECKING:
    from trireme.pipelines.targets.base import Target


@on_target(BUILD)
def reproduce(
    target: "Target",
    run: Annotated[str, typer.Argument(metavar="RUN", help="Id or name of a run in MLflow.")],
    pipeline: Annotated[
        str,
        typer.Argument(
            metavar="[PIPELINE]",
            help="The run's pipeline, if it is not one of Trireme's.",
            show_default=False,
        ),
    ] = "",
    verbose: Annotated[
        bool, typer.Option("--verbose", "-v", help="Show every line of every step and replica.")
    ] = False,
    dataset_claim: DatasetClaim = None,
    cache_claim: CacheClaim = "",
    storage_class: StorageClass = "",
    shape: Shape = None,
    images: Images = None,
) -> None:
    """Train again from a run's commit, data and seed, and compare the models bit by bit.

    With --target kfp or argo it trains there; the run may be one of any place.
    """
    from trireme.pipelines.console import Console
    from trireme.pipelines.loading import loaded
    from trireme.pipelines.targets.reproducing import reproduce

    load = partial(
        loaded,
        dataset_claims=dataset_claim,
        cache_claim=cache_claim,
        images=images,
        storage_class=storage_class,
        shape_file=shape,
    )
    raise typer.Exit(reproduce(target, run, pipeline, Console(sys.stdout, verbose), load))
