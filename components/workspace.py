"""The run workspace's one rule: what a step leaves there is whole, or not there."""

import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


@contextmanager
def written_whole(destination: Path) -> Iterator[Path]:
    """Gives an empty directory to write to, which takes the destination's place at the end.

    An error leaves the destination as it was.

    Args:
        destination: The directory to make or replace.
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
