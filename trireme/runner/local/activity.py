"""The activity of a job on this machine that has been silent."""

import time
from collections.abc import Mapping
from contextlib import suppress

from trireme.files import checkpoint_files
from trireme.observers import hangs
from trireme.observers.base import Activity
from trireme.runner.local import usage

MEASURED = 10.0  # seconds over which the use of processors is measured


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
    for file in checkpoint_files.found(directory):
        with suppress(OSError):  # it is being replaced
            newest = max(newest, file.stat(follow_symlinks=False).st_mtime)
    return newest
