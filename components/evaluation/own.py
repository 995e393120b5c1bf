"""Evaluation by a program of the user's, for models that ours cannot evaluate.

The program finds the repository in ``CODE_DIR``, the dataset in ``DATA_DIR``, the model in
``MODEL_DIR``, and leaves in ``EVALUATION_DIR``:

- ``metrics.json``, an object of numbers by name, the first of which is the headline;
- ``scores.npy``, if models are to be compared: a number for each held-out sample, the greater the
  better, in the same order every time;
- ``inputs.npy``, if the dataset has no held-out samples in a known form: a few real inputs on
  which exported files are compared with the model;
- pictures for the report, ``*.png`` and ``*.svg``.
"""

import json
import math
import os
import subprocess
import sys
from collections import deque
from pathlib import Path
from typing import Any

import numpy as np

from components.errors import InputError, StepFailed, exit_in_words
from components.evaluation.figures import Evaluation, Score, words
from components.part import Part
from components.tracking import environment
from components.training.blame import KEPT, TAIL
from components.training.result.trained import NotLoadable

PICTURES = (".png", ".svg")

FOUND = "evaluation"
"""EVALUATION_DIR in the run workspace."""

INPUTS = "inputs.npy"


class Own(Part):
    """A program that evaluates a model."""

    entrypoint: str
    """The program, a .py file in the repository."""

    args: list[str] = []
    """Its arguments."""


def parsed(options: dict[str, Any]) -> Own | None:
    """Returns the program that a pipeline's parameter describes; None where it is empty.

    Raises:
        InputError: One sentence that says what is wrong.
    """
    if not options:
        return None
    own = Own.read("evaluation", options)
    path = Path(own.entrypoint)
    if path.suffix != ".py" or path.is_absolute() or ".." in path.parts:
        raise InputError(
            f"evaluation.entrypoint {own.entrypoint!r}: must be a .py file in the repository"
        )
    return own


def run(own: Own, model: Path, data: Path, code: Path, directory: Path) -> None:
    """Runs the program on a model.

    Args:
        own: The program.
        model: What was MODEL_DIR.
        data: The staged dataset.
        code: The training code's repository.
        directory: What becomes EVALUATION_DIR; is made.

    Raises:
        InputError: The program is not in the repository.
        StepFailed: It did not succeed.
    """
    program = code / own.entrypoint
    if not program.is_file():
        raise InputError(
            f"evaluation.entrypoint {own.entrypoint!r} does not exist in the repository that was "
            "checked out"
        )
    directory.mkdir(parents=True, exist_ok=True)
    places = {"CODE_DIR": code, "DATA_DIR": data, "MODEL_DIR": model, "EVALUATION_DIR": directory}
    variables = {name: str(place) for name, place in places.items()} | environment.variables()
    lines: deque[str] = deque(maxlen=KEPT)
    with subprocess.Popen(
        [sys.executable, "-u", str(program), *own.args],
        cwd=code,
        env={**os.environ, **variables},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        errors="replace",
    ) as process:
        assert process.stdout
        for line in process.stdout:
            print(line, end="", flush=True)
            lines.append(line)
    if status := process.returncode:
        ended = exit_in_words(128 - status if status < 0 else status)
        raise StepFailed(
            f"evaluation.entrypoint {own.entrypoint!r} {ended}",
            "".join(list(lines)[-TAIL:]).rstrip(),
        )


def read(directory: Path) -> Evaluation:
    """Returns what the program has left.

    Args:
        directory: What was EVALUATION_DIR.

    Raises:
        NotLoadable: It is in another form.
    """
    figures = _figures(directory / "metrics.json")
    name, value = next(iter(figures.items()))
    return Evaluation(
        headline=f"{words(name)} {value:.4g}",
        figures=figures,
        between=None,
        score=Score(name if (directory / "scores.npy").exists() else ""),
        scores=_scores(directory / "scores.npy"),
        pictures=sorted(file for file in directory.iterdir() if file.suffix in PICTURES),
    )


def _figures(file: Path) -> dict[str, float]:
    try:
        found = json.loads(file.read_text())
    except (OSError, ValueError) as error:
        raise NotLoadable(
            f"the evaluation left no metrics.json that can be read: {error}"
        ) from None
    if not isinstance(found, dict) or not found:
        raise NotLoadable("metrics.json is not an object of numbers by name")
    for name, value in found.items():
        is_number = isinstance(value, int | float) and not isinstance(value, bool)
        if not is_number or not math.isfinite(value):
            raise NotLoadable(f"metrics.json: {name!r} is not a finite number")
    return {name: float(value) for name, value in found.items()}


def _scores(file: Path) -> np.ndarray:
    if not file.exists():
        return np.zeros(0)
    try:
        scores = np.load(file, allow_pickle=False)
    except (ValueError, OSError, EOFError) as error:
        raise NotLoadable(f"scores.npy cannot be read: {error}") from None
    if scores.ndim != 1 or scores.dtype.kind not in "iufb" or not np.isfinite(scores).all():
        raise NotLoadable("scores.npy is not one finite number for each held-out sample")
    return scores.astype(float)
