"""Runs side by side: ``trireme compare``."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from trireme.cli.target import on_target

if TYPE_CHECKING:
    from trireme.targets.base import Target

NAME = "comparison.html"


@on_target()
def compare(
    target: "Target",
    runs: Annotated[
        list[str],
        typer.Argument(
            metavar="RUN RUN...",
            help="Names of runs, or the beginnings, or latest; or names or ids in MLflow.",
        ),
    ],
    output: Annotated[
        Path | None,
        typer.Option(
            "-o", "--output", metavar="FILE", help="Write a page, too: it, or its folder."
        ),
    ] = None,
) -> None:
    """Show what differs between runs, their metrics side by side, and their curves.

    trireme compare RUN RUN

    trireme compare RUN RUN RUN --target kfp -n team -o comparison.html
    """
    from trireme.cli import pages
    from trireme.targets import comparing
    from trireme.tracking.client import hurry

    hurry()
    found = comparing.compare(target, runs)
    typer.echo(str(found))
    if output:
        typer.echo(f"\n{pages.write(found.html, output, NAME)}")
