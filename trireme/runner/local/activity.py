"""The activity of a job on this machine that has been silent."""

import os
import time
from collections.abc import Iterator, Mapping
from contextlib import suppress
from pathlib import Path

from trireme.files import event_files as events
from trireme.observers import hangs
from trireme.observers.base import Activity
from trireme.runner.local import usage

MEASURED = 10.0  # seconds over which the use of processors is measured
DEPTH = 4  # folders, one in the other, that checkpoints may be in, as Lightning's are
MOST = 10_000  # files that are looked at


def activity(pids: Mapping[str, int], directory: str, since: float) -> Activity:
    """Looks what replicas do, and whether they have saved anything since a time of day.

    Args:
        pids: Their supervisors, by their names.
        directory: Where checkpoints are; empty where that is not known.
    """
    before, began = usage.cpu_seconds(pids), time.monotonic()
    time.sleep(MEASURED)
    after, limit = usage.cpu_seconds(pids), hangs.BUSY * (time.monotonic() - began)
    # Less than before: some processes have ended meanwhile.
    is_idle = all(
        name in before and 0 <= seconds - before[name] <= limit for name, seconds in after.items()
    )
    saved = _newest_checkpoint(directory) if directory else 0.0
    return Activity(not is_idle or saved > since or usage.gpus_work(), saved)


def _newest_checkpoint(directory: str) -> float:
    newest = 0.0
    for number, file in enumerate(_files(directory)):
        if number == MOST:
            break
        with suppress(OSError):  # it is being replaced
            newest = max(newest, file.stat(follow_symlinks=False).st_mtime)
    return newest


def _files(directory: str) -> Iterator[Path]:
    for directory_path, folders, files in os.walk(directory):
        depth = len(Path(directory_path).relative_to(directory).parts)
        visited = [] if depth + 1 >= DEPTH else folders
        folders[:] = [folder for folder in visited if folder != events.OF_CHECKPOINTS]
        yield from (Path(directory_path, name) for name in files)
