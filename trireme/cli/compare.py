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
    comparison = comparing.compare(target, runs)
    form = Form(str(output)) if str(output) in (Form.JSON, Form.YAML) else Form.TEXT
    show(_answer(comparison), form, lambda answer: typer.echo(str(comparison)))
    if output and form is Form.TEXT:
        typer.echo(f"\n{pages.write(comparison.html, output, NAME)}")


def _answer(comparison: "Comparison") -> "RunComparison":
    from trireme.answers.comparisons import (
        ComparedRun,
        DifferingValue,
        MeasuredValue,
        RunComparison,
    )

    return RunComparison(
        runs=[
            ComparedRun(name=name, state=state)
            for name, state in zip(comparison.names, comparison.states, strict=True)
        ],
        differing=[
            DifferingValue(name=value.name, values=list(value.values))
            for value in comparison.differing
        ],
        metrics=[
            MeasuredValue(name=metric.name, values=list(metric.values), best=list(metric.best))
            for metric in comparison.measured
        ],
        same=comparison.same,
        notes=list(comparison.notes),
    )
