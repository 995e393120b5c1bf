"""A directory of datasets by their content, shared by all who want the same bytes.

    trees/HASH      a dataset's files, read-only, under the hexadecimal digits of its fingerprint
    made/HASH       an empty file, as old as that tree: what is younger in there has been changed
    used/HASH       an empty file, as old as the last use of that tree
    sources/KEY     what a source listed when it was copied, and the hash of each of its files
    partial/KEY     a copy under way: its files, and a journal of the blocks that are finished
    locks/KEY       held by whoever is copying that source

Trees and records are renamed into place when they are whole, so a reader needs no lock. A file that
its source lists unchanged is linked from the tree of before, and only the others are read. ``KEY``
stands for a URI with its options, but for its secret. What a killed process leaves is whole or in
``partial``; a machine that goes down with unwritten data may lose some of a tree made right before.
"""

import hashlib
import shutil
from pathlib import Path

from trireme.data.cache_entry import CacheEntry, Staged
from trireme.data.copy_journal import CopyJournal
from trireme.data.copying import Copy, Known
from trireme.data.description import Dataset
from trireme.data.fingerprint import BLOCK, dataset_hash
from trireme.data.folders import open_folders, remove, remove_unlisted
from trireme.data.listing import Entry, chosen
from trireme.data.lock import locked
from trireme.data.patterns import selector
from trireme.data.progress import Progress
from trireme.data.sources import Source, SourceFailed, source_of
from trireme.data.uri import NONE, STORES, local
from trireme.errors import InputError
from trireme.text.say import say
from trireme.text.units import in_words


def fetch(dataset: Dataset, cache: Path) -> Staged:
    """Copies a dataset to a cache, unless it is there.

    Safe when many do so at the same moment: one copies, the others wait.
    """
    source = source_of(dataset)
    _refuse_itself(dataset, cache)
    entries = _listed(dataset, source)
    entry = CacheEntry(cache, dataset)
    try:
        if staged := entry.staged(entries):
            return staged
        entry.make()
        with locked(entry.lock, lambda: say("waiting for another run that copies this dataset")):
            try:
                return entry.staged(entries) or _copied(dataset, source, entries, entry)
            except OSError as error:
                # As long as nobody else has the lock, and goes on with it.
                entry.make_room(error)
                raise
    except OSError as error:
        raise entry.unusable(dataset, error) from None


def _listed(dataset: Dataset, source: Source) -> list[Entry]:
    selects = selector(dataset.include, dataset.exclude)
    controls = dataset.place.kind not in STORES
    entries = chosen(dataset.uri, source.list(), selects, controls=controls)
    if not entries and dataset.uri != NONE:
        among = " that include and exclude select" if dataset.include or dataset.exclude else ""
        raise InputError(f"dataset_uri {dataset.uri!r} holds no files{among}")
    return entries


def _copied(dataset: Dataset, source: Source, entries: list[Entry], entry: CacheEntry) -> Staged:
    known = entry.known()
    entry.tree.mkdir(parents=True, exist_ok=True)
    open_folders(entry.tree)  # closed where a copy was killed at its very end
    journal = CopyJournal(entry.partial, entries)
    _refuse_too_large(dataset, entries, known, journal, entry)
    remove_unlisted(entry.tree, entries)
    progress = Progress(sum(entry.size for entry in entries), len(entries))
    try:
        with journal:
            hashes = Copy(source, dataset.uri, entries, entry.tree, journal, known, progress).run()
    finally:
        progress.end()
    if dataset.sha256:
        _refuse_other_than(dataset, entry)
    tree = dataset_hash(zip(entries, map(bytes.hex, hashes), strict=True))
    entry.finish(entries, hashes, tree)
    copied = sum(entry not in known for entry in entries)
    return entry.tree_of(tree, entries)._replace(copied=copied)


def _refuse_itself(dataset: Dataset, cache: Path) -> None:
    if dataset.place.kind != "file":
        return
    if cache.resolve().is_relative_to(local(dataset.uri).resolve()):
        raise InputError(
            f"dataset_uri {dataset.uri!r} holds the folder that it would be copied to, {cache}; "
            "name a narrower folder, or set TRIREME_HOME to another place"
        )


def _refuse_too_large(
    dataset: Dataset, entries: list[Entry], known: Known, journal: CopyJournal, entry: CacheEntry
) -> None:
    needed = sum(entry.size for entry in entries if entry not in known)
    needed -= sum(
        min(BLOCK, entries[file].size - block * BLOCK)
        for file, block in journal.finished
        if entries[file] not in known
    )
    free = shutil.disk_usage(entry.partial).free
    if needed > free:
        raise SourceFailed(
            f"dataset_uri {dataset.uri!r} needs {in_words(needed)} more, and {entry.cache} has "
            f"{in_words(free)} left"
        )


def _refuse_other_than(dataset: Dataset, entry: CacheEntry) -> None:
    (file,) = (path for path in entry.tree.iterdir())
    with file.open("rb") as stream:
        digest = hashlib.file_digest(stream, "sha256").hexdigest()
    if digest != dataset.sha256:
        remove(entry.partial)
        raise InputError(
            f"dataset_uri {dataset.uri!r}: its SHA-256 is {digest}, not {dataset.sha256}"
        )
