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
            help="The pipeline that it was a run of, if that is not one of Trireme's own.",
            show_default=False,
        ),
    ] = "",
    verbose: Annotated[
        bool, typer.Option("--verbose", "-v", help="Show every line of every step and replica.")
    ] = False,
) -> None:
    """Train again as a run did, and compare the models bit by bit."""
    from trireme.pipelines import catalog
    from trireme.pipelines.console import Console

    given = catalog.load(pipeline) if pipeline else None
    raise typer.Exit(target.reproduce(run, given, Console(sys.stdout, verbose)))
