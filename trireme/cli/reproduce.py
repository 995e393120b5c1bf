"""``trireme reproduce``: train again as a run did."""

import sys
from functools import partial
from typing import TYPE_CHECKING, Annotated, Any

import typer

from trireme.cli.target import on_target
from trireme.targets.registry import BUILD

if TYPE_CHECKING:
    from trireme.targets.base import Target


@on_target(BUILD, loading=("dataset_claims", "cache_claim", "storage_class", "shape", "images"))
def reproduce(
    target: "Target",
    loading: dict[str, Any],
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
) -> None:
    """Train again from a run's commit, data and seed, and compare the models bit by bit.

    With --target kfp or argo it trains there; the run may be one of any place.
    """
    from trireme.compiling.loading import loaded
    from trireme.targets.reproducing import reproduce
    from trireme.terminal.console import Console

    load, console = partial(loaded, **loading), Console(sys.stdout, verbose)
    raise typer.Exit(reproduce(target, run, pipeline, console, load))
