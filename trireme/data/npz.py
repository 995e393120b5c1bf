"""Archives of NumPy's arrays without NumPy, which the image that stages data does not have.

https://numpy.org/doc/stable/reference/generated/numpy.lib.format.html
"""

import ast
import math
import re
import zipfile
import zlib
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import IO, NamedTuple

_MAGIC = b"\x93NUMPY"
_KIND = re.compile(r"[<>|=]?([a-zA-Z])(\d+)")
_PIECE = 1 << 24


class Array(NamedTuple):
    """An array in an archive: its name, its type as NumPy writes it, and its shape."""

    name: str
    type: str
    shape: tuple[int, ...]

    @property
    def rows(self) -> int:
        """The samples along its first axis; 0 where it has none."""
        return self.shape[0] if self.shape else 0

    @property
    def is_whole(self) -> bool:
        """Whether it holds whole numbers."""
        return self.type.lstrip("<>|=")[0] in "iub"

    @property
    def row_bytes(self) -> int:
        """The bytes of a sample."""
        kind = _KIND.fullmatch(self.type)
        assert kind
        size = int(kind[2]) * (4 if kind[1] == "U" else 1)
        return size * math.prod(self.shape[1:])


@contextmanager
def _opened(archive: zipfile.ZipFile, name: str) -> Iterator[tuple[Array, IO[bytes]]]:
    """Opens an array of an archive where its numbers begin."""
    with archive.open(f"{name}.npy") as stream:
        if stream.read(6) != _MAGIC:
            raise ValueError(f"{name} is no array")
        version = stream.read(2)[0]
        length = int.from_bytes(stream.read(2 if version == 1 else 4), "little")
        head = ast.literal_eval(stream.read(length).decode("utf-8" if version > 2 else "latin1"))
        kind, shape = head["descr"], tuple(head["shape"])
        if not isinstance(kind, str) or not _KIND.fullmatch(kind):
            raise ValueError(f"the array {name} holds objects or records, and not numbers")
        if head["fortran_order"] and len(shape) > 1:
            raise ValueError(f"the array {name} is not kept sample by sample, but column by column")
        yield Array(name, kind, shape), stream


def arrays(file: Path) -> dict[str, Array]:
    """Returns what arrays an archive holds, by name."""
    by_name = {}
    with zipfile.ZipFile(file) as archive:
        for member in archive.namelist():
            if member.endswith(".npy"):
                with _opened(archive, member.removesuffix(".npy")) as (array, _):
                    by_name[array.name] = array
    return by_name


def rows(file: Path, name: str) -> Iterator[bytes]:
    """Returns the bytes of each sample of an array."""
    with zipfile.ZipFile(file) as archive, _opened(archive, name) as (array, stream):
        yield from _rows(array, stream)


def _rows(array: Array, stream: IO[bytes]) -> Iterator[bytes]:
    size = array.row_bytes
    for _ in range(array.rows):
        row = stream.read(size)
        if len(row) != size:
            raise EOFError(f"the array {array.name} is cut off")
        yield row


def write_parts(
    file: Path, parts: list[tuple[Path, Callable[[int], bool], int]], samples: int
) -> None:
    """Writes archives with the samples that belong to each; other arrays are in all of them.

    Args:
        parts: A path, which samples belong there by their numbers, and how many they are.
        samples: How many an array has that holds one for each.
    """
    with ExitStack() as opened_files:
        source = opened_files.enter_context(zipfile.ZipFile(file))
        outputs = [
            (opened_files.enter_context(zipfile.ZipFile(path, "w")), belongs, count)
            for path, belongs, count in parts
        ]
        for member in source.namelist():
            name = member.removesuffix(".npy")
            with ExitStack() as streams:
                array, stream = streams.enter_context(_opened(source, name))
                # Without a time, so that the same samples are the same bytes.
                written = [
                    streams.enter_context(
                        output.open(zipfile.ZipInfo(member), "w", force_zip64=True)
                    )
                    for output, _, _ in outputs
                ]
                if array.rows != samples:
                    for archive in written:
                        archive.write(_head(array))
                    while piece := stream.read(_PIECE):
                        for archive in written:
                            archive.write(piece)
                    continue
                for archive, (_, _, count) in zip(written, outputs, strict=True):
                    archive.write(_head(array._replace(shape=(count, *array.shape[1:]))))
                for number, row in enumerate(_rows(array, stream)):
                    for archive, (_, belongs, _) in zip(written, outputs, strict=True):
                        if belongs(number):
                            archive.write(row)


def _head(array: Array) -> bytes:
    header = repr({"descr": array.type, "fortran_order": False, "shape": array.shape}).encode()
    padding = b" " * (-(len(_MAGIC) + 4 + len(header) + 1) % 64)
    header += padding + b"\n"
    return _MAGIC + b"\x01\x00" + len(header).to_bytes(2, "little") + header


FAULTS = (
    *(OSError, EOFError, ValueError, SyntaxError, KeyError, TypeError, IndexError),
    *(NotImplementedError, zipfile.BadZipFile, zlib.error),
)
"""What reading an archive raises that is cut off, or none."""
