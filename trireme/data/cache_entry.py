"""The entry of one dataset in a cache: where its parts are, and what is known of it there."""

import contextlib
import errno
import json
import os
import uuid
from collections.abc import Iterable
from itertools import groupby
from pathlib import Path
from typing import NamedTuple

from trireme.data.copying import Known
from trireme.data.description import Dataset
from trireme.data.folders import close_folders, remove
from trireme.data.listing import Entry, packed, unpacked
from trireme.data.sources import SourceFailed
from trireme.errors import TriremeError

_FULL = {
    errno.ENOSPC: "there is no space left",
    errno.EDQUOT: "the quota is used up",
    errno.EFBIG: "a file is larger than it may be",
}


class Staged(NamedTuple):
    """A dataset that is here.

    Attributes:
        fingerprint: ``sha256:`` and 64 hexadecimal digits, see ``fingerprint.py``.
        copied: How many of the files were brought now, rather than being here already.
    """

    path: str
    fingerprint: str
    files: int
    bytes: int
    copied: int


class Record(NamedTuple):
    """What a source listed when it was copied, and what the copy was."""

    tree: str
    listing: bytes
    hashes: bytes


def last_used(cache: Path, tree: Path) -> float:
    """Returns when a dataset of a cache was last wanted, in seconds since the epoch."""
    stamp = cache / "used" / tree.name
    return (stamp if stamp.exists() else tree).stat().st_mtime


def forget_tree(cache: Path, tree: Path, since: float) -> None:
    """Removes a dataset from a cache, unless somebody has wanted it after that moment."""
    stamp, made = cache / "used" / tree.name, cache / "made" / tree.name
    aside = tree.with_name(f"{tree.name}.{uuid.uuid4().hex}")
    tree.rename(aside)  # from now on who wants it copies it again
    if stamp.exists() and stamp.stat().st_mtime > since and not tree.exists():
        aside.rename(tree)
        return
    remove(aside)
    if not tree.exists():
        stamp.unlink(missing_ok=True)
        made.unlink(missing_ok=True)


class CacheEntry:
    """Where a dataset's parts are in a cache."""

    def __init__(self, cache: Path, dataset: Dataset) -> None:
        self.cache = cache.absolute()
        self.trees = self.cache / "trees"
        self.made = self.cache / "made"
        self.used = self.cache / "used"
        self.record = self.cache / "sources" / dataset.key
        self.partial = self.cache / "partial" / dataset.key
        self.tree = self.partial / "tree"
        self.lock = self.cache / "locks" / dataset.key

    def make(self) -> None:
        """Makes the directories that the others are in."""
        beside = self.record.parent, self.lock.parent
        for directory in (self.trees, self.made, self.used, self.partial, *beside):
            directory.mkdir(parents=True, exist_ok=True)
            with contextlib.suppress(PermissionError):  # somebody else's, who has done it
                directory.chmod(0o755)  # whatever the umask: others are to read it

    def staged(self, entries: list[Entry]) -> Staged | None:
        """Returns the tree that holds exactly what a source lists, if it is there."""
        record = self._recorded()
        if record is None or record.listing != packed(entries):
            return None
        self._stamp(record.tree)  # before the look whether it is there
        if not (self.trees / record.tree).is_dir() or not self._is_intact(record.tree, entries):
            return None
        return self.tree_of(record.tree, entries)

    def _stamp(self, tree: str) -> None:
        """Notes that a tree is wanted now."""
        with contextlib.suppress(OSError):  # the cache may be somebody else's
            (self.used / tree).touch()

    def tree_of(self, tree: str, entries: list[Entry]) -> Staged:
        """Returns the tree of this hash, which holds these files."""
        size = sum(entry.size for entry in entries)
        return Staged(str(self.trees / tree), f"sha256:{tree}", len(entries), size, 0)

    def known(self) -> Known:
        """Returns the files of the tree that was copied from this source before."""
        record = self._recorded()
        if record is None:
            return {}
        tree, hashes, made_at = self.trees / record.tree, record.hashes, self._made(record.tree)
        return {
            entry: (f"{tree}/{entry.name}", hashes[32 * number : 32 * number + 32])
            for number, entry in enumerate(unpacked(record.listing))
            if _is_as_it_was(f"{tree}/{entry.name}", made_at, entry.size)
        }

    def _made(self, tree: str) -> int:
        """Returns when a tree was made, in nanoseconds; 0 where that is not known."""
        try:
            return (self.made / tree).stat().st_mtime_ns
        except FileNotFoundError:
            return 0

    def _is_intact(self, tree: str, entries: list[Entry]) -> bool:
        """Whether nobody has written to a tree since it was made, as root can by mistake."""
        if os.geteuid() != 0:
            return True
        made_at, root = self._made(tree), f"{self.trees}/{tree}"
        by_folder = groupby(entries, lambda entry: entry.name.rpartition("/")[0])
        return all(
            _are_as_they_were(f"{root}/{folder}", made_at, files) for folder, files in by_folder
        )

    def _recorded(self) -> Record | None:
        """Returns what was copied from this source before, if its tree is there still."""
        try:
            head, _, rest = self.record.read_bytes().partition(b"\n")
            about = json.loads(head)
            size = about["listing"]
            record = Record(about["tree"], rest[:size], rest[size:])
        except (OSError, ValueError, LookupError, TypeError):
            return None
        return record if (self.trees / record.tree).is_dir() else None

    def finish(self, entries: list[Entry], hashes: list[bytes], tree: str) -> None:
        """Moves the copy to its place among the trees, and records what it is a copy of."""
        target = self.trees / tree
        listing = packed(entries)
        head = json.dumps({"tree": tree, "listing": len(listing)}).encode()
        record = self.partial / "record"
        record.write_bytes(b"".join([head, b"\n", listing, *hashes]))
        record.chmod(0o644)
        # Before the tree: a record without one counts for nothing, a tree without one is lost.
        record.rename(self.record)
        close_folders(self.tree)
        try:
            self.tree.rename(target)
        except OSError as error:
            if error.errno not in (errno.ENOTEMPTY, errno.EEXIST):
                raise
            # The same bytes have come from another source, or were there and have been changed.
            if not self._is_intact(tree, entries):
                aside = target.with_name(f"{tree}.{uuid.uuid4().hex}")
                target.rename(aside)
                self.tree.rename(target)
                remove(aside)
        target.chmod(0o555)
        (self.made / tree).touch()
        self._stamp(tree)
        remove(self.partial)

    def make_room(self, error: OSError) -> None:
        """Removes what was copied if the disk is full; for whoever has the lock."""
        if error.errno in _FULL:
            remove(self.partial)

    def unusable(self, dataset: Dataset, error: OSError) -> TriremeError:
        """Returns the sentence for a cache that cannot be written to."""
        why = str(error)
        if error.errno in _FULL:
            why = f"{_FULL[error.errno]}; what was copied has been removed"
        return SourceFailed(f"dataset_uri {dataset.uri!r} cannot be copied to {self.cache}: {why}")


def _are_as_they_were(folder: str, made_at: int, files: Iterable[Entry]) -> bool:
    """Whether a folder and files in it were last written before that time."""
    try:
        descriptor = os.open(folder, os.O_RDONLY)
    except OSError:
        return False
    try:
        # Names are looked up in the open folder: of a hundred thousand paths that takes longer.
        names = ((entry.name.rpartition("/")[2], entry.size) for entry in files)
        return _is_as_it_was(".", made_at, within=descriptor) and all(
            _is_as_it_was(name, made_at, size, descriptor) for name, size in names
        )
    finally:
        os.close(descriptor)


def _is_as_it_was(
    path: str, made_at: int, size: int | None = None, within: int | None = None
) -> bool:
    """Whether a file has its size, and a file or folder was last written before that time."""
    try:
        info = os.stat(path, dir_fd=within)
    except OSError:
        return False
    return info.st_mtime_ns <= made_at and size in (None, info.st_size)
