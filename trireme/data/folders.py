"""Trees of folders: their modes, and removing them or what does not belong there."""

import contextlib
import os
import shutil
from pathlib import Path

from trireme.data.listing import Entry


def open_folders(tree: Path) -> None:
    """Makes all folders of a tree writable."""
    for folder, _, _ in os.walk(tree):
        Path(folder).chmod(0o755)


def close_folders(tree: Path) -> None:
    """Makes all folders in a tree read-only, but not its own, which could not be moved then."""
    for folder, _, _ in os.walk(tree, topdown=False):
        if folder != str(tree):
            Path(folder).chmod(0o555)


def remove(tree: Path) -> None:
    """Removes a directory, also one whose folders are read-only."""
    with contextlib.suppress(OSError):
        open_folders(tree)
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
