"""Live lines of a run at a terminal; Rich, which draws them, takes long to load."""

from collections.abc import Mapping
from contextlib import AbstractContextManager
from typing import TextIO

import rich.console
from rich.live import Live
from rich.progress_bar import ProgressBar
from rich.spinner import Spinner
from rich.table import Table
from rich.text import Text

from trireme.terminal.step_line import Line

REFRESH = 4  # times a second
BAR = 20  # characters of a progress bar


class Screen:
    """A terminal with lines that change, and lines above them that do not."""

    def __init__(self, stream: TextIO) -> None:
        self._rich = rich.console.Console(
            file=stream, force_terminal=True, highlight=False, soft_wrap=True
        )
        self._spinner = Spinner("dots", style="cyan")

    def waiting(self, text: str) -> AbstractContextManager[object]:
        """Shows what is waited for."""
        return self._rich.status(text, spinner_style="cyan")

    def showing(self, lines: Mapping[str, Line]) -> AbstractContextManager[object]:
        """Shows steps as they are from moment to moment."""
        # It writes to the stream alone: what others print meanwhile is not its business.
        return Live(
            get_renderable=lambda: self._table(lines),
            console=self._rich,
            refresh_per_second=REFRESH,
            redirect_stdout=False,
            redirect_stderr=False,
        )

    def print(self, text: str) -> None:
        """Prints text above what changes."""
        self._rich.print(Text(text))

    def _table(self, lines: Mapping[str, Line]) -> Table:
        table = Table.grid(padding=(0, 1), expand=True)
        table.add_column(width=1)
        table.add_column(no_wrap=True)
        table.add_column(justify="right", width=7)
        table.add_column(no_wrap=True, ratio=1)
        marks: dict[str, rich.console.RenderableType] = {
            "": Text("·", style="dim"),
            "running": self._spinner,
            "FINISHED": Text("✓", style="green"),
            "FAILED": Text("✗", style="red"),
            "KILLED": Text("■", style="yellow"),
        }
        for name, line in lines.items():
            text: rich.console.RenderableType = Text(line.text, no_wrap=True, overflow="ellipsis")
            if line.progress and line.progress.words:
                shown = Table.grid(padding=(0, 1))
                words = Text(line.progress.words, "cyan", no_wrap=True)
                share = line.progress.share
                bar = [] if share is None else [ProgressBar(1.0, share, width=BAR)]
                shown.add_row(*bar, words, text)
                text = shown
            elapsed = f"{line.elapsed:.1f} s" if line.state else ""
            style = "" if line.state else "dim"
            table.add_row(marks[line.state], Text(name, style), elapsed, text)
        return table
