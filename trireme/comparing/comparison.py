"""The comparison of runs: its tables and curves, as both the terminal and the page show them."""

import html
import math
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from trireme.evaluation.figure_names import better
from trireme.report.picture import Curve
from trireme.tracking.arguments import EMPTY, PREFIX

PACKAGE = "package "
"""How the rows of installed packages begin."""

MOST_PACKAGES = 20  # that are shown


@dataclass(frozen=True)
class RecordedRun:
    """A run as MLflow has recorded it.

    Attributes:
        origin: Where it came from, such as its commit, by name.
        parameters: Those of the pipeline and of its training, the arguments one by one.
        packages: Versions by name; empty where nothing is known.
        metrics: Of the whole run and of its steps.
        curves: Of its training.
    """

    run_id: str
    name: str
    state: str
    origin: Mapping[str, str] = field(default_factory=dict)
    parameters: Mapping[str, str] = field(default_factory=dict)
    packages: Mapping[str, str] = field(default_factory=dict)
    metrics: Mapping[str, float] = field(default_factory=dict)
    curves: Mapping[str, Curve] = field(default_factory=dict)


class Difference(NamedTuple):
    """Something that is not the same in all runs; ``values`` are in their order."""

    name: str
    values: tuple[str, ...]


class Measured(NamedTuple):
    """A metric of all runs, in their order; None of one that does not have it.

    Attributes:
        best: Which of them are the best; empty where that is not known, or all are alike.
    """

    name: str
    values: tuple[float | None, ...]
    best: tuple[int, ...]


class Chart(NamedTuple):
    """The curves of one metric, by the number of their run."""

    name: str
    curves: dict[int, Curve]


@dataclass(frozen=True)
class Comparison:
    """What differs between runs, and what has come of it; ``print`` shows it.

    Attributes:
        names: The runs, in their order.
        states: How they are.
        same: How many parameters are the same in all of them.
        notes: What is not compared, and why.
    """

    names: tuple[str, ...]
    states: tuple[str, ...]
    differing: list[Difference]
    measured: list[Measured]
    charts: list[Chart]
    same: int = 0
    notes: tuple[str, ...] = ()

    @property
    def letters(self) -> list[str]:
        """What stands for each run."""
        return [chr(ord("A") + number) for number in range(len(self.names))]

    @property
    def differences(self) -> list[dict[str, Any]]:
        """The rows of what differs: ``name``, and the value of each run by the run's name."""
        return [self._row(row) for row in self.differing]

    @property
    def metrics(self) -> list[dict[str, Any]]:
        """The rows of metrics likewise; ``best`` are the names of the best runs."""
        return [
            self._row(row) | {"best": [self.names[number] for number in row.best]}
            for row in self.measured
        ]

    @property
    def html(self) -> str:
        """The comparison as a page."""
        from trireme.comparing import page

        return page.render(self)

    def _row(self, row: Difference | Measured) -> dict[str, Any]:
        return {"name": row.name, **dict(zip(self.names, row.values, strict=True))}

    def __str__(self) -> str:
        from trireme.comparing import words

        return "\n".join(words.lines(self))

    __repr__ = __str__

    def _repr_html_(self) -> str:
        page = html.escape(self.html)
        return f'<iframe srcdoc="{page}" style="width: 100%; height: 40em; border: 0"></iframe>'


def compare(runs: Sequence[RecordedRun], notes: Sequence[str] = ()) -> Comparison:
    """Compares runs."""
    origins = _differing([run.origin for run in runs])
    parameters = _differing([run.parameters for run in runs])
    every = {name for run in runs for name in run.parameters}
    packages = [Difference(f"{PACKAGE}{name}", values) for name, values in _packages(runs)]
    remarks = [*notes]
    if (remaining := len(packages) - MOST_PACKAGES) > 0:
        remarks.append(f"{remaining} more packages differ")
    return Comparison(
        names=tuple(run.name for run in runs),
        states=tuple(run.state for run in runs),
        differing=[*parameters, *origins, *packages[:MOST_PACKAGES]],
        measured=_measured(runs),
        charts=_charts(runs),
        same=len(every) - len(parameters),
        notes=tuple(remarks),
    )


def _differing(several: Sequence[Mapping[str, str]]) -> list[Difference]:
    names = dict.fromkeys(name for values in several for name in values)
    rows = [Difference(name, tuple(values.get(name, "") for values in several)) for name in names]
    differing = [
        row for row in rows if len({"" if value in EMPTY else value for value in row.values}) > 1
    ]
    return sorted(differing, key=lambda row: not row.name.startswith(PREFIX))


def _packages(runs: Sequence[RecordedRun]) -> list[Difference]:
    """Returns the packages that differ; none where those of a run are not known."""
    several = [run.packages for run in runs]
    return sorted(_differing(several)) if all(several) else []


def _measured(runs: Sequence[RecordedRun]) -> list[Measured]:
    measured = []
    for name in dict.fromkeys(name for run in runs for name in run.metrics):
        values = tuple(run.metrics.get(name) for run in runs)
        direction = better(name)
        finite = [value for value in values if value is not None and math.isfinite(value)]
        best: tuple[int, ...] = ()
        if direction and len(set(finite)) > 1:
            top = max(finite, key=lambda value: direction * value)
            best = tuple(number for number, value in enumerate(values) if value == top)
        measured.append(Measured(name, values, best))
    # First what a person compares models by, last what some runs do not have.
    return sorted(
        measured, key=lambda row: (not row.name.startswith("held_out"), None in row.values)
    )


def _charts(runs: Sequence[RecordedRun]) -> list[Chart]:
    """Returns the curves of each metric over each other; by steps and by seconds apart."""
    by_name: dict[tuple[str, str], dict[int, Curve]] = defaultdict(dict)
    for number, run in enumerate(runs):
        for name, curve in run.curves.items():
            by_name[name, curve.across][number] = curve
    charts = [Chart(name, several) for (name, _), several in by_name.items()]
    return sorted(charts, key=lambda chart: (-len(chart.curves), chart.name))
