"""Tables of a dataset, CSV and Parquet: their columns, their labels, and copies of some rows."""

import csv
import hashlib
import sys
from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any, NamedTuple, TextIO

SUFFIXES = (".csv", ".parquet")

LABELS = ("label", "target", "y", "class")
"""Names of columns that hold what is to be foretold, where a dataset does not say it."""

DELIMITERS = ",;\t"
SHOWN = 20  # columns that a sentence names

csv.field_size_limit(min(sys.maxsize, 2**31 - 1))  # a cell may be a whole text


class TableError(Exception):
    """A table cannot be used, in one sentence."""


class Row(NamedTuple):
    """A row: its cells, and the line or lines that it is in its file, if that has lines."""

    cells: list[Any]
    text: str = ""


@contextmanager
def opened(file: Path) -> Iterator[tuple[list[str], Iterator[Row]]]:
    """Opens a table: the names of its columns, and its rows one by one."""
    if file.suffix.lower() == ".parquet":
        table = _parquet(file)
        names = table.schema_arrow.names
        rows: Iterator[Row] = (
            Row(list(cells))
            for batch in table.iter_batches()
            for cells in zip(*(column.to_pylist() for column in batch.columns), strict=True)
        )
        yield _checked(file, names), rows
        return
    with file.open(encoding="utf-8", newline="") as stream:
        try:
            rows = _lines(file, stream)
            head = next(rows, Row([])).cells
            yield _checked(file, [name.strip().removeprefix("\ufeff") for name in head]), rows
        except UnicodeDecodeError as error:
            raise TableError(f"{file.name} is no UTF-8: {error.reason}") from None
        except csv.Error as error:
            raise TableError(f"{file.name} cannot be read as CSV: {error}") from None


def _lines(file: Path, stream: TextIO) -> Iterator[Row]:
    first = stream.readline()
    stream.seek(0)
    delimiter = max(DELIMITERS, key=first.count)
    text_lines: list[str] = []

    def lines() -> Iterator[str]:
        for line in stream:
            text_lines.append(line)
            yield line

    reader, width = csv.reader(lines(), delimiter=delimiter, strict=True), 0
    for cells in reader:
        text = "".join(text_lines)
        text_lines.clear()
        if not cells:  # an empty line
            continue
        width = width or len(cells)
        if len(cells) != width:
            raise TableError(
                f"{file.name} has {width} columns, and {len(cells)} in line {reader.line_num}"
            )
        yield Row(cells, text if text.endswith(("\n", "\r")) else f"{text}\n")


def _parquet(file: Path) -> Any:
    arrow, parquet = _pyarrow(file)
    try:
        return parquet.ParquetFile(file)
    except (arrow.ArrowException, OSError) as error:
        raise TableError(f"{file.name} cannot be read as Parquet: {error}") from None


def _pyarrow(file: Path) -> tuple[Any, Any]:
    try:
        import pyarrow
        from pyarrow import parquet
    except ImportError:  # as in the image of the step that stages data
        raise TableError(
            f"{file.name} is read with pyarrow, which this step does not have; give a CSV file"
        ) from None
    return pyarrow, parquet


def _checked(file: Path, names: list[str]) -> list[str]:
    if len(names) < 2 or len(set(names)) < len(names):
        raise TableError(f"{file.name} does not name two columns or more, each once, at its top")
    return names


def label_among(names: list[str], chosen: str, where: str, how: str) -> str:
    """Returns the column that holds the labels.

    Args:
        chosen: The column that somebody has named; empty where nobody has.
        where: The file.
        how: How a column is named.
    """
    if chosen in names:
        return chosen
    labels = [name for name in names if name.lower() in LABELS]
    if not chosen and len(labels) == 1:
        return labels[0]
    shown = ", ".join(names[:SHOWN]) + (", …" if len(names) > SHOWN else "")
    why = f"has no column {chosen!r}" if chosen else "does not say which column is the label"
    raise TableError(f"{where} {why}; name one with {how}; it has {shown}")


def numbers(cells: Iterable[Any]) -> list[int] | list[float] | None:
    """Returns cells as whole numbers, or else as others; None where some are none."""
    listed = list(cells)
    if any(isinstance(cell, bool) for cell in listed):
        return None
    if all(isinstance(cell, int) or (isinstance(cell, str) and _is_whole(cell)) for cell in listed):
        return [int(cell) for cell in listed]
    try:
        return [float(cell) for cell in listed]
    except (ValueError, TypeError):
        return None


def _is_whole(text: str) -> bool:
    return text.strip().removeprefix("-").isdecimal() and text.isascii()


def is_missing(cell: Any) -> bool:
    """Tells whether there is nothing in a cell."""
    return cell is None or cell != cell or (isinstance(cell, str) and not cell.strip())


def digest(row: Row) -> bytes:
    """Returns what stands for the content of a row."""
    text = row.text.rstrip("\r\n") or repr(row.cells)
    return hashlib.sha256(text.encode()).digest()


def write_parts(file: Path, parts: list[tuple[Path, Callable[[int], bool]]]) -> None:
    """Writes to each path the rows of a table, by their numbers, that belong there."""
    if file.suffix.lower() == ".parquet":
        _write_parquet(file, parts)
        return
    with ExitStack() as opened_files, file.open(encoding="utf-8", newline="") as stream:
        outputs = [
            (opened_files.enter_context(path.open("w", encoding="utf-8", newline="")), belongs)
            for path, belongs in parts
        ]
        for number, row in enumerate(_lines(file, stream), -1):
            for output, belongs in outputs:
                if number < 0 or belongs(number):  # before the rows are the names
                    output.write(row.text)


def _write_parquet(file: Path, parts: list[tuple[Path, Callable[[int], bool]]]) -> None:
    (arrow, parquet), table = _pyarrow(file), _parquet(file)
    with ExitStack() as opened_files:
        outputs = [
            (opened_files.enter_context(parquet.ParquetWriter(path, table.schema_arrow)), belongs)
            for path, belongs in parts
        ]
        start = 0
        for batch in table.iter_batches():
            numbers = range(start, start := start + batch.num_rows)
            for output, belongs in outputs:
                mask = arrow.array([belongs(number) for number in numbers])
                output.write_batch(batch.filter(mask))
