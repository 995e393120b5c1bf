"""Curves as small SVG that takes its colours from the page.

Not by matplotlib, as those of the report on a model: who looks at runs on a cluster need not have
it.
"""

import math
from collections.abc import Mapping, Sequence
from itertools import groupby
from operator import itemgetter

from markupsafe import Markup

from trireme.plain import plain
from trireme.report.picture import Curve

WIDTH, HEIGHT = 300.0, 130.0
LEFT, RIGHT, TOP, BOTTOM = 62.0, 6.0, 6.0, 18.0  # of these, what is around the lines
POINTS = 150  # places across at which a line has its least and greatest value
STYLES = ("solid", "dashed", "dotted")
COLOURS = 4  # that the page has for lines of each style
LINES = COLOURS * len(STYLES)  # that can be told apart

_CHART = Markup(
    '<svg class="curve" role="img" viewBox="0 0 {width:g} {height:g}" aria-label="{label}">'
    "{lines}{texts}</svg>"
)
_LINE = Markup('<path class="line{colour} {style}" d="{path}"><title>{name}</title></path>')
_DOT = Markup('<circle class="dot{colour}" cx="{x:.1f}" cy="{y:.1f}" r="2"/>')
_AXIS = Markup('<path class="axis" d="M{left:g} {y:.1f}H{right:g}"/>')
_TEXT = Markup('<text x="{x:g}" y="{y:g}" text-anchor="{anchor}">{text}</text>')

Points = list[tuple[float, float]]


def style_of(number: int) -> tuple[int, str]:
    """Returns the colour and the style of a line, of ``LINES``."""
    return number % COLOURS, STYLES[number // COLOURS]


def draw(name: str, shown: Mapping[str, Curve], numbers: Mapping[str, int]) -> Markup:
    """Draws the curves of one metric, by step; those of infinite or no values have gaps.

    Args:
        numbers: Those of the steps' lines, less than ``LINES``.
    """
    finite = [
        (at, value)
        for curve in shown.values()
        for at, value in zip(curve.at, curve.values, strict=True)
        if math.isfinite(value)
    ]
    across = (min(at for at, _ in finite), max(at for at, _ in finite))
    up = (min(value for _, value in finite), max(value for _, value in finite))

    def place(at: float, value: float) -> tuple[float, float]:
        x = LEFT + _share(at, across) * (WIDTH - LEFT - RIGHT)
        return x, HEIGHT - BOTTOM - _share(value, up) * (HEIGHT - TOP - BOTTOM)

    lines = Markup("").join(
        _AXIS.format(left=LEFT, right=WIDTH - RIGHT, y=y) for y in (TOP, HEIGHT - BOTTOM)
    )
    for step, curve in shown.items():
        colour, style = style_of(numbers[step])
        for run in _runs(curve):
            points = [place(*point) for point in _fewer(run, across)]
            if len(points) == 1:
                x, y = points[0]
                lines += _DOT.format(colour=colour, x=x, y=y)
                continue
            path = "M" + "L".join(f"{x:.1f} {y:.1f}" for x, y in points)
            lines += _LINE.format(colour=colour, style=style, path=path, name=plain(step))
    unit = next(iter(shown.values())).across
    texts = Markup("").join(
        _TEXT.format(x=x, y=y, anchor=anchor, text=plain(text))
        for x, y, anchor, text in (
            (LEFT - 4, TOP + 7, "end", _number(up[1])),
            (LEFT - 4, HEIGHT - BOTTOM + 2, "end", _number(up[0])),
            (LEFT, HEIGHT - 4, "start", f"{unit} {_number(across[0])}"),
            (WIDTH - RIGHT, HEIGHT - 4, "end", _number(across[1])),
        )
    )
    label = plain(f"{name} by {unit}")
    return _CHART.format(width=WIDTH, height=HEIGHT, label=label, lines=lines, texts=texts)


def last(curve: Curve) -> str:
    """Returns the last value of a curve."""
    return _number(curve.values[-1])


def _share(value: float, between: tuple[float, float]) -> float:
    low, high = between
    length = high / 2 - low / 2  # halved, as the range of the greatest numbers is infinite
    return (value / 2 - low / 2) / length if length else 0.5


def _runs(curve: Curve) -> list[Points]:
    """Returns the parts of a curve that lie between values that are no finite numbers."""
    pairs = zip(curve.at, curve.values, strict=True)
    parts = groupby(pairs, key=lambda pair: math.isfinite(pair[1]))
    return [list(part) for is_finite, part in parts if is_finite]


def _fewer(points: Points, across: tuple[float, float]) -> Sequence[tuple[float, float]]:
    """Returns of many points those that a person would see: of each place the least and greatest.

    So a spike of one step is still there.
    """
    if len(points) <= 2 * POINTS:
        return points
    fewer: Points = []
    for _, part in groupby(points, key=lambda point: int(_share(point[0], across) * POINTS)):
        near = list(part)
        fewer += sorted({min(near, key=itemgetter(1)), max(near, key=itemgetter(1))})
    return fewer


def _number(value: float) -> str:
    """Returns a number as short as it can be read."""
    return f"{value:,.0f}" if 1e4 <= abs(value) < 1e9 else f"{value:,.4g}"
