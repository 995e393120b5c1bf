"""``trireme reproduce``: train again as a run did."""

import sys
from typing import TYPE_CHECKING, Annotated

import typer

from trireme.pipelines.cli.target import on_target

if TYPE_CHECKING:
    from trireme.pipelines.targets.base import Target


@on_target()
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
) -> None:
    """Train again from a run's commit, data and seed, and compare the models bit by bit."""
    from trireme.pipelines import catalog
    from trireme.pipelines.console import Console

    given = catalog.load(pipeline) if pipeline else None
    raise typer.Exit(target.reproduce(run, given, Console(sys.stdout, verbose)))
