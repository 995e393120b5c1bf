"""Files that are whole whenever they are there, also after a kill or a power cut."""

import errno
import os
from pathlib import Path

NO_LINKS = (errno.EPERM, errno.ENOTSUP, errno.EMLINK, errno.EXDEV, errno.ENOSYS, errno.EACCES)
"""Errors of a file system without hard links, such as SMB's and buckets'."""


def write_whole(file: Path, text: str) -> None:
    """Writes a file that takes the place of the one before, if there is one, at the end."""
    partial = file.with_name(f"{file.name}.partial")
    try:
        with partial.open("w", encoding="utf-8") as stream:
            stream.write(text)
            stream.flush()
            os.fsync(stream.fileno())
        partial.replace(file)
    except OSError:
        partial.unlink(missing_ok=True)
        raise


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
