"""The fingerprint of a dataset: which bytes it holds, wherever they came from.

A Merkle tree of SHA-256 in three levels, which can be computed in any order and in parallel:

1. A *block* is ``BLOCK`` (16 MiB = 16,777,216) bytes of a file; the last one of a file is what is
   left. Its hash is the SHA-256 of its bytes.
2. The hash of a *file* of at most one block is the SHA-256 of its bytes. The hash of a larger one
   is the SHA-256 over its blocks' hashes, 32 bytes each, in their order.
3. The hash of a *dataset* is the SHA-256 over, for every file in the order of the bytes of their
   paths: the path, relative and with ``/`` between folders; a NUL; the size in decimal digits; a
   NUL; the file's hash in 64 hexadecimal digits; a line feed.

The fingerprint is ``sha256:`` and the dataset's hash in hexadecimal digits. Two files of different
size can be made to have one hash in step 2, which is why the size is part of step 3. Folders,
times, owners and modes do not count.

A fingerprint that starts with ``mtime:`` is a SHA-256 over the same lines with the time of the last
change, in nanoseconds, in place of the hash: it says cheaply whether mounted data is as it was.
"""

import hashlib
import os
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from trireme.data.listing import Entry, encoded
from trireme.data.sources import PIECE
from trireme.data.sources.local import READERS

BLOCK = 1 << 24


def blocks(size: int) -> int:
    """Returns how many blocks a file of this size has; an empty one has one."""
    return max(1, -(-size // BLOCK))


def file_hash(blocks: list[bytes]) -> bytes:
    """Returns a file's hash from its blocks' hashes."""
    return blocks[0] if len(blocks) == 1 else hashlib.sha256(b"".join(blocks)).digest()


def dataset_hash(files: Iterable[tuple[Entry, str]]) -> str:
    """Returns a dataset's hash from its files and what stands for the content of each."""
    tree = hashlib.sha256()
    for entry, content in files:
        tree.update(b"%s\0%d\0%s\n" % (encoded(entry.name), entry.size, content.encode()))
    return tree.hexdigest()


def of_times(entries: list[Entry]) -> str:
    """Returns the fingerprint of names, sizes and times, as ``files_of`` and ``in_order`` list."""
    times = ((entry, entry.version.rpartition("-")[0]) for entry in entries)
    return f"mtime:{dataset_hash(times)}"


def of_content(path: Path, entries: list[Entry]) -> str:
    """Returns the fingerprint of the files at a path, which are read, several at a time."""
    root = path if path.is_dir() else path.parent
    files = [root / entry.name for entry in entries]
    with ThreadPoolExecutor(READERS) as readers:
        hashes = (digest.hex() for digest in readers.map(_hash_of, files))
        return f"sha256:{dataset_hash(zip(entries, hashes, strict=True))}"


def block_hash(descriptor: int, start: int, length: int) -> bytes:
    """Returns the hash of a part of a file."""
    digest, end = hashlib.sha256(), start + length
    while data := os.pread(descriptor, min(PIECE, end - start), start):
        digest.update(data)
        start += len(data)
    return digest.digest()


def _hash_of(file: Path) -> bytes:
    with file.open("rb") as stream:
        descriptor = stream.fileno()
        count = blocks(os.fstat(descriptor).st_size)
        return file_hash([block_hash(descriptor, n * BLOCK, BLOCK) for n in range(count)])
