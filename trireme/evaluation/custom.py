"""Evaluation by a program of the user's, for models that ours cannot evaluate.

The program finds the repository in ``CODE_DIR``, the dataset in ``DATA_DIR``, the model in
``MODEL_DIR``, the run's base model, if it has one, in ``BASE_MODEL_DIR``, and leaves in
``EVALUATION_DIR``:

- ``metrics.json``, an object of numbers by name, the first of which is the headline;
- ``scores.npy``, if models are to be compared: a number for each held-out sample, the greater the
  better, in the same order every time;
- ``inputs.npy``, if the dataset has no held-out samples in a known form: a few real inputs on
  which exported files are compared with the model; of a model that takes texts or rows of a table
  ``inputs.json``, a list of texts or of objects;
- ``samples.json``, a table for the report: a list of objects of texts and numbers by name, such as
  questions and the answers of two models;
- pictures for the report, ``*.png`` and ``*.svg``.
"""

import math
import os
import subprocess
import sys
import tempfile
import threading
from collections import deque
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np

from trireme.cause import ended
from trireme.errors import InputError, StepFailed
from trireme.evaluation.figure_names import words
from trireme.evaluation.figures import Evaluation, Score
from trireme.evaluation.options import CustomEvaluation, outside
from trireme.evaluation.source import Source
from trireme.files import left_files
from trireme.models.trained import NotLoadable
from trireme.runner.failed_replica import TAIL
from trireme.runner.inputs import BASE_MODEL
from trireme.text import json_values
from trireme.text.variables import expand
from trireme.tracking import environment, runs

PICTURES = (".png", ".svg")

SCORES = "scores.npy"

TEXTS = "inputs.json"

SHOWN = "samples.json"

MOST_SHOWN = 50  # rows of it that are in the report

LATE = 5.0  # seconds in which what a program has printed is read once it has ended

ROUNDED = 1e-5  # what a mean of 32-bit numbers may be above 1

FOUND = "evaluation"
"""EVALUATION_DIR in the run workspace."""


def run(
    program: CustomEvaluation, source: Source, data: Path, directory: Path, tracked: bool = True
) -> None:
    """Runs the program on a model, which finds the step's MLflow run if ``tracked``."""
    called = f"evaluation.entrypoint {program.entrypoint!r}"
    file = source.code / program.entrypoint
    if not file.is_file():
        raise InputError(f"{called} does not exist in the repository that was checked out")
    directory.mkdir(parents=True, exist_ok=True)
    places = {"CODE_DIR": source.code, "DATA_DIR": data, "MODEL_DIR": source.model}
    places["EVALUATION_DIR"] = directory
    variables = {name: str(path) for name, path in places.items()}
    variables["PYTHONFAULTHANDLER"] = "1"  # where a signal such as SIGSEGV has come from
    variables |= {BASE_MODEL: source.base_model} if source.base_model else {}
    for name, text in program.env.items():
        variables[name] = expand(text, os.environ | variables)
    with tempfile.TemporaryDirectory() as elsewhere:
        if tracked:
            tracking = runs.variables_of_a_program()
        else:
            tracking = dict.fromkeys(environment.VARIABLES, "")
            tracking["MLFLOW_TRACKING_URI"] = f"sqlite:///{elsewhere}/mlflow.db"
        known_variables = os.environ | variables
        command = [str(file), *(expand(word, known_variables) for word in program.args)]
        status, lines = _followed(command, source.code, variables | tracking)
    if status:
        raise StepFailed(f"{called} {ended(status, lines.splitlines())}", lines)
    left_files.tidy(directory, "EVALUATION_DIR")


def _followed(program: list[str], directory: Path, variables: dict[str, str]) -> tuple[int, str]:
    """Runs a Python program and prints what it does; returns its status and its last lines."""
    last: deque[str] = deque(maxlen=TAIL)
    process = subprocess.Popen(
        [sys.executable, "-u", *program],
        cwd=directory,
        env={
            name: value
            for name, value in (os.environ | variables).items()
            if value or name not in environment.VARIABLES  # MLflow reads an empty one as an address
        },
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        errors="replace",
    )

    def show() -> None:
        assert process.stdout
        for line in process.stdout:
            last.append(line)
            with suppress(OSError, ValueError):  # a program that nobody reads would wait for ever
                print(line, end="", flush=True)

    reader = threading.Thread(target=show, daemon=True)
    reader.start()
    process.wait()
    reader.join(LATE)  # what the program has started, and left, may hold its output open
    return process.returncode, "".join(last).rstrip()


def read(directory: Path) -> Evaluation:
    """Returns what the program has left."""
    figures = _figures(directory / "metrics.json")
    name, value = next(iter(figures.items()))
    scores = _array(directory / SCORES)
    if scores is not None and (scores.ndim != 1 or not np.isfinite(scores).all()):
        raise NotLoadable("scores.npy is not one finite number for each held-out sample")
    inputs_of(directory)  # which the export needs, hours later
    is_mean = scores is not None and np.isclose(scores.mean(), value)
    return Evaluation(
        headline=f"{words(name)} {value:.4g}",
        figures=figures,
        between=None,
        score=Score("" if scores is None else name if is_mean else SCORES),
        scores=np.zeros(0) if scores is None else scores.astype(float),
        shown=_shown(directory / SHOWN),
        pictures=sorted(
            file for file in directory.iterdir() if file.suffix in PICTURES and file.is_file()
        ),
    )


def inputs_of(directory: Path) -> np.ndarray | None:
    """Returns the inputs that the program has left to compare exported files on, if it has.

    Texts are an array of them, rows of a table one with a field for each column.
    """
    file = directory / TEXTS
    if not file.exists():
        return _array(directory / "inputs.npy")
    if (directory / "inputs.npy").exists():
        raise NotLoadable(f"the evaluation wrote both inputs.npy and {TEXTS}; have it write one")
    try:
        rows = json_values.read(file.read_text())
    except (OSError, ValueError, RecursionError) as error:
        raise NotLoadable(f"{TEXTS} cannot be read: {error}") from None
    if isinstance(rows, list) and rows:
        if all(isinstance(item, str) for item in rows):
            return np.array(rows)
        if all(isinstance(item, dict) and item and item.keys() == rows[0].keys() for item in rows):
            return _rows(rows)
    raise NotLoadable(f"{TEXTS} is neither a list of texts nor one of objects with the same names")


def _shown(file: Path) -> list[dict[str, Any]]:
    """Returns the rows of a table that the program has left for people."""
    if not file.exists():
        return []
    try:
        rows = json_values.read(file.read_text())
    except (OSError, ValueError, RecursionError) as error:
        raise NotLoadable(f"{SHOWN} cannot be read: {error}") from None
    if not isinstance(rows, list) or not all(isinstance(row, dict) for row in rows):
        raise NotLoadable(f"{SHOWN} is not a list of objects")
    return rows[:MOST_SHOWN]


def _rows(records: list[dict[str, Any]]) -> np.ndarray:
    columns = {name: np.array([row[name] for row in records]) for name in records[0]}
    for name, column in columns.items():
        are_of_one_kind = len({isinstance(row[name], str) for row in records}) == 1
        if column.ndim > 1 or column.dtype.kind not in "iufbU" or not are_of_one_kind:
            raise NotLoadable(f"{TEXTS}: {name!r} is not a number in each object, nor a text")
    rows = np.empty(len(records), [(name, column.dtype) for name, column in columns.items()])
    for name, column in columns.items():
        rows[name] = column
    return rows


def _figures(file: Path) -> dict[str, float]:
    try:
        figures = json_values.read(file.read_text())
    except (OSError, ValueError, RecursionError) as error:
        raise NotLoadable(f"the evaluation wrote no readable metrics.json: {error}") from None
    if not isinstance(figures, dict) or not figures:
        raise NotLoadable("metrics.json is not an object of numbers by name")
    return {name: _finite(name, value) for name, value in figures.items()}


def _finite(name: str, value: object) -> float:
    if isinstance(value, int | float) and not isinstance(value, bool):
        with suppress(OverflowError):
            if math.isfinite(number := float(value)):
                if wrong := outside(name, number, ROUNDED):
                    raise NotLoadable(f"metrics.json: {name!r} is {number:g}, but {wrong}")
                return number
    raise NotLoadable(f"metrics.json: {name!r} is not a finite number")


def _array(file: Path) -> np.ndarray | None:
    """Returns the array in a file, with a number or more for each of some samples."""
    if not file.exists():
        return None
    try:
        array = np.lib.format.open_memmap(file, mode="c")
    except (ValueError, OSError, EOFError) as error:
        raise NotLoadable(f"{file.name} is not a readable array: {error}") from None
    if not array.size or not array.shape or array.dtype.kind not in "iufb":
        raise NotLoadable(f"{file.name} does not hold numbers for each sample")
    return array
