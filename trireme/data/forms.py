"""The forms of a dataset's held-out split, told without NumPy; ``splits.py`` reads them."""

import json
from collections.abc import Iterator
from pathlib import Path

from trireme.data import npz, tables

TEST = "test"

PROGRAM = """a program that evaluates the model, -p evaluation='{"entrypoint": "evaluate.py"}'"""

PICTURES = {".bmp", ".gif", ".jpeg", ".jpg", ".pgm", ".png", ".ppm", ".tif", ".tiff", ".webp"}

_FILES = ("test.npz", "test/x.npy", "test.csv", "test.parquet")
_MNIST = ("t10k-images-idx3-ubyte", "t10k-images-idx3-ubyte.gz")


def test_split(data: Path) -> str:
    """Returns the held-out split that a dataset has in a known form; empty where it has none."""
    for name in (*_FILES, *_MNIST):
        if (data / name).exists():
            return name
    return "test/" if classes(data / TEST) else ""


def holding_out(data: Path) -> str:
    """Returns what is to be done about a dataset without a test split."""
    options = {"holdout": 0.2} | ({"label": "COLUMN"} if _lacks_label(data) else {})
    return f"give -p dataset_options='{json.dumps(options)}' or {PROGRAM}"


def _lacks_label(data: Path) -> bool:
    """Tells whether a table at the top of a dataset does not say which column is its label."""
    for file in data.glob("[!.]*"):
        if file.suffix.lower() in tables.SUFFIXES:
            try:
                _check_label(file, data)
            except (tables.TableError, OSError):
                return True
    return False


def unfit(data: Path) -> str:
    """Returns why no model can be evaluated on a dataset, and what to do; empty where one can."""
    if not any(data.iterdir()):
        return f"without a dataset no model will be evaluated or registered; give {PROGRAM}"
    test_file = test_split(data)
    why = "the dataset has no test split"
    if test_file:
        try:
            why = _lacking(data / test_file, data)
        except (tables.TableError, *npz.FAULTS) as error:
            why = f"{test_file} cannot be read: {error}"
    if not why:
        return ""
    what_to_do = f"give {PROGRAM}" if test_file else holding_out(data)
    return f"{why}, so the model will not be evaluated or registered; {what_to_do}"


def _lacking(file: Path, data: Path) -> str:
    """Returns what a file of the split lacks; of other forms nothing is looked at."""
    if file.suffix == ".npz":
        lacking = sorted({"x", "y"} - npz.arrays(file).keys())
        return f"{file.name} has no array {lacking[0]}" if lacking else ""
    if file.suffix in tables.SUFFIXES:
        _check_label(file, data)
    return ""


def _check_label(file: Path, data: Path) -> None:
    try:
        about = json.loads((data / "dataset.json").read_text())
        label = about.get("label") or ""
    except (OSError, ValueError, AttributeError):
        label = ""
    with tables.opened(file) as (names, _):
        tables.label_among(names, label, file.name, LABEL)


LABEL = """dataset.json in the dataset, as in {"label": "COLUMN"}"""
"""How a dataset says which column is the label."""


def classes(folder: Path) -> list[str]:
    """Returns the names of the folders in a folder that hold pictures, in their order."""
    return sorted(child.name for child in folder.glob("[!.]*") if any(pictures(child)))


def pictures(folder: Path) -> Iterator[Path]:
    """Returns the pictures in a folder."""
    return (file for file in folder.glob("[!.]*") if file.suffix.lower() in PICTURES)
