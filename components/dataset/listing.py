"""A dataset's listing: what files it holds, by name, size and version."""

from collections.abc import Iterable, Iterator
from typing import NamedTuple

from trireme.components.errors import InputError

LONGEST_NAME = 255  # bytes that a file system takes
LONGEST_PATH = 3500  # bytes that, with the cache's own path, stay below PATH_MAX


class Entry(NamedTuple):
    """A file of a source.

    Attributes:
        name: Its path in the dataset, with ``/`` between folders.
        version: What changes when its content does: an ETag, a time. A copy that is here already
            is taken for the file as long as name, size and version are the same.
    """

    name: str
    size: int
    version: str


def encoded(name: str) -> bytes:
    """Returns a file's name as the file system has it, which need not be UTF-8."""
    return name.encode("utf-8", "surrogateescape")


def in_order(entries: Iterable[Entry]) -> list[Entry]:
    """Returns entries in the order of their names' bytes."""
    listed = list(entries)
    if "".join([name for name, _, _ in listed]).isascii():  # then that of characters is the same
        return sorted(listed)
    return sorted(listed, key=lambda entry: encoded(entry.name))


def packed(entries: list[Entry]) -> bytes:
    """Returns a listing as bytes that are the same for the same listing."""
    return encoded("\0".join([f"{name}\0{size}\0{version}" for name, size, version in entries]))


def unpacked(data: bytes) -> Iterator[Entry]:
    """Returns the entries of a listing that ``packed`` made."""
    fields = data.decode("utf-8", "surrogateescape").split("\0") if data else []
    return map(Entry, fields[0::3], map(int, fields[1::3]), fields[2::3])


def refuse_hostile(uri: str, names: Iterable[str]) -> None:
    """Refuses names that are no path of a file below a directory."""
    for name in names:
        parts = name.split("/")
        data = encoded(name)
        if (
            not {"", ".", ".."}.isdisjoint(parts)
            or b"\0" in data
            or len(data) > LONGEST_PATH
            or (len(data) > LONGEST_NAME and max(map(len, data.split(b"/"))) > LONGEST_NAME)
        ):
            shown = name if len(name) < 200 else f"{name[:200]}..."
            raise InputError(f"dataset_uri {uri!r} holds {shown!r}, which cannot be a file's name")


def without_markers(uri: str, entries: list[Entry]) -> list[Entry]:
    """Leaves out empty objects that only stand for a folder."""
    folders: set[str] = set()
    for entry in entries:
        folder = entry.name.rpartition("/")[0]
        while folder and folder not in folders:
            folders.add(folder)
            folder = folder.rpartition("/")[0]
    for entry in entries:
        if entry.name in folders and entry.size:
            raise InputError(
                f"dataset_uri {uri!r} holds both {entry.name!r} and objects below it, "
                "which no directory can; exclude one of them"
            )
    return [entry for entry in entries if entry.name not in folders]
