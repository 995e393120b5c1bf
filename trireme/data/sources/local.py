"""Files on this machine, or on a file system mounted here."""

import os
import stat
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import TypeAlias

from trireme.data import uri as uris
from trireme.data.description import Dataset
from trireme.data.listing import Entry
from trireme.data.sources import PIECE, changed
from trireme.errors import InputError

READERS = min(4, os.cpu_count() or 1)  # of large files; beyond that the disk is the limit
LARGE = 1 << 20  # bytes from which on a file is better read by several threads
DEEPEST = 200  # folders, one in the other
LINKED = 100  # ways to one folder: a few links can make billions of them

Identity: TypeAlias = tuple[int, int]
"""Device and number of a folder, by whatever path it is reached."""


class LocalSource:
    """A file, or the files below a directory.

    Links are followed, also to places outside: a directory of links to where the files really are
    is a common way to put a dataset together, and the copy must not depend on those places.
    """

    def __init__(self, dataset: Dataset) -> None:
        self.readers = 1
        self._uri = dataset.uri
        self.path = uris.local(dataset.uri)
        self._root = self.path if self.path.is_dir() else self.path.parent

    def list(self) -> list[Entry]:
        """Returns all files; see ``Source``."""
        entries = files_of(self.path)
        # With small files, threads would only wait for each other's turn in the interpreter.
        large = sum(entry.size for entry in entries) > LARGE * len(entries)
        self.readers = READERS if large else 1
        return entries

    def read(self, entry: Entry, start: int, length: int) -> Iterator[bytes]:
        """Reads a part of a file; see ``Source``."""
        try:
            descriptor = os.open(f"{self._root}/{entry.name}", os.O_RDONLY | os.O_NONBLOCK)
        except FileNotFoundError:
            raise changed(self._uri, entry.name) from None
        except OSError as error:
            raise _unreadable(self.path, error) from None
        try:
            end = start + length
            while start < end and (data := os.pread(descriptor, min(PIECE, end - start), start)):
                yield data
                start += len(data)
            if start < end or _version(os.fstat(descriptor)) != entry.version:
                raise changed(self._uri, entry.name)
        except OSError as error:
            raise _unreadable(self.path, error) from None
        finally:
            os.close(descriptor)


def files_of(path: Path) -> list[Entry]:
    """Lists a file, or the files below a directory, following links."""
    try:
        info = path.stat()
        if stat.S_ISREG(info.st_mode):
            return [Entry(path.name, info.st_size, _version(info))]
        if not stat.S_ISDIR(info.st_mode):
            raise _neither(str(path))
        entries: list[Entry] = []
        _add_below(str(path), "", ((info.st_dev, info.st_ino),), entries, Counter())
        return entries
    except OSError as error:
        raise _unreadable(path, error) from None


def _add_below(
    directory: str,
    prefix: str,
    above: tuple[Identity, ...],
    entries: list[Entry],
    seen: Counter[Identity],
) -> None:
    seen[above[-1]] += 1
    if len(above) > DEEPEST or seen[above[-1]] > LINKED:
        why = f"more than {DEEPEST} folders deep"
        if len(above) <= DEEPEST:
            why = f"a folder that more than {LINKED} links lead to"
        raise InputError(f"dataset_uri {directory[:200]!r} could not be copied: it is {why}")
    folders = []
    # Names are looked up in the open directory: of a hundred thousand paths that takes longer.
    descriptor = os.open(directory, os.O_RDONLY)
    try:
        with os.scandir(descriptor) as items:
            for item in items:
                info = _info(item, directory)
                if stat.S_ISREG(info.st_mode):
                    entries.append(Entry(prefix + item.name, info.st_size, _version(info)))
                elif stat.S_ISDIR(info.st_mode):
                    folders.append((item.name, (info.st_dev, info.st_ino)))
                else:
                    raise _neither(f"{directory}/{item.name}")
    finally:
        os.close(descriptor)
    for name, identity in folders:
        if not prefix and name == "lost+found":  # of the file system that is mounted there
            continue
        if identity in above:
            raise InputError(
                f"dataset_uri {directory!r} could not be copied: {f'{directory}/{name}'!r} is a "
                "link to a directory that contains it"
            )
        below = f"{directory}/{name}", f"{prefix}{name}/", (*above, identity)
        _add_below(*below, entries, seen)


def _info(item: os.DirEntry[str], directory: str) -> os.stat_result:
    try:
        return item.stat()
    except OSError as error:
        error.filename = path = f"{directory}/{item.name}"
        if item.is_symlink() and not Path(path).exists():
            raise InputError(
                f"dataset_uri {directory!r} could not be copied: {path!r} is a broken link"
            ) from None
        raise


def _version(info: os.stat_result) -> str:
    # Times of content can be set at will, as rsync does; the time of the last change cannot.
    return f"{info.st_mtime_ns}-{info.st_ctime_ns}"


def _neither(path: str) -> InputError:
    return InputError(
        f"dataset_uri {path!r} could not be copied: it is neither a file nor a directory"
    )


def _unreadable(path: Path, error: OSError) -> InputError:
    return InputError(f"dataset_uri {str(path)!r} could not be copied: {error}")
