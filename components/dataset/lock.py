"""One process at a time, on this machine and on others that share a file system.

A lock of the kernel's, which it frees when its holder dies and which NFS hands on to the server.
Some NFS mounts keep locks to their own node (``nolock``, as Alibaba recommends for its NAS), so
whoever has the lock also makes a file ``FILE.holder``, which only one can make on any file system,
and writes a heartbeat into it. One whose heartbeat has stood still, by the clock of whoever waits,
is a dead one's.
"""

import contextlib
import fcntl
import os
import socket
import threading
import time
import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

POLL = 0.1  # seconds between two tries
HEARTBEAT = 5.0  # seconds
STALE = 4 * HEARTBEAT  # seconds after which a heartbeat that stands still is a dead one's


@contextmanager
def locked(file: Path, waiting: Callable[[], None]) -> Iterator[None]:
    """Holds a lock."""
    holder = file.with_name(f"{file.name}.holder")
    lock, beats = _lock(file, holder, waiting)
    ended = threading.Event()
    heart = threading.Thread(target=_beat, args=(beats, ended), daemon=True)
    heart.start()
    try:
        yield
    finally:
        ended.set()
        heart.join()
        with contextlib.suppress(FileNotFoundError):
            holder.unlink()
        os.close(beats)
        os.close(lock)


def _lock(file: Path, holder: Path, waiting: Callable[[], None]) -> tuple[int, int]:
    """Returns the descriptors of the lock and of the holder's file, once both are had."""
    told, last, since = False, b"", time.monotonic()
    while True:
        lock = os.open(file, os.O_RDWR | os.O_CREAT, 0o666)
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            return lock, os.open(holder, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o644)
        except FileExistsError:
            beat = _read(holder)
            if beat != last:
                last, since = beat, time.monotonic()
            # On this very machine the lock itself has told that the holder is dead.
            own = beat.startswith(f"{_here()} ".encode())
            if own or time.monotonic() - since > STALE:
                _bury(holder, beat)
        except BlockingIOError:
            pass
        except BaseException:
            os.close(lock)
            raise
        os.close(lock)
        if not told:
            told = True
            waiting()
        time.sleep(POLL)


def _read(holder: Path) -> bytes:
    try:
        return holder.read_bytes()
    except FileNotFoundError:
        return b""


def _bury(holder: Path, beat: bytes) -> None:
    """Takes a dead holder's file away; one at a time can, and puts back another's."""
    grave = holder.with_name(f"{holder.name}.{uuid.uuid4().hex}")
    with contextlib.suppress(FileNotFoundError):
        holder.rename(grave)
        if grave.read_bytes() != beat:
            with contextlib.suppress(FileExistsError):
                os.link(grave, holder)
        grave.unlink()


def _beat(descriptor: int, ended: threading.Event) -> None:
    count = 0
    while True:
        # On a full disk the lock has to do.
        with contextlib.suppress(OSError):
            os.pwrite(descriptor, f"{_here()} {count:012}\n".encode(), 0)
            os.fdatasync(descriptor)  # other nodes see it only then
        if ended.wait(HEARTBEAT):
            return
        count += 1


def _here() -> str:
    """Returns what tells this machine from others, also from one that is named alike."""
    boot = Path("/proc/sys/kernel/random/boot_id")
    return f"{socket.gethostname()}/{boot.read_text().strip() if boot.exists() else ''}"
