"""Files that are whole whenever they are there, also after a kill or a power cut."""

import errno
import os
import secrets
from pathlib import Path

from trireme.errors import InputError

NO_LINKS = (errno.EPERM, errno.ENOTSUP, errno.EMLINK, errno.EXDEV, errno.ENOSYS, errno.EACCES)
"""Errors of a file system without hard links, such as SMB's and buckets'."""


def write_whole(file: Path, text: str, *, is_lasting: bool = True) -> None:
    """Writes a file that takes the place of the one before, or of a link, at the end.

    Args:
        is_lasting: Whether it is on the disk then, which takes longer.
    """
    # Somebody else may have filled the folder, and put a link where a name can be guessed.
    partial = file.with_name(f".{secrets.token_hex(8)}.partial")
    try:
        with partial.open("x", encoding="utf-8") as stream:
            stream.write(text)
            if is_lasting:
                stream.flush()
                os.fsync(stream.fileno())
        partial.replace(file)
    except OSError:
        partial.unlink(missing_ok=True)
        raise


def linked(file: Path) -> Path:
    """Returns the file beside it that a link stands for; any other file as it is.

    Raises:
        InputError: It is a link to elsewhere, which somebody whose repository it is in has chosen.
    """
    real = file.resolve()
    if file.is_symlink() and real.parent != file.parent.resolve():
        raise InputError(f"{file}: is a link out of its folder, to {real}; name that file itself")
    return real


def no_room(error: BaseException) -> bool:
    """Tells whether something failed because its disk is full, also a database's file."""
    # https://www.sqlite.org/rescode.html#full; SQLAlchemy and MLflow pass on its words.
    is_full = isinstance(error, OSError) and error.errno in (errno.ENOSPC, errno.EDQUOT)
    return is_full or "database or disk is full" in str(error)


def flush(folder: Path) -> None:
    """Waits until the files below a folder are on the disk."""
    for file in folder.rglob("*"):
        if file.is_file():
            descriptor = os.open(file, os.O_RDONLY)
            try:
                os.fsync(descriptor)
            finally:
                os.close(descriptor)
