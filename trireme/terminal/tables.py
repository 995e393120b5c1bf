"""Tables on a terminal."""

import sys
import time
from collections.abc import Callable, Iterable
from typing import Any

import typer

from trireme.errors import InputError
from trireme.plain import in_a_line


def age(since: float) -> str:
    """Says how long ago something was."""
    seconds = max(0.0, time.time() - since)
    for unit, size in (("d", 86400), ("h", 3600), ("m", 60)):
        if seconds >= 2 * size:
            return f"{seconds / size:.0f}{unit}"
    return f"{seconds:.0f}s"


def table(head: list[str], rows: Iterable[list[Any]]) -> None:
    """Prints columns, as wide as they need to be; nothing where there are no rows."""
    for line in lines(head, rows):
        typer.echo(line)


def lines(head: list[str], rows: Iterable[list[Any]]) -> list[str]:
    """Returns the lines of a table; none where there are no rows."""
    cells = [[in_a_line(str(cell)) for cell in row] for row in rows]
    if not cells:
        return []
    widths = [max(len(row[column]) for row in [head, *cells]) for column in range(len(head))]
    return [
        "  ".join(f"{cell:<{width}}" for cell, width in zip(row, widths, strict=True)).rstrip()
        for row in [head, *cells]
    ]


def watch(look: Callable[[], list[str]], every: float) -> None:
    """Prints lines; at a terminal looks again and again, until there is nothing to be seen."""
    now = look()
    if not sys.stdout.isatty():
        for line in now:
            typer.echo(line)
        return
    import rich.console
    from rich.live import Live
    from rich.text import Text

    def shown() -> Text:
        return Text("\n".join(now), no_wrap=True, overflow="ellipsis")

    console = rich.console.Console(highlight=False)
    with Live(shown(), console=console, auto_refresh=False) as live:
        while True:
            time.sleep(every)
            try:
                now = look()
            except InputError as over:
                typer.echo(f"{over}", err=True)
                return
            live.update(shown(), refresh=True)
