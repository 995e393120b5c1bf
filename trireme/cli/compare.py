"""Runs side by side: ``trireme compare``."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from trireme.cli.output import Form, show
from trireme.cli.target import on_target

if TYPE_CHECKING:
    from trireme.answers.comparisons import RunComparison
    from trireme.comparing.comparison import Comparison
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
            "-o",
            "--output",
            metavar="FILE|json|yaml",
            help="Write a page, too: it, or its folder. json or yaml: the answer for scripts.",
        ),
    ] = None,
) -> None:
    """Show what differs between runs, their metrics side by side, and their curves."""
    from trireme.cli import pages
    from trireme.targets import comparing
    from trireme.tracking.client import hurry

    hurry()
    found = comparing.compare(target, runs)
    form = Form(str(output)) if str(output) in (Form.JSON, Form.YAML) else Form.TEXT
    show(_answer(found), form, lambda answer: typer.echo(str(found)))
    if output and form is Form.TEXT:
        typer.echo(f"\n{pages.write(found.html, output, NAME)}")


def _answer(found: "Comparison") -> "RunComparison":
    from trireme.answers.comparisons import (
        ComparedRun,
        DifferingValue,
        MeasuredValue,
        RunComparison,
    )

    return RunComparison(
        runs=[
            ComparedRun(name=name, state=state)
            for name, state in zip(found.names, found.states, strict=True)
        ],
        differing=[
            DifferingValue(name=each.name, values=list(each.values)) for each in found.differing
        ],
        metrics=[
            MeasuredValue(name=each.name, values=list(each.values), best=list(each.best))
            for each in found.measured
        ],
        same=found.same,
        notes=list(found.notes),
    )
