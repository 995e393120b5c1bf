"""What a program has left in a folder that it was given: files and folders, and nothing else."""

import os
import stat
from pathlib import Path
from typing import NamedTuple

from trireme.components.errors import StepFailed

DEEPEST = 200  # folders, one in the other
MOST = 1_000_000  # files: a few links can make billions of them

_KINDS = {
    stat.S_IFIFO: "a FIFO",
    stat.S_IFSOCK: "a socket",
    stat.S_IFCHR: "a device",
    stat.S_IFBLK: "a device",
}


class _Size(NamedTuple):
    files: int
    depth: int


_UNKNOWN = _Size(0, 0)


def check(folder: Path, called: str) -> None:
    """Refuses what would be read elsewhere, or without end, when the folder is kept.

    Args:
        called: The variable that names the folder to the program, such as MODEL_DIR.

    Raises:
        StepFailed: A link leaves the folder, or leads to a folder that it is in; or there is a
            device, a FIFO or a socket, or a folder that cannot be read.
    """
    if folder.is_symlink() or not folder.is_dir():
        raise StepFailed(f"{called} is no folder any more")
    whole = folder.resolve()
    try:
        _Left(whole, called).measure(whole)
    except OSError as error:
        within = os.path.relpath(error.filename or whole, whole)
        raise StepFailed(f"{called}: {within!r} cannot be read: {error.strerror}") from None


class _Left:
    def __init__(self, whole: Path, called: str) -> None:
        self.whole, self.called = whole, called
        self._sizes: dict[Path, _Size] = {}

    def measure(self, folder: Path, above: int = 0) -> _Size:
        """Returns how much is in a folder, which is more than once there where links lead to it."""
        if folder in self._sizes:
            return self._sizes[folder]
        if above == DEEPEST:
            raise self._too_deep()
        self._sizes[folder] = _UNKNOWN
        files, depth = 1, 1
        for item in os.scandir(folder):
            path = self._meant(Path(item.path))
            if not path.is_dir():
                files += 1
                continue
            if self._sizes.get(path) == _UNKNOWN:
                within = str(Path(item.path).relative_to(self.whole))
                raise StepFailed(
                    f"{self.called} holds a link to a folder that it is in, {within!r}"
                )
            below = self.measure(path, above + 1)
            files, depth = files + below.files, max(depth, below.depth + 1)
        if files > MOST:
            raise StepFailed(f"{self.called} holds more than {MOST:,} files, links followed")
        if depth > DEEPEST:
            raise self._too_deep()
        self._sizes[folder] = size = _Size(files, depth)
        return size

    def _too_deep(self) -> StepFailed:
        return StepFailed(f"{self.called} is more than {DEEPEST} folders deep, links followed")

    def _meant(self, path: Path) -> Path:
        """Returns a path, or where it leads if it is a link."""
        mode = path.lstat().st_mode
        within = str(path.relative_to(self.whole))
        if kind := _KINDS.get(stat.S_IFMT(mode)):
            raise StepFailed(f"{self.called} holds {kind}, {within!r}, which cannot be kept")
        if not stat.S_ISLNK(mode):
            return path
        if not (target := _target(path)).is_relative_to(self.whole):
            raise StepFailed(
                f"{self.called} holds a link that leaves it, {within!r} to "
                f"{str(path.readlink())!r}; let the program copy what it means"
            )
        return target


def _target(link: Path) -> Path:
    try:
        return link.resolve()
    except (OSError, RuntimeError):  # it leads to itself, and so nowhere
        return link.parent.resolve() / link.name
