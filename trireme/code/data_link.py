"""A link in the code to the dataset, where a program looks for it."""

import os
import re
import shutil
from contextlib import suppress
from itertools import dropwhile
from pathlib import Path, PurePosixPath

from trireme.errors import InputError

KEEPERS = (".gitkeep", ".gitignore")
"""Files that keep a folder in git."""

_NOT_FOUND = re.compile(r"No such file or directory: '([^']+)'")


def check(at: str) -> str:
    """Returns a path inside the code or, by ``..``, its repository; or raises ValueError."""
    below = list(dropwhile("..".__eq__, PurePosixPath(at).parts))
    if not below or "\0" in at or at.startswith("/") or {"..", ".git"} & set(below):
        raise ValueError("must be a path inside the code, such as data")
    return str(PurePosixPath(at))


def link(code: Path, at: str, data: str, repository: Path) -> None:
    """Makes a path in the code lead to the dataset; it may be there as a folder without files.

    Args:
        code: A folder of the repository, or the whole.
        at: The path from there; it may lead to another folder of the repository.
        data: DATA_DIR.
        repository: Where it was checked out; beyond, nothing is changed.
    """
    path = Path(os.path.normpath(code.resolve() / at))  # as a program in that folder finds it
    path = path.parent.resolve() / path.name
    if not path.is_relative_to(repository.resolve()):
        raise InputError(f"data_at {at!r}: leads out of the repository")
    if path.is_dir() and not path.is_symlink() and not _has_files(path):
        shutil.rmtree(path)
    path.parent.mkdir(parents=True, exist_ok=True)
    with suppress(FileExistsError):  # of a trial that begins at the same moment
        path.symlink_to(data)
    if not path.is_symlink() or str(path.readlink()) != data:
        raise InputError(
            f"data_at {at!r}: the code has files there, which would hide the dataset; name another "
            "place, or remove them from the repository"
        )


def advice(exception: str, data: Path) -> str:
    """Returns what to do about a file that a program has not found and its dataset has.

    Args:
        exception: The program's exception.
        data: DATA_DIR.
    """
    match = _NOT_FOUND.search(exception)
    parts = PurePosixPath(match[1]).parts if match and not match[1].startswith("/") else ()
    for number in range(len(parts)):
        rest = PurePosixPath(*parts[number:])
        if (data / rest).exists():
            at = PurePosixPath(*parts[:number])
            is_inside = number > 0 and ".." not in at.parts
            way = (
                f"""; -p job='{{"data_at": "{at}"}}' shows the dataset as {at}"""
                if is_inside
                else ""
            )
            return f"the dataset has {rest}, in DATA_DIR{way}"
    return ""


def _has_files(folder: Path) -> bool:
    """Tells whether a folder has files besides those that keep it in git."""
    return any(
        file.is_symlink() or (file.name not in KEEPERS and not file.is_dir())
        for file in folder.rglob("*")
    )
