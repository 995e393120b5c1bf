"""The files in CHECKPOINT_DIR, whatever program writes them."""

import os
from collections.abc import Iterator
from itertools import islice
from pathlib import Path

from trireme.files import event_files as events

DEPTH = 4  # folders, one in the other, that checkpoints may be in, as Lightning's are
MOST = 10_000  # files that are looked at


def found(directory: str | Path) -> Iterator[Path]:
    """Yields files that may be of checkpoints, but for those for TensorBoard."""
    return islice(_walk(directory), MOST)


def _walk(directory: str | Path) -> Iterator[Path]:
    for place, folders, files in os.walk(directory):
        depth = len(Path(place).relative_to(directory).parts)
        kept = [] if depth + 1 >= DEPTH else folders
        folders[:] = [one for one in kept if one != events.OF_CHECKPOINTS]
        yield from (Path(place, name) for name in files)
