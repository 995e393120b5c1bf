"""Stage a dataset as files in the run workspace and fingerprint its content."""

import hashlib
import importlib.util
import io
import json
import os
import shutil
import zipfile
from pathlib import Path
from typing import NamedTuple
from urllib.parse import unquote, urlsplit

import numpy as np

from components.errors import InputError
from components.tracking import journal
from components.workspace import written_whole

HELD_OUT = 0.2  # share of a built-in dataset's samples that training never sees
CHUNK = 1 << 20  # bytes read at a time


class Dataset(NamedTuple):
    """A dataset in the workspace.

    Attributes:
        path: The directory that holds its files.
        fingerprint: ``sha256:`` and 64 hexadecimal digits over paths, sizes and content.
    """

    path: str
    fingerprint: str


def check(uri: str) -> None:
    """Refuses a dataset URI of a kind that cannot be staged, or that names nothing.

    Args:
        uri: As for ``stage``.

    Raises:
        InputError: One sentence that says what is wrong.
    """
    scheme = uri.partition("://")[0] if "://" in uri else ""
    if scheme == "builtin":
        if uri not in BUILTIN:
            raise InputError(
                f"dataset_uri {uri!r} is not built in; built in are {', '.join(BUILTIN)}"
            )
    elif scheme in ("", "file"):
        if not uri or not _exists(uri):
            raise InputError(f"dataset_uri {uri!r}: there is no such file or directory")
    else:
        raise InputError(
            f"dataset_uri {uri!r}: {scheme}:// is not supported yet; accepted are "
            f"{', '.join(BUILTIN)}, file:// and a path on this machine"
        )


def stage(uri: str, destination: Path) -> Dataset:
    """Copies a dataset to a directory, which appears whole or not at all.

    Args:
        uri: ``builtin://digits``, a ``file://`` URI, or a path to a file or directory.
        destination: The directory to make.

    Returns:
        Where the files are, and the fingerprint of their content.

    Raises:
        InputError: There is no such dataset, or it has no files.
    """
    check(uri)
    if uri not in BUILTIN and destination.resolve().is_relative_to(_local(uri).resolve()):
        raise InputError(
            f"dataset_uri {uri!r} holds the folder that it would be copied to, {destination}; "
            "name a narrower folder, or set TRIREME_HOME to another place"
        )
    with written_whole(destination) as partial:
        if uri in BUILTIN:
            BUILTIN[uri](partial)
        else:
            _copy(_local(uri), partial)
        files = _files(partial)
        if not files:
            raise InputError(f"dataset_uri {uri!r} holds no files")
        size = sum(file.stat().st_size for file in files)
        result = Dataset(str(destination), fingerprint(partial))
    journal.log_params({"dataset_uri": uri})
    journal.log_metrics({"dataset_files": len(files), "dataset_bytes": size})
    journal.log_tags({"dataset.uri": uri, "dataset.fingerprint": result.fingerprint})
    journal.summarize(f"{uri}, {len(files)} files, {size:,} bytes, {result.fingerprint[:19]}")
    return result


def fingerprint(directory: Path) -> str:
    """Returns a SHA-256 over the relative path, size and SHA-256 of every file, in path order.

    The same bytes under the same names give the same fingerprint wherever they came from.

    Args:
        directory: The dataset.
    """
    tree = hashlib.sha256()
    for file in _files(directory):
        name = os.fsencode(file.relative_to(directory))
        tree.update(b"%s\0%d\0%s\n" % (name, file.stat().st_size, _sha256(file).encode()))
    return f"sha256:{tree.hexdigest()}"


def _digits(destination: Path) -> None:
    """Writes 1,797 hand-written digits, 8x8 pixels, split the same way every time.

    The data ships with scikit-learn (``sklearn.datasets.load_digits``), originally the test
    part of https://archive.ics.uci.edu/dataset/80. It is read from scikit-learn's files,
    because importing scikit-learn takes longer than all the rest of this step.
    """
    package = importlib.util.find_spec("sklearn")
    if package is None or package.origin is None:
        raise InputError("builtin://digits comes with scikit-learn, which is not installed")
    table = np.loadtxt(
        Path(package.origin).parent / "datasets" / "data" / "digits.csv.gz", delimiter=","
    )
    order = np.random.default_rng(0).permutation(len(table))
    images = (table[order, :-1] / 16).astype(np.float32).reshape(-1, 1, 8, 8)
    labels = table[order, -1].astype(np.int64)
    held_out = int(len(table) * HELD_OUT)
    _save(destination / "train.npz", x=images[held_out:], y=labels[held_out:])
    _save(destination / "test.npz", x=images[:held_out], y=labels[:held_out])
    about = {"name": "digits", "classes": [str(digit) for digit in range(10)]}
    (destination / "dataset.json").write_text(json.dumps(about, indent=2) + "\n")


def _save(file: Path, **arrays: np.ndarray) -> None:
    """Writes arrays as ``numpy.savez`` does, with the same bytes under every Python."""
    with zipfile.ZipFile(file, "w") as archive:
        for name, array in arrays.items():
            content = io.BytesIO()
            np.save(content, array)
            archive.writestr(zipfile.ZipInfo(f"{name}.npy"), content.getvalue())


BUILTIN = {"builtin://digits": _digits}
"""Datasets that need no download, by URI: functions that write them to a directory."""


def _local(uri: str) -> Path:
    path = unquote(urlsplit(uri).path) if uri.startswith("file://") else uri
    return Path(path).expanduser()


def _exists(uri: str) -> bool:
    try:
        return _local(uri).exists()
    except (OSError, ValueError, RuntimeError):  # too long, not a path, no such user
        return False


def _copy(source: Path, destination: Path) -> None:
    try:
        if source.is_dir():
            shutil.copytree(source, destination, dirs_exist_ok=True)
        else:
            shutil.copy2(source, destination)
    except shutil.Error as error:
        first = error.args[0][0][-1] if error.args and error.args[0] else error
        raise InputError(f"dataset_uri {str(source)!r} could not be copied: {first}") from None
    except OSError as error:
        raise InputError(f"dataset_uri {str(source)!r} could not be copied: {error}") from None


def _files(directory: Path) -> list[Path]:
    return sorted(path for path in directory.rglob("*") if path.is_file())


def _sha256(file: Path) -> str:
    digest = hashlib.sha256()
    with file.open("rb") as stream:
        while chunk := stream.read(CHUNK):
            digest.update(chunk)
    return digest.hexdigest()
