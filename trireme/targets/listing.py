"""Runs as a list shows them: those of a target, the newest first."""

from collections.abc import Sequence
from textwrap import shorten

from trireme.targets import differing
from trireme.targets.base import Run
from trireme.terminal.tables import age

WIDTH = 80  # characters of a run's result
PARAMETERS = 60  # of its parameters


def rows(runs: Sequence[Run]) -> tuple[list[str], list[list[str]]]:
    """Returns the heads of the columns that have something in them, and a row for each run."""
    columns = {
        "NAME": [run.name for run in runs],
        "STATE": [run.state for run in runs],
        "AGE": [age(run.created) for run in runs],
        "SECONDS": [f"{run.seconds:.0f}" for run in runs],
        "ID": [run.id for run in runs],
        "PARAMETERS": [_cut(text) for text in differing.parameters(runs)],
        "RESULT": [shorten(run.result, WIDTH, placeholder=" …") for run in runs],
    }
    shown = {name: cells for name, cells in columns.items() if any(cells)}
    return list(shown), [list(row) for row in zip(*shown.values(), strict=True)]


def _cut(text: str) -> str:
    return text if len(text) <= PARAMETERS else f"{text[: PARAMETERS - 1]}…"
