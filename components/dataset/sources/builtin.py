"""Datasets that come with Trireme."""

import hashlib
import io
import json
import platform
import sysconfig
import zipfile
from collections.abc import Iterator
from pathlib import Path

import numpy as np

from components.dataset.description import Dataset
from components.dataset.listing import Entry

HELD_OUT = 0.2  # share of the digits that training never sees

HELD_OUT_SOURCES = 1 / 64  # share of Python's files
LENGTH = 256  # bytes of a sample of them
OTHERS = {"site-packages", "dist-packages", "test", "tests", "idlelib", "lib2to3", "__pycache__"}
"""Folders that are not the standard library, or not in every installation of it."""


class BuiltinSource:
    """``builtin://digits`` or ``builtin://python-source``, made in memory."""

    readers = 1

    def __init__(self, dataset: Dataset) -> None:
        self._files = _MAKERS[dataset.uri]()

    def list(self) -> list[Entry]:
        """Returns all files; see ``Source``."""
        return [
            Entry(name, len(data), hashlib.sha256(data).hexdigest())
            for name, data in self._files.items()
        ]

    def read(self, entry: Entry, start: int, length: int) -> Iterator[bytes]:
        """Reads a part of a file; see ``Source``."""
        yield self._files[entry.name][start : start + length]


def _digits() -> dict[str, bytes]:
    """Returns 1,797 hand-written digits, 8x8 pixels, split the same way every time.

    The file is scikit-learn's (``sklearn.datasets.load_digits``), the test part of
    https://archive.ics.uci.edu/dataset/80 (CC BY 4.0). It is here because the image of this step
    has no scikit-learn, which is as large as all else in it.
    """
    table = np.loadtxt(Path(__file__).with_name("digits.csv.gz"), delimiter=",")
    order = np.random.default_rng(0).permutation(len(table))
    images = (table[order, :-1] / 16).astype(np.float32).reshape(-1, 1, 8, 8)
    labels = table[order, -1].astype(np.int64)
    held_out = int(len(table) * HELD_OUT)
    about = {"name": "digits", "classes": [str(digit) for digit in range(10)]}
    return {
        "train.npz": _archive(x=images[held_out:], y=labels[held_out:]),
        "test.npz": _archive(x=images[:held_out], y=labels[:held_out]),
        "dataset.json": (json.dumps(about, indent=2) + "\n").encode(),
    }


def _python_source() -> dict[str, bytes]:
    """Returns the standard library's own sources, as samples of bytes and those that follow them.

    Whole files are held out, always the same ones of one version of Python.
    """
    library = Path(sysconfig.get_path("stdlib"))
    texts: dict[str, list[bytes]] = {"train": [], "test": []}
    for file in sorted(library.rglob("*.py")):
        name = file.relative_to(library)
        if OTHERS.isdisjoint(name.parts) and not name.name.startswith("_sysconfigdata"):
            chosen = hashlib.sha256(name.as_posix().encode()).digest()[0] < 256 * HELD_OUT_SOURCES
            texts["test" if chosen else "train"].append(file.read_bytes())
    files = {f"{split}.npz": _following(b"\0".join(texts[split])) for split in texts}
    about = {"name": "python-source", "python": platform.python_version(), "tokens": 256}
    return files | {"dataset.json": (json.dumps(about, indent=2) + "\n").encode()}


def _following(text: bytes) -> bytes:
    """Packs a text as arrays of samples: its bytes, and the byte that follows each of them."""
    tokens = np.frombuffer(text, np.uint8)
    samples = (len(tokens) - 1) // LENGTH
    x, y = (tokens[start:][: samples * LENGTH].reshape(samples, LENGTH) for start in (0, 1))
    return _archive(x=x, y=y)


def _archive(**arrays: np.ndarray) -> bytes:
    """Packs arrays as ``numpy.savez`` does, with the same bytes under every Python."""
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w") as archive:
        for name, array in arrays.items():
            content = io.BytesIO()
            np.save(content, array)
            archive.writestr(zipfile.ZipInfo(f"{name}.npy"), content.getvalue())
    return packed.getvalue()


_MAKERS = {"builtin://digits": _digits, "builtin://python-source": _python_source}
