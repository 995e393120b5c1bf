"""Datasets that come with Trireme."""

import hashlib
import io
import json
import platform
import sysconfig
import zipfile
from collections.abc import Callable, Iterator
from pathlib import Path

from trireme.data.description import Dataset
from trireme.data.listing import Entry
from trireme.data.uri import NONE

HELD_OUT_SOURCES = 1 / 64  # share of Python's files
LENGTH = 256  # bytes of a sample of them
HEADER = 118  # bytes of an array's header, with which its data begin at a multiple of 64
OTHERS = {"site-packages", "dist-packages", "test", "tests", "idlelib", "lib2to3", "__pycache__"}
"""Folders that are not the standard library, or not in every installation of it."""


class BuiltinSource:
    """A dataset of ``uri.BUILTIN``, made in memory."""

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
    """Returns 1,797 hand-written digits, 8x8 pixels between 0 and 1, a fifth of them held out.

    They are scikit-learn's (``sklearn.datasets.load_digits``), the test part of
    https://archive.ics.uci.edu/dataset/80 (CC BY 4.0), in an order that was drawn once. They are
    here because the image of this step has no scikit-learn, nor NumPy to make arrays.
    """
    with zipfile.ZipFile(Path(__file__).with_name("digits.zip")) as archive:
        return {name: archive.read(name) for name in archive.namelist()}


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
    samples = (len(text) - 1) // LENGTH
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w") as archive:
        for name, start in (("x", 0), ("y", 1)):
            array = _array(text[start : start + samples * LENGTH], samples)
            archive.writestr(zipfile.ZipInfo(f"{name}.npy"), array)
    return packed.getvalue()


def _array(data: bytes, samples: int) -> bytes:
    """Returns the file of an array of bytes, of shape (samples, LENGTH), as ``numpy.save`` does.

    Format: https://numpy.org/doc/stable/reference/generated/numpy.lib.format.html
    """
    shape = f"({samples}, {LENGTH})"
    header = f"{{'descr': '|u1', 'fortran_order': False, 'shape': {shape}, }}"
    padded = header.ljust(HEADER - 1) + "\n"
    return b"\x93NUMPY\x01\x00" + HEADER.to_bytes(2, "little") + padded.encode() + data


_MAKERS: dict[str, Callable[[], dict[str, bytes]]] = {
    "builtin://digits": _digits,
    "builtin://python-source": _python_source,
    NONE: dict,
}
