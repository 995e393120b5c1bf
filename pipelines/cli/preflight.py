"""What ``trireme job preflight`` shows."""

import typer

from trireme.components.errors import TriremeError
from trireme.components.plain import plain
from trireme.components.training.preflight.report import HEADINGS, Report, figures
from trireme.components.training.preflight.report import table as rows_of
from trireme.pipelines.tables import table


def show(report: Report) -> None:
    """Prints what a preflight has found.

    Raises:
        PreflightFailed: The job must not train.
        TriremeError: There is no result.
    """
    content = report.content
    if not content:
        raise TriremeError("the preflight has no result; what its replicas printed says why")
    table(HEADINGS, rows_of(content))
    for name, value in figures(content).items():
        typer.echo(f"{name.partition('/')[2].replace('_', ' ')}: {value:.3g}")
    if report.failure:
        raise report.failure
    for problem in report.problems:
        typer.echo(f"warning: {plain(problem['sentence'])}")
