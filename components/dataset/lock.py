"""One process at a time, on this machine and on others that share a file system.

A POSIX lock, which the kernel frees when its holder dies and which NFS hands on to the server. Some
NFS mounts keep locks to their own node (``nolock``, as Alibaba recommends for its NAS), so the
holder also writes a heartbeat into the file: a process on another node that gets the lock while the
heartbeat goes on waits until it has stood still, by its own clock.
"""

import fcntl
import os
import socket
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

POLL = 0.1  # seconds between two tries
HEARTBEAT = 5.0  # seconds
STALE = 4 * HEARTBEAT  # seconds after which a heartbeat that stands still is a dead one's


@contextmanager
def locked(file: Path, waiting: Callable[[], None]) -> Iterator[None]:
    """Holds a lock.

    Args:
        file: What is locked.
        waiting: Called once, if another process holds it.
    """
    descriptor = _lock(file, waiting)
    ended = threading.Event()
    heart = threading.Thread(target=_beat, args=(descriptor, ended), daemon=True)
    heart.start()
    try:
        yield
    finally:
        ended.set()
        heart.join()
        os.ftruncate(descriptor, 0)
        os.close(descriptor)


def _lock(file: Path, waiting: Callable[[], None]) -> int:
    told, last, since = False, b"", time.monotonic()
    while True:
        descriptor = os.open(file, os.O_RDWR | os.O_CREAT, 0o666)
        try:
            fcntl.lockf(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            os.close(descriptor)
        else:
            beat = os.pread(descriptor, 1000, 0)
            if beat != last:
                last, since = beat, time.monotonic()
            # On this very machine the lock itself has told that the holder is dead.
            own = beat.startswith(f"{_here()} ".encode())
            if not beat or own or time.monotonic() - since > STALE:
                return descriptor
            os.close(descriptor)
        if not told:
            told = True
            waiting()
        time.sleep(POLL)


def _beat(descriptor: int, ended: threading.Event) -> None:
    count = 0
    while True:
        os.pwrite(descriptor, f"{_here()} {count:012}\n".encode(), 0)
        if ended.wait(HEARTBEAT):
            return
        count += 1


def _here() -> str:
    """Returns what tells this machine from others, also from one that is named alike."""
    boot = Path("/proc/sys/kernel/random/boot_id")
    return f"{socket.gethostname()}/{boot.read_text().strip() if boot.exists() else ''}"
