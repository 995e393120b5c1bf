"""The run workspace's one rule: what a step leaves there is whole, or not there."""

import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from trireme.errors import InputError


def check(workspace: Path) -> None:
    """Refuses a run workspace that this process may not write to."""
    try:
        with tempfile.TemporaryFile(dir=workspace):
            pass
    except PermissionError:
        owner = workspace.stat()
        raise InputError(
            f"run workspace {workspace}: user {os.getuid()} may not write to a directory of user "
            f"{owner.st_uid} and group {owner.st_gid}; give the steps' pods the fsGroup "
            f"{os.getuid()}, or make the volume writable for all (docs/how-to/set-up-a-cluster.md)"
        ) from None
    except OSError as error:
        raise InputError(f"run workspace {workspace}: {error.strerror}") from None


@contextmanager
def written_whole(destination: Path) -> Iterator[Path]:
    """Gives an empty directory to write to, which takes the destination's place at the end.

    An error leaves the destination as it was.
    """
    partial = destination.with_name(destination.name + ".partial")
    shutil.rmtree(partial, ignore_errors=True)
    partial.mkdir(parents=True)
    try:
        yield partial
        shutil.rmtree(destination, ignore_errors=True)
        partial.rename(destination)
    finally:
        shutil.rmtree(partial, ignore_errors=True)
