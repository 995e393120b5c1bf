"""Tables on a terminal."""

import time
from collections.abc import Iterable
from typing import Any

import typer


def age(since: float) -> str:
    """Says how long ago something was."""
    seconds = max(0.0, time.time() - since)
    for unit, size in (("d", 86400), ("h", 3600), ("m", 60)):
        if seconds >= 2 * size:
            return f"{seconds / size:.0f}{unit}"
    return f"{seconds:.0f}s"


def table(head: list[str], rows: Iterable[list[Any]]) -> None:
    """Prints columns, as wide as they need to be; nothing where there are no rows."""
    cells = [[str(cell) for cell in row] for row in rows]
    if not cells:
        return
    widths = [max(len(row[column]) for row in [head, *cells]) for column in range(len(head))]
    for row in [head, *cells]:
        line = "  ".join(f"{cell:<{width}}" for cell, width in zip(row, widths, strict=True))
        typer.echo(line.rstrip())
