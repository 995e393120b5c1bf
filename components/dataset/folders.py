"""Trees of folders: their modes, and removing them or what does not belong there."""

import contextlib
import os
import shutil
from pathlib import Path

from trireme.components.dataset.listing import Entry


def set_folders(tree: Path, mode: int, but_itself: bool = False) -> None:
    """Sets the mode of all folders of a tree.

    Args:
        but_itself: Whether the tree's own directory is left, which cannot be moved without it.
    """
    for folder, _, _ in os.walk(tree, topdown=bool(mode & 0o200)):
        if not but_itself or folder != str(tree):
            Path(folder).chmod(mode)
    if not but_itself and mode & 0o200:
        tree.chmod(mode)


def remove(tree: Path) -> None:
    """Removes a directory, also one whose folders are read-only."""
    with contextlib.suppress(OSError):
        tree.chmod(0o755)
        set_folders(tree, 0o755)
    shutil.rmtree(tree, ignore_errors=True)


def remove_unlisted(tree: Path, entries: list[Entry]) -> None:
    """Removes what is in a tree, but for these files and the folders that they are in."""
    names = {entry.name for entry in entries}
    for folder, below, files in os.walk(tree):
        inside = "" if folder == str(tree) else f"{os.path.relpath(folder, tree)}/"
        for name in files:
            if inside + name not in names:
                Path(folder, name).unlink()
        for name in below:
            if inside + name in names:  # it is a file now
                shutil.rmtree(Path(folder, name))
        below[:] = [name for name in below if inside + name not in names]
    for folder, below, files in os.walk(tree, topdown=False):
        if not below and not files and folder != str(tree):
            with contextlib.suppress(OSError):
                Path(folder).rmdir()
