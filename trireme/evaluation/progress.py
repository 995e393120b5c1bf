"""The course of a training, from what its program printed: ``epoch 3/10 loss 0.12``."""

import re
import statistics
from collections.abc import Iterable
from itertools import chain
from pathlib import Path

_EPOCH = re.compile(r"\bepoch (\d+)(?:/\d+)?((?:[ ,]+[A-Za-z_][\w/]*[ =:]+[-+.\deE]+)+)")
_FIGURE = re.compile(r"([A-Za-z_][\w/]*)[ =:]+([-+.\deE]+)")
LINES = 4  # that are drawn

RATE = "samples/s"
"""The figure that is a throughput, which is no line beside the others."""


def read(workspace: Path) -> dict[str, tuple[list[float], list[float]]]:
    """Returns the figures of each epoch by name: the epochs, and the values."""
    found = _figures(workspace)
    found.pop(RATE, None)
    return dict(list(found.items())[:LINES])


def throughput(workspace: Path) -> float | None:
    """Returns how many samples training took in per second, the median of its epochs."""
    _, rates = _figures(workspace).get(RATE, ([], []))
    return statistics.median(rates) if rates else None


def _figures(workspace: Path) -> dict[str, tuple[list[float], list[float]]]:
    for log in sorted((workspace / "steps" / "train").glob("*-0.log")):
        with log.open(errors="replace") as lines:
            if found := parsed(lines):
                return found
    return {}


def parsed(lines: Iterable[str]) -> dict[str, tuple[list[float], list[float]]]:
    """Returns the figures of each epoch in a log by name: the epochs, and the values."""
    by_epoch: dict[str, dict[int, float]] = {}
    for epoch, figures in chain.from_iterable(map(_EPOCH.findall, lines)):
        for name, value in _FIGURE.findall(figures):
            try:
                # After a restart an epoch may come again; the last time counts.
                by_epoch.setdefault(name, {})[int(epoch)] = float(value)
            except ValueError:
                continue
    drawn = {name: sorted(values.items()) for name, values in by_epoch.items()}
    return {
        name: ([epoch for epoch, _ in line], [value for _, value in line])
        for name, line in drawn.items()
        if len(line) > 1
    }
