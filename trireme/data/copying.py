"""Copy the files of a source into a directory: in parallel, resumable, hashed on the way."""

import contextlib
import hashlib
import os
import random
import shutil
import threading
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from trireme.data.copy_journal import CopyJournal
from trireme.data.fingerprint import BLOCK, block_hash, blocks, file_hash
from trireme.data.listing import Entry
from trireme.data.progress import Progress
from trireme.data.sources import Fault, Source, SourceFailed
from trireme.files.whole_file import NO_LINKS

TRIES = 5  # for one block, beyond what the source's own library does
PAUSE = 0.5  # seconds before the second try; doubled every time

Known = dict[Entry, tuple[str, bytes]]
"""Where a file is here already, and its hash."""


@dataclass
class Copy:
    """Files on their way from a source to a directory.

    Args:
        directory: Where they go; may hold those of a copy that was interrupted.
        known: Files that need not be read, but can be linked.
    """

    source: Source
    uri: str
    entries: list[Entry]
    directory: Path
    journal: CopyJournal
    known: Known
    progress: Progress

    def __post_init__(self) -> None:
        self._lock, self._stop = threading.Lock(), threading.Event()
        self._failures: list[BaseException] = []
        self._hashes = [b""] * len(self.entries)
        self._blocks: dict[int, list[bytes]] = {}

    def run(self) -> list[bytes]:
        """Copies; returns the hash of each file, see ``fingerprint``."""
        for folder in {entry.name.rpartition("/")[0] for entry in self.entries}:
            Path(self.directory, folder).mkdir(parents=True, exist_ok=True)
        tasks = self._tasks()
        count = min(self.source.readers, sum(blocks(entry.size) for entry in self.entries))
        threads = [
            threading.Thread(target=self._work, args=(tasks,), daemon=True) for _ in range(count)
        ]
        try:
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join()
        finally:
            # Also after an interrupt, which may come while they are started, nobody writes any more
            # once this has returned; a pool's threads might.
            self._stop.set()
            for thread in threads:
                if thread.is_alive():
                    thread.join()
        if self._failures:
            raise self._failures[0]
        return self._hashes

    def _tasks(self) -> Iterator[tuple[int, int]]:
        """Returns file and block numbers; larger files are made before, to be written anyhow."""
        for number, entry in enumerate(self.entries):
            count = blocks(entry.size)
            if count > 1 and entry not in self.known:
                self._make_large(entry)
                self._blocks[number] = [b""] * count
                yield from ((number, block) for block in range(count))
            else:
                yield number, 0

    def _make_large(self, entry: Entry) -> None:
        path = Path(self._path(entry))
        with contextlib.suppress(OSError):
            info = path.lstat()
            if info.st_size != entry.size or info.st_nlink > 1:
                path.unlink()
            else:
                path.chmod(0o644)
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT, 0o644)
        try:
            os.ftruncate(descriptor, entry.size)
        finally:
            os.close(descriptor)

    def _work(self, tasks: Iterator[tuple[int, int]]) -> None:
        try:
            while not self._stop.is_set():
                with self._lock:
                    task = next(tasks, None)
                if task is None:
                    return
                self._do(*task)
        except BaseException as error:
            self._failures.append(error)
            self._stop.set()

    def _do(self, number: int, block: int) -> None:
        entry = self.entries[number]
        if entry in self.known:
            self._link(entry, self.known[entry][0])
            self._hashes[number] = self.known[entry][1]
            self.progress.add(entry.size, 1, copied=False)
            return
        start = block * BLOCK
        length = min(BLOCK, entry.size - start)
        digest, copied = self.journal.finished.get((number, block)), False
        if digest is None or not self._holds(entry, start, length, digest):
            digest, copied = self._fetch(entry, start, length), True
            self.journal.add(number, block, digest)
        self.progress.add(length, self._finish(number, block, digest), copied)

    def _finish(self, number: int, block: int, digest: bytes) -> bool:
        """Takes in a block's hash; tells whether its file is whole now."""
        if number not in self._blocks:
            self._hashes[number] = digest
            return True
        with self._lock:
            digests = self._blocks[number]
            digests[block] = digest
            is_whole = all(digests)
        if is_whole:
            Path(self._path(self.entries[number])).chmod(0o444)
            self._hashes[number] = file_hash(digests)
        return is_whole

    def _fetch(self, entry: Entry, start: int, length: int) -> bytes:
        """Brings a block to its file; returns its hash."""
        pause = PAUSE
        for tries_left in reversed(range(TRIES)):
            try:
                return self._try(entry, start, length)
            except Fault as fault:
                if not tries_left or self._stop.wait(pause * random.uniform(0.5, 1.5)):
                    raise SourceFailed(
                        f"dataset_uri {self.uri!r}: {entry.name!r} could not be read: {fault}"
                    ) from None
                pause *= 2
        raise AssertionError

    def _try(self, entry: Entry, start: int, length: int) -> bytes:
        path, end = self._path(entry), start + length
        digest = hashlib.sha256()
        descriptor = os.open(path, os.O_WRONLY) if entry.size > BLOCK else _made_anew(path)
        try:
            for piece in self.source.read(entry, start, length):
                digest.update(piece)
                _write(descriptor, start, piece)
                start += len(piece)
        finally:
            os.close(descriptor)
        if start != end:
            raise Fault("what came is not as long as the file")
        return digest.digest()

    def _holds(self, entry: Entry, start: int, length: int, digest: bytes) -> bool:
        """Whether what a journal says is written is there."""
        try:
            descriptor = os.open(self._path(entry), os.O_RDONLY)
        except OSError:
            return False
        try:
            return block_hash(descriptor, start, length) == digest
        finally:
            os.close(descriptor)

    def _link(self, entry: Entry, original: str) -> None:
        path = Path(self._path(entry))
        path.unlink(missing_ok=True)
        link_or_copy(original, path)

    def _path(self, entry: Entry) -> str:
        return f"{self.directory}/{entry.name}"


def link_or_copy(original: str | Path, path: Path) -> None:
    """Makes a file that is another one, by a link where the disk has them; it is read-only."""
    try:
        os.link(original, path)
    except OSError as error:
        if error.errno not in NO_LINKS:
            raise
        shutil.copyfile(original, path)
        path.chmod(0o444)


def _write(descriptor: int, start: int, data: bytes | memoryview) -> None:
    remaining = memoryview(data)
    while remaining:
        written = os.pwrite(descriptor, remaining, start)
        remaining, start = remaining[written:], start + written


def _made_anew(path: str) -> int:
    """Opens a new file, which only this process can write to."""
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL
    try:
        descriptor = os.open(path, flags, 0o444)
    except FileExistsError:
        # Of an interrupted copy; it may be a link to what others use, so it is not written to.
        Path(path).unlink()
        descriptor = os.open(path, flags, 0o444)
    os.fchmod(descriptor, 0o444)  # whatever the umask: others are to read it
    return descriptor
