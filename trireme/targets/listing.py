"""Runs as a list shows them: those of a target, the newest first."""

from collections.abc import Sequence
from textwrap import shorten
from typing import Any

from trireme.answers.answer import moment
from trireme.answers.runs import ListedRun, RunList
from trireme.targets import differing
from trireme.targets.base import Run, Target
from trireme.terminal.tables import age

WIDTH = 80  # characters of a run's result
PARAMETERS = 60  # of its parameters


def run_list(target: Target[Any], runs: Sequence[Run]) -> RunList:
    """Returns runs of a target as an answer."""
    return RunList(
        target=target.name,
        runs=[
            ListedRun(
                name=run.name,
                id=run.id,
                state=run.state,
                created=moment(run.created),
                seconds=run.seconds,
                parameters=parameters,
                result=run.result,
            )
            for run, parameters in zip(runs, differing.parameters(runs), strict=True)
        ],
    )


def rows(runs: Sequence[ListedRun]) -> tuple[list[str], list[list[str]]]:
    """Returns the heads of the columns that have something in them, and a row for each run."""
    columns = {
        "NAME": [run.name for run in runs],
        "STATE": [run.state for run in runs],
        "AGE": [age(run.created.timestamp()) for run in runs],
        "SECONDS": [f"{run.seconds:.0f}" for run in runs],
        "ID": [run.id for run in runs],
        "PARAMETERS": [_cut(run.parameters) for run in runs],
        "RESULT": [shorten(run.result, WIDTH, placeholder=" …") for run in runs],
    }
    filled = {name: cells for name, cells in columns.items() if any(cells)}
    return list(filled), [list(row) for row in zip(*filled.values(), strict=True)]


def _cut(parameters: dict[str, str]) -> str:
    text = " ".join(f"{name}={value}" for name, value in parameters.items())
    return text if len(text) <= PARAMETERS else f"{text[: PARAMETERS - 1]}…"
