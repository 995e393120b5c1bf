"""One process at a time, on this machine and on others that share a file system.

A lock of the kernel's, which it frees when its holder dies and which NFS hands on to the server.
Some NFS mounts keep locks to their own node (``nolock``, as Alibaba recommends for its NAS), so
whoever has the lock also takes a lease: a file that only one can make on any file system, with a
heartbeat. One whose heartbeat has stood still, by the clock of whoever waits, is a dead one's.
"""

import errno
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

from filelock import BaseFileLock, FileLock, SoftFileLease, Timeout

POLL = 0.1  # seconds between two tries
HEARTBEAT = 5.0  # seconds
STALE = 4 * HEARTBEAT  # seconds after which a heartbeat that stands still is a dead one's


@contextmanager
def locked(file: Path, waiting: Callable[[], None]) -> Iterator[None]:
    """Holds a lock.

    Args:
        waiting: Called once, if another process holds it.
    """
    lock = FileLock(file, mode=0o666, poll_interval=POLL)
    lease = SoftFileLease(
        f"{file}.lease", lease_duration=STALE, heartbeat_interval=HEARTBEAT, poll_interval=POLL
    )
    with ExitStack() as stack:
        has_waited = _acquire(lock, waiting)
        stack.callback(lock.release)
        try:
            _acquire(lease, (lambda: None) if has_waited else waiting)
            stack.callback(lease.release)
        except OSError as error:
            if error.errno not in (errno.ENOSPC, errno.EDQUOT):
                raise  # on a full disk the lock has to do
        yield


def _acquire(lock: BaseFileLock, waiting: Callable[[], None]) -> bool:
    """Takes a lock; returns whether another process had it."""
    try:
        lock.acquire(blocking=False)
    except Timeout:
        waiting()
        lock.acquire()
        return True
    return False
