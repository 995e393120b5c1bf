"""Locks of files, by which processes in other containers and on other machines see what runs.

A lock is the kernel's, which frees it when the last process that has it has ended, however it ends.
NFS keeps it at the server, unless it is mounted with ``nolock`` or ``local_lock``.
"""

import fcntl
from pathlib import Path
from types import TracebackType
from typing import IO, Self

from trireme.errors import InputError
from trireme.process.patience import wait_for

MOMENT = 1.0  # seconds in which whoever only asks has let go of it
POLL = 0.05  # seconds between two tries


class FileLock:
    """A lock that this process has, and all that are given its descriptor."""

    def __init__(self, file: Path, seconds: float = MOMENT) -> None:
        """Takes the lock.

        Args:
            seconds: How long to wait for it.

        Raises:
            TimeoutError: Another process has it.
        """
        self._file = file.open("ab", buffering=0)
        if not wait_for(self._take, seconds, POLL):
            self._file.close()
            raise TimeoutError(f"{file} is held by another process")

    @property
    def descriptor(self) -> int:
        """What a process that is to have the lock as well inherits."""
        return self._file.fileno()

    def release(self) -> None:
        """Lets go of it; others that were given it still have it."""
        self._file.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.release()

    def _take(self) -> bool:
        try:
            _lock(self._file, fcntl.LOCK_EX)
        except BlockingIOError:
            return False
        return True


def is_held(file: Path) -> bool:
    """Tells whether a process, this one included, has a lock."""
    try:
        with file.open("rb") as stream:
            _lock(stream, fcntl.LOCK_SH)  # so that two may ask at once
    except FileNotFoundError:
        return False
    except BlockingIOError:
        return True
    return False


def _lock(file: IO[bytes], kind: int) -> None:
    try:
        fcntl.flock(file, kind | fcntl.LOCK_NB)
    except BlockingIOError:
        raise
    except OSError as error:
        raise InputError(
            f"{file.name}: its file system keeps no locks ({error.strerror}), which tell what "
            "runs; set TRIREME_HOME to a folder on another one"
        ) from None
