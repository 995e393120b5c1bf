"""Buckets of object stores: S3 and what speaks its language, Alibaba's OSS, Google's GCS.

Read with obstore (https://developmentseed.org/obstore/), whose requests leave Python free.
"""

import contextlib
import hashlib
import re
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from datetime import datetime
from typing import TYPE_CHECKING, TypeAlias

import obstore
from obstore.exceptions import BaseError, InvalidPathError, PreconditionError

from trireme.data.description import Dataset
from trireme.data.listing import Entry, refuse_hostile
from trireme.data.sources import PIECE, Fault, changed
from trireme.data.sources.keys import keys_of
from trireme.data.sources.stores import bucket_of, explained, unreachable
from trireme.errors import InputError, TriremeError

Entries: TypeAlias = list[Entry]

if TYPE_CHECKING:
    Listed = list[obstore.ObjectMeta]

_MD5 = re.compile(r"[0-9a-fA-F]{32}")


class ObjectSource:
    """The objects below a path in a bucket, or one object."""

    readers = 12

    def __init__(self, dataset: Dataset) -> None:
        self._dataset = dataset
        self._store = bucket_of(dataset)
        self._prefix = f"{dataset.place.path}/" if dataset.place.path else ""
        self._etag_is_md5 = dataset.place.kind != "gs"
        self._doubtful: dict[str, str] = {}
        self._has_keys = False

    def list(self) -> Entries:
        """Returns all files; see ``Source``."""
        try:
            # What is to be left out has to be seen.
            entries = self._keys() if "/" in self._dataset.exclude else None
            entries = entries or self._listed()
            if entries is None:
                entries = self._keys()
        except FileNotFoundError:
            raise InputError(
                f"dataset_uri {self._dataset.uri!r}: there is no such bucket, or it is empty there"
            ) from None
        except BaseError as error:
            reason = explained(error, self._dataset)
            if isinstance(reason, Fault):
                reason = unreachable(self._dataset, reason)
            raise reason from None
        except Fault as fault:
            raise unreachable(self._dataset, fault) from None
        return [entry._replace(name=entry.name.removeprefix(self._prefix)) for entry in entries]

    def _listed(self) -> Entries | None:
        """Returns what the library lists; None where it cannot, or keys are the same path."""
        try:
            listed = [meta for page in obstore.list(self._store, self._prefix) for meta in page]
        except InvalidPathError:
            return None
        if not listed and self._prefix:
            path = self._dataset.place.path
            listed = [obstore.head(self._store, path)]
            self._prefix = path.removesuffix(path.rpartition("/")[2])
        files = [meta["path"] for meta in listed if meta["size"]]
        if len(set(files)) < len(files):
            return None
        return [
            Entry(meta["path"], meta["size"], _version(meta["e_tag"], meta["last_modified"]))
            for meta in self._without_folders(listed)
            if f"{meta['path']}/" != self._prefix
        ]

    def _keys(self) -> Entries:
        """Returns what the bucket lists, also what is no path; see ``keys``."""
        self._has_keys = True
        return [
            Entry(key.name, key.size, _version(key.e_tag, key.last_modified))
            for key in keys_of(self._dataset, self._prefix)
            if key.size or not key.name.endswith("/")  # which stands for a folder
        ]

    def _without_folders(self, listed: "Listed") -> "Listed":
        """Leaves out empty objects whose names end with a slash, as consoles make for folders.

        The library takes the slash away, and they look like files; under the name without it
        there is nothing, or another object.
        """
        empty = {meta["path"] for meta in listed if not meta["size"]}
        with ThreadPoolExecutor(self.readers) as readers:
            files = dict(zip(empty, readers.map(self._is_empty, empty), strict=True))
        by_path = {meta["path"]: meta for meta in listed if meta["size"] or files[meta["path"]]}
        return list(by_path.values())

    def _is_empty(self, path: str) -> bool:
        try:
            return obstore.head(self._store, path)["size"] == 0
        except FileNotFoundError:
            return False

    def read(self, entry: Entry, start: int, length: int) -> Iterator[memoryview]:
        """Reads a part of a file; see ``Source``."""
        if length == 0:
            return
        if not self._has_md5(entry, length):
            yield from self._pieces(entry, start, length)
            return
        digest = hashlib.md5(usedforsecurity=False)
        for piece in self._pieces(entry, start, length):
            digest.update(piece)
            yield piece
        self._refuse_damaged(entry, digest.hexdigest())

    def _pieces(self, entry: Entry, start: int, length: int) -> Iterator[memoryview]:
        options: obstore.GetOptions = {"range": (start, start + length)}
        if length == entry.size:
            options = {}
        if entry.version.startswith('"'):
            options["if_match"] = entry.version
        try:
            result = obstore.get(self._store, self._prefix + entry.name, options=options)
            version = _version(result.meta["e_tag"], result.meta["last_modified"])
            if (result.meta["size"], version) != (entry.size, entry.version):
                raise changed(self._dataset.uri, entry.name)
            for piece in result.stream(min_chunk_size=PIECE):
                length -= len(piece)
                yield memoryview(piece)
        except FileNotFoundError:
            raise self._gone(entry) from None
        except PreconditionError:
            raise changed(self._dataset.uri, entry.name) from None
        except BaseError as error:
            if "InvalidRange" in str(error):  # it is shorter than it was
                raise changed(self._dataset.uri, entry.name) from None
            raise explained(error, self._dataset) from None
        if length:
            raise Fault(f"{entry.name!r} ended early")

    def _gone(self, entry: Entry) -> TriremeError:
        """Returns the error for an object that is not there by the path that was listed.

        Of keys the library takes a slash away at either end.
        """
        hidden = [f"{entry.name}/", *([] if self._prefix else [f"/{entry.name}"])]
        for name in [] if self._has_keys else hidden:
            first = None
            with contextlib.suppress(BaseError, Fault, TriremeError):
                first = next(keys_of(self._dataset, self._prefix + name), None)
            if first and first.name == self._prefix + name:
                refuse_hostile(self._dataset.uri, [name])
        return changed(self._dataset.uri, entry.name)

    def _has_md5(self, entry: Entry, length: int) -> bool:
        is_whole = length == entry.size
        return self._etag_is_md5 and is_whole and bool(_MD5.fullmatch(entry.version.strip('"')))

    def _refuse_damaged(self, entry: Entry, md5: str) -> None:
        if md5 == entry.version.strip('"').lower():
            return
        # Where the store encrypts with keys of its own an ETag is no MD5, which nothing tells, but
        # for the same bytes arriving again.
        if self._doubtful.get(entry.name) != md5:
            self._doubtful[entry.name] = md5
            raise Fault(f"{entry.name!r} arrived with another MD5 than its ETag")
        self._etag_is_md5 = False


def _version(etag: str | None, last_modified: datetime) -> str:
    """Returns an object's ETag, in quotes if a single byte changes it; else when it was written."""
    if etag and etag.startswith("W/"):
        return etag
    return f'"{etag.strip(chr(34))}"' if etag else last_modified.isoformat()
