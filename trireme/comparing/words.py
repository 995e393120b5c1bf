"""A comparison of runs as lines of a terminal: its tables, and the curves as letters."""

import math
import re
import shutil
from bisect import bisect
from collections.abc import Mapping, Sequence
from itertools import takewhile

from trireme.comparing.comparison import Comparison
from trireme.plain import in_a_line
from trireme.report.picture import Curve
from trireme.terminal.tables import lines as table
from trireme.tracking.arguments import EMPTY

CHARTS = 4  # that are drawn on a terminal
HEIGHT = 10  # lines of one
NARROWEST = 16  # characters of a column

_HASH = re.compile(r"((?:\w+:)?[0-9a-f]{12})[0-9a-f]{20,}")

SEVERAL = "*"
"""What is drawn where the curves of several runs are."""


def lines(comparison: Comparison) -> list[str]:
    """Returns the lines, as wide as the terminal."""
    width = shutil.get_terminal_size().columns
    letters = comparison.letters
    runs = zip(letters, comparison.names, comparison.states, strict=True)
    shown = [f"{letter}  {in_a_line(name)}  {state}" for letter, name, state in runs]
    room = _room(width, comparison)
    rows = [[row.name, *shortened(row.values, room)] for row in comparison.differing]
    more = f"{comparison.same} parameters are the same"
    shown += ["", *table(["DIFFERS", *letters], rows), more if rows else f"nothing differs; {more}"]
    measured = [
        [row.name, *(_marked(cell, number in row.best) for number, cell in enumerate(cells))]
        for row in comparison.measured
        for cells in [figures(row.values)]
    ]
    shown += ["", *table(["METRIC", *letters], measured)] if measured else []
    if any(row.best for row in comparison.measured):
        shown.append("< is the best")
    for chart in comparison.charts[:CHARTS]:
        curves = {letters[number]: curve for number, curve in chart.curves.items()}
        shown += ["", in_a_line(chart.name), *plot(curves, width)]
    if (remaining := len(comparison.charts) - CHARTS) > 0:
        shown += ["", f"{remaining} more curves are in the page, which -o FILE writes"]
    return shown + [in_a_line(note) for note in comparison.notes]


def shortened(values: Sequence[str], room: int) -> list[str]:
    """Returns values of a width, cut so that they are still seen to differ."""
    shown = [_HASH.sub(r"\1", value) for value in values]
    shown = ["-" if value in EMPTY else in_a_line(value) for value in shown]
    if max(map(len, shown)) > room:
        letters = zip(*(value for value in shown if value != "-"), strict=False)
        alike = sum(1 for _ in takewhile(lambda column: len({*column}) == 1, letters))
        if alike > room // 2:
            begin = alike - room // 4
            shown = [value if value == "-" else f"…{value[begin:]}" for value in shown]
    return [value if len(value) <= room else f"{value[: room - 1]}…" for value in shown]


def figures(values: Sequence[float | None]) -> list[str]:
    """Returns numbers with as many digits as it takes to tell them apart."""
    for digits in (4, 6, 9, 17):
        shown = [f"{value:.{digits}g}" for value in values if value is not None]
        if len(set(shown)) == len({value for value in values if value is not None}):
            break
    return ["-" if value is None else f"{value:.{digits}g}" for value in values]


def plot(curves: Mapping[str, Curve], width: int) -> list[str]:
    """Returns curves over each other, each drawn by its letter; infinite values have gaps."""
    finite = {
        letter: [
            (at, value)
            for at, value in sorted(zip(curve.at, curve.values, strict=True))
            if math.isfinite(value)
        ]
        for letter, curve in curves.items()
    }
    points = [point for curve in finite.values() for point in curve]
    low, high = min(value for _, value in points), max(value for _, value in points)
    first, last = min(at for at, _ in points), max(at for at, _ in points)
    labels = figures([high, low])
    margin = max(map(len, labels))
    across = max(width - margin - 3, NARROWEST)
    grid = [[" "] * across for _ in range(HEIGHT)]
    for letter, of_run in finite.items():
        for column in range(across):
            at = first + (last - first) * column / (across - 1)
            value = _value(of_run, at, (last - first) / (across - 1))
            if value is None:
                continue
            share = (value / 2 - low / 2) / (high / 2 - low / 2) if high > low else 0.5
            line = grid[round((1 - share) * (HEIGHT - 1))]
            line[column] = letter if line[column] == " " else SEVERAL
    names = [labels[0], *[""] * (HEIGHT - 2), labels[1]]
    shown = [
        f"{name:>{margin}} |{''.join(line)}".rstrip()
        for name, line in zip(names, grid, strict=True)
    ]
    unit, end = in_a_line(next(iter(curves.values())).across), f"{last:g}"
    begin = f"{unit} {first:g}"
    return [*shown, f"{'':>{margin}} +{begin}{end:>{max(across - len(begin), len(end) + 1)}}"]


def _room(width: int, comparison: Comparison) -> int:
    """Returns how wide a run's column may be."""
    names = max((len(row.name) for row in comparison.differing), default=0)
    return max((width - names) // len(comparison.names) - 2, NARROWEST)


def _marked(cell: str, is_best: bool) -> str:
    return f"{cell} <" if is_best else cell


def _value(points: Sequence[tuple[float, float]], at: float, near: float) -> float | None:
    """Returns the value of a curve somewhere, between two points of it; None where it is not."""
    if not points or not points[0][0] - near / 2 <= at <= points[-1][0] + near / 2:
        return None
    index = bisect(points, (at, math.inf))
    if index == 0 or index == len(points):
        return points[min(index, len(points) - 1)][1]
    (left, before), (right, after) = points[index - 1 : index + 1]
    share = (at - left) / (right - left) if right > left else 1.0
    return before * (1 - share) + after * share
