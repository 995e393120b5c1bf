"""Sources of datasets: each lists its files and reads parts of them."""

from collections.abc import Iterator
from contextlib import contextmanager
from reprlib import repr
from typing import TYPE_CHECKING, Any, Protocol

from trireme import plugins
from trireme.data.description import Dataset, refuse_mounted
from trireme.data.listing import Entry
from trireme.data.uri import STORES, added
from trireme.errors import InputError, TriremeError

if TYPE_CHECKING:
    from importlib.metadata import EntryPoint


class Source(Protocol):
    """Files that can be listed and read.

    A class of another package is called with the ``Dataset``, whose ``place`` is its URI taken
    apart; it says ``takes_secret = True`` where credentials lead there.

    Attributes:
        readers: How many threads may read at a time.
    """

    readers: int

    def list(self) -> list[Entry]:
        """Returns all files, in any order, under names that nobody has judged.

        Raises:
            TriremeError: One sentence that says why they cannot be listed.
        """

    def read(self, entry: Entry, start: int, length: int) -> Iterator[bytes | memoryview]:
        """Reads a part of a file, piece by piece; what came is right once the last has come.

        Fewer or more bytes than were asked for are a fault, which whoever reads notices.

        Args:
            entry: A file, as listed.
            start: The offset.
            length: How many bytes; from 0, with the size, for all of it.

        Raises:
            Fault: The network's, worth another try from the start.
            TriremeError: The file has changed or gone, or may not be read.
        """


PIECE = 1 << 17
"""Bytes that are best read at a time: they are hashed and written while the CPU's cache has them.

Writes of 1 MiB took three times as long on ext4 in a virtual machine that gives large free pages
back to its host.
"""


class SourceFailed(TriremeError):
    """A source did not keep what it promised: it is away, or it changed."""


class Fault(Exception):
    """Something that may go away by itself; its message continues "could not be read: "."""


_SIGNS = {
    # as requests says it, as obstore does
    "failed to resolve": "there is no such server",
    "dns error": "there is no such server",
    "connection refused": "the server refuses connections",
    "timed out": "the server does not answer",
    "kind: timeout": "the server does not answer",
    "certificate verify failed": "the server's certificate is not trusted",
    "invalidcertificate": "the server's certificate is not trusted",
}


def why_broken(message: str) -> str:
    """Returns in words why a connection to a server is broken, or was never made.

    Args:
        message: What a library says of it. It may hold the URL, so nothing is looked for that a
            path could be called.
    """
    message = message.lower()
    return next(
        (words for sign, words in _SIGNS.items() if sign in message), "the connection broke"
    )


def denied(dataset: Dataset, words: str) -> InputError:
    """Returns the error for a source that lets nobody in, or not with this Secret."""
    secret = dataset.secret
    advice = f"see dataset_secret {secret!r}" if secret else "name a dataset_secret"
    return InputError(f"dataset_uri {dataset.uri!r}: access is denied ({words}); {advice}")


def changed(uri: str, name: str) -> SourceFailed:
    """Returns the error for a file that is not what was listed any more."""
    return SourceFailed(
        f"dataset_uri {uri!r}: {name!r} changed or was removed while it was copied; run again "
        "when nobody writes to it"
    )


def source_of(dataset: Dataset) -> Source:
    """Returns the source that a dataset is staged from.

    Raises:
        InputError: There is none, or the credentials are incomplete.
    """
    # Each source needs a library that the others do not.
    refuse_mounted(dataset)
    kind = dataset.place.kind
    if kind == "file":
        from trireme.data.sources.local import LocalSource

        return LocalSource(dataset)
    if kind == "builtin":
        from trireme.data.sources.builtin import BuiltinSource

        return BuiltinSource(dataset)
    if kind == "http":
        from trireme.data.sources.web import WebSource

        return WebSource(dataset)
    if kind == "hf":
        from trireme.data.sources.hub import HubSource

        return HubSource(dataset)
    if kind == "models":
        from trireme.data.sources.registered import RegisteredModel

        return RegisteredModel(dataset)
    if kind in STORES:
        from trireme.data.sources.objects import ObjectSource

        return ObjectSource(dataset)
    return _OfPackage(dataset, added()[kind])


class _OfPackage:
    """A source of another package, which has to give what ``Source`` says."""

    def __init__(self, dataset: Dataset, entry: "EntryPoint") -> None:
        source = plugins.load(entry)
        name = getattr(source, "__name__", entry.name)
        self._what = f"dataset_uri {dataset.uri!r}: {name}, a data source of {plugins.whose(entry)}"
        with self._explained("__init__"):
            self._source = source(dataset)
        for method in ("list", "read"):
            if not callable(getattr(self._source, method, None)):
                raise InputError(f"{self._what}, has no {method}")
        readers = getattr(self._source, "readers", None)
        if not isinstance(readers, int) or readers < 1:
            raise InputError(f"{self._what}, has no readers, a number from 1")
        self.readers = readers

    def list(self) -> list[Entry]:
        with self._explained("list"):
            return [_entry(item) for item in self._source.list()]

    def read(self, entry: Entry, start: int, length: int) -> Iterator[bytes | memoryview]:
        with self._explained("read"):
            for piece in self._source.read(entry, start, length):
                yield memoryview(piece).cast("B")

    @contextmanager
    def _explained(self, method: str) -> Iterator[None]:
        try:
            yield
        except (TriremeError, Fault):
            raise
        except Exception as error:
            why = plugins.in_words(error)
            raise SourceFailed(f"{self._what}, failed in {method}: {why}") from error


def _entry(item: Any) -> Entry:
    """Returns what a source of another package has listed."""
    if not isinstance(item, tuple) or len(item) != len(Entry._fields):
        raise TypeError(f"{repr(item)} is no Entry")
    entry = Entry(*item)
    for field, kind in Entry.__annotations__.items():
        if not isinstance(value := getattr(entry, field), kind):
            raise TypeError(f"{field} {repr(value)} of {repr(entry.name)} is no {kind.__name__}")
    if entry.size < 0:
        raise ValueError(f"size {entry.size} of {repr(entry.name)} is less than 0")
    return entry
