"""Samples of a table, CSV or Parquet: the numbers that a model is asked about, and the labels."""

from pathlib import Path
from typing import Any

import numpy as np

from trireme.data import forms, tables
from trireme.models.trained import NotLoadable
from trireme.text import json_values
from trireme.trainers import splits

ABOUT = "dataset.json"

SHOWN = 40  # characters of a text that is no number


def has_split(data: Path, split: str) -> bool:
    """Tells whether a dataset seems to have a split in a form that is read here."""
    return bool(_table(data, split)) or splits.has_split(data, split)


def load(data: Path, split: str) -> tuple[Any, np.ndarray]:
    """Returns the samples of a split, and what is true of each."""
    file = _table(data, split)
    if splits.has_split(data, split):
        return splits.load(data, split, NotLoadable)
    if not file:
        raise NotLoadable(f"the dataset has no {split} split", forms.holding_out(data))
    try:
        return _of_table(file, data, said(data))
    except (tables.TableError, OSError) as error:
        raise NotLoadable(str(error), f"or give {forms.PROGRAM}") from None


def said(data: Path) -> dict[str, Any]:
    """Returns what a dataset says of itself; nothing where it does not."""
    try:
        about = json_values.read((data / ABOUT).read_text())
    except json_values.GivenTwiceError as error:
        raise NotLoadable(f"{ABOUT}: {error}") from None
    except (OSError, ValueError):
        return {}
    return about if isinstance(about, dict) else {}


def _table(data: Path, split: str) -> Path | None:
    files = (data / f"{split}{suffix}" for suffix in tables.SUFFIXES)
    return next((file for file in files if file.exists()), None)


def _of_table(file: Path, data: Path, about: dict[str, Any]) -> tuple[np.ndarray, np.ndarray]:
    with tables.opened(file) as (names, rows):
        label = str(about.get("label") or "")
        label = tables.label_among(names, label, file.name, forms.LABEL)
        columns = list(zip(*(row.cells for row in rows), strict=True))
    if not columns:
        raise tables.TableError(f"{file.name} has no rows")
    by_name = dict(zip(names, columns, strict=True))
    labels = _labels(file, label, by_name.pop(label), about)
    inputs = [_numbers(file, name, cells) for name, cells in by_name.items()]
    return np.stack(inputs, 1), labels


def _numbers(file: Path, name: str, cells: tuple[Any, ...]) -> np.ndarray:
    """Returns a column as numbers, NaN where there is none."""
    filled = ["nan" if tables.is_missing(cell) else cell for cell in cells]
    try:
        return np.asarray([float(cell) for cell in filled], np.float32)
    except (TypeError, ValueError):
        odd = next(cell for cell in filled if tables.numbers([cell]) is None)
        raise NotLoadable(
            f"the column {name!r} of {file.name} holds what is no number, {str(odd)[:SHOWN]!r}",
            f"give {forms.PROGRAM}",
        ) from None


def _labels(file: Path, name: str, cells: tuple[Any, ...], about: dict[str, Any]) -> np.ndarray:
    for number, cell in enumerate(cells, 1):
        if tables.is_missing(cell):
            raise tables.TableError(f"{file.name} has no {name!r} in row {number}")
    classes = about.get("classes")
    if classes is None and (values := tables.numbers(cells)) is not None:
        return np.asarray(values)
    if not isinstance(classes, list):
        raise tables.TableError(
            f"{file.name} has texts as {name!r}; list them in {ABOUT} in the dataset, in the order "
            """in which the model numbers them, as in {"classes": ["cat", "dog"]}"""
        )
    numbers = {str(label): number for number, label in enumerate(classes)}
    if unknown := next((cell for cell in map(str, cells) if cell not in numbers), None):
        raise tables.TableError(
            f"{file.name} has the class {unknown!r}, which {ABOUT} does not list"
        )
    return np.asarray([numbers[str(cell)] for cell in cells])
