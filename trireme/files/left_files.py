"""Files that a program has left in a folder that it was given, and nothing else."""

import os
import stat
import sys
from pathlib import Path
from typing import NamedTuple

from trireme.errors import StepFailed
from trireme.text.say import say

DEEPEST = 200  # folders, one in the other
MOST = 1_000_000  # files: a few links can make billions of them
NAMED = 3  # of what is not kept, in a sentence

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


def tidy(folder: Path, label: str) -> str:
    """Removes, and says so, what would be read elsewhere, or without end, when the folder is kept.

    That are links that leave the folder or lead to one that they are in, devices, FIFOs and
    sockets: what the program has done is worth more than they are.

    Args:
        called: The variable that names the folder to the program, such as MODEL_DIR.

    Returns:
        What is not kept, as a sentence; empty for nothing.

    Raises:
        StepFailed: One of them cannot be removed, there is a folder that cannot be read, or links
            make the folder too deep or too large.
    """
    if folder.is_symlink() or not folder.is_dir():
        raise StepFailed(f"{label} is no folder any more")
    resolved = folder.resolve()
    left = _Left(resolved, label)
    try:
        left.measure(resolved)
    except OSError as error:
        within = os.path.relpath(error.filename or resolved, resolved)
        raise StepFailed(f"{label}: {within!r} cannot be read: {error.strerror}") from None
    if not left.removed:
        return ""
    for removed in left.removed:
        say(f"warning: {label}: {removed} is not kept", sys.stdout)
    more = len(left.removed) - NAMED
    names = ", ".join(left.removed[:NAMED]) + (f" and {more:,} more" if more > 0 else "")
    return f"not kept of {label}: {names}"


class _Left:
    def __init__(self, whole: Path, called: str) -> None:
        self.whole, self.called = whole, called
        self.removed: list[str] = []
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
            path = Path(item.path)
            if unwanted := self._unwanted(path):
                self._remove(path, unwanted)
                continue
            path = _target(path) if path.is_symlink() else path
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

    def _unwanted(self, path: Path) -> str:
        """Returns what is wrong with a path that cannot be kept; empty for nothing."""
        mode = path.lstat().st_mode
        within = str(path.relative_to(self.whole))
        if kind := _KINDS.get(stat.S_IFMT(mode)):
            return f"{kind}, {within!r}"
        if not stat.S_ISLNK(mode):
            return ""
        target = _target(path)
        if not target.is_relative_to(self.whole):
            # What it means is not copied instead: this process may read what the program's may not.
            return f"the link {within!r}, which leaves it for {str(path.readlink())!r}"
        if path.parent.is_relative_to(target):
            return f"the link {within!r} to a folder that it is in"
        return ""

    def _remove(self, path: Path, unwanted: str) -> None:
        try:
            path.unlink()
        except OSError as error:  # another user's folder
            raise StepFailed(
                f"{self.called} holds {unwanted}, and it cannot be removed: {error.strerror}"
            ) from None
        self.removed.append(unwanted)


def _target(link: Path) -> Path:
    try:
        return link.resolve()
    except (OSError, RuntimeError):  # it leads to itself, and so nowhere
        return link.parent.resolve() / link.name
