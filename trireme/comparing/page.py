"""A comparison of runs as one page of HTML, which needs no network and no JavaScript."""

from typing import NamedTuple

from markupsafe import Markup

from trireme.comparing.comparison import Comparison
from trireme.comparing.words import figures
from trireme.pages import template
from trireme.report import curves

CHARTS = 24  # that are shown


class Drawn(NamedTuple):
    """The curves of one metric."""

    name: str
    svg: Markup


def render(comparison: Comparison) -> str:
    """Returns the page."""
    labels = [
        f"{letter} {name}"
        for letter, name in zip(comparison.letters, comparison.names, strict=True)
    ]
    lines = {label: number for number, label in enumerate(labels)}
    drawn = [
        Drawn(
            chart.name,
            curves.draw(
                chart.name,
                {labels[number]: curve for number, curve in chart.curves.items()},
                lines,
            ),
        )
        for chart in comparison.charts[:CHARTS]
    ]
    return template(__package__, "page_of_a_comparison.html").render(
        comparison=comparison,
        runs=list(zip(comparison.letters, comparison.names, comparison.states, strict=True)),
        measured=[(row, figures(row.values)) for row in comparison.measured],
        drawn=drawn,
        more=len(comparison.charts) - len(drawn),
        style_of=curves.style_of,
    )
