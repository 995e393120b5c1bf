"""A dataset's listing: what files it holds, by name, size and version."""

import json
import re
from collections.abc import Callable, Iterable, Iterator
from typing import NamedTuple

from trireme.errors import InputError

LONGEST_NAME = 255  # bytes that a file system takes
LONGEST_PATH = 3500  # bytes that, with the cache's own path, stay below PATH_MAX
LONGEST_SHOWN = 200  # characters of a name
LONGEST_EXCLUDED = 300  # likewise, in the pattern that is advised

_CONTROL = frozenset(map(chr, (*range(32), 127)))


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


def chosen(
    uri: str, listed: list[Entry], selects: Callable[[str], bool], *, controls: bool = True
) -> list[Entry]:
    """Returns the files that are wanted, in order; of what else is listed nothing is judged.

    Args:
        controls: Whether the source can read names with control characters.
    """
    # What has no name is the folder itself, as consoles make it.
    named = (entry for entry in listed if entry.name)
    entries = [entry for entry in named if all(map(selects, _names(entry.name)))]
    refuse_hostile(uri, (entry.name for entry in entries), controls=controls)
    return in_order(without_markers(uri, entries, listed))


def _names(name: str) -> tuple[str, ...]:
    """Returns the names by which patterns know a file."""
    # Of a/ also those of a file, and of what is in a folder without a name.
    return (name[:-1], f"{name}/") if name.endswith("/") else (name,)


def refuse_hostile(uri: str, names: Iterable[str], *, controls: bool = True) -> None:
    """Refuses names that are no path of a file below a directory."""
    for name in names:
        parts = name.split("/")
        data = encoded(name)
        if (
            not {"", ".", ".."}.isdisjoint(parts)
            or b"\0" in data
            or len(data) > LONGEST_PATH
            or (len(data) > LONGEST_NAME and max(map(len, data.split(b"/"))) > LONGEST_NAME)
            or not (controls or _CONTROL.isdisjoint(name))
        ):
            shown = name if len(name) < LONGEST_SHOWN else f"{name[:LONGEST_SHOWN]}..."
            raise InputError(
                f"dataset_uri {uri!r} holds {shown!r}, which cannot be a file's name; leave it out "
                f"with dataset_options {json.dumps({'exclude': [pattern_of(name)]})}"
            )


def pattern_of(name: str) -> str:
    """Returns a pattern that leaves out a name that no file can have, and others only like it."""
    *folders, last = name.split("/")
    if "" in (*folders, last):
        return "/"
    for folder in {".", ".."}.intersection(folders):
        return f"{folder}/"
    if last in (".", ".."):
        return last
    pattern = re.sub(r"[*?[]", r"[\g<0>]", name[:LONGEST_EXCLUDED])
    return f"{pattern}**" if len(name) > LONGEST_EXCLUDED else pattern


def without_markers(uri: str, entries: list[Entry], listed: list[Entry]) -> list[Entry]:
    """Leaves out empty objects that only stand for a folder of what is listed."""
    folders = _folders(entries)
    all_folders = folders if len(entries) == len(listed) else _folders(listed)
    for entry in entries:
        if entry.name in folders and entry.size:
            raise InputError(
                f"dataset_uri {uri!r} holds both {entry.name!r} and objects below it, "
                "which no directory can; exclude one of them"
            )
    return [entry for entry in entries if entry.size or entry.name not in all_folders]


def _folders(entries: Iterable[Entry]) -> set[str]:
    folders: set[str] = set()
    for folder in {entry.name.rpartition("/")[0] for entry in entries}:
        while folder and folder not in folders:
            folders.add(folder)
            folder = folder.rpartition("/")[0]
    return folders
