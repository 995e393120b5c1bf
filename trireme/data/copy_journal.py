"""The journal of a copy that is under way, so that another process can go on after a kill.

Two files beside the growing tree: ``listing``, what is being copied, and ``blocks``, a record of
fixed size for every finished block: the number of its file in the listing, its number in the file,
and its SHA-256. A record cut off by a kill counts for nothing. Whoever goes on hashes the blocks
again before believing them: a record may have outlived its data when the machine went down.
"""

import os
import struct
from pathlib import Path
from typing import Self

from trireme.data.listing import Entry, packed, unpacked

_RECORD = struct.Struct("<QQ32s")


class CopyJournal:
    """The finished blocks of a copy; entered for as long as it is written."""

    def __init__(self, directory: Path, entries: list[Entry]) -> None:
        self._blocks, listing = directory / "blocks", directory / "listing"
        self.finished = self._from_before(listing, entries)
        """The SHA-256 of each block that was finished before, by file and block number."""
        # Until the new records are there the old ones must not be taken for the new listing's.
        records = (_RECORD.pack(*key, digest) for key, digest in self.finished.items())
        renewed = directory / "renewed"
        renewed.write_bytes(b"".join(records))
        if not listing.exists() or listing.read_bytes() != packed(entries):
            self._blocks.unlink(missing_ok=True)
            listing.write_bytes(packed(entries))
        renewed.rename(self._blocks)
        self._descriptor = -1

    def __enter__(self) -> Self:
        self._descriptor = os.open(self._blocks, os.O_WRONLY | os.O_APPEND)
        return self

    def __exit__(self, *exception: object) -> None:
        os.close(self._descriptor)

    def add(self, file: int, block: int, digest: bytes) -> None:
        """Records a block whose bytes are written, from any thread."""
        os.write(self._descriptor, _RECORD.pack(file, block, digest))

    def _from_before(self, listing: Path, entries: list[Entry]) -> dict[tuple[int, int], bytes]:
        try:
            before, data = list(unpacked(listing.read_bytes())), self._blocks.read_bytes()
        except (OSError, ValueError, TypeError):  # the first time, or cut off while it was written
            return {}
        now = {entry: number for number, entry in enumerate(entries)}
        end = len(data) - len(data) % _RECORD.size
        return {
            (now[before[file]], block): digest
            for file, block, digest in _RECORD.iter_unpack(data[:end])
            if file < len(before) and before[file] in now
        }
