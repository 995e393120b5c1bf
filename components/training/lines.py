"""Show what replicas print, line by line, from as many threads as there are replicas."""

import io
import os
import sys
import threading
from collections.abc import Callable
from pathlib import Path


class LinePrinter:
    """Prints each line with its replica's name, whole, while somebody reads."""

    # What a terminal has no letter for becomes a question mark. A reader that goes away, such as
    # ``head``, ends the showing and nothing else, unless a line is worth nothing without one.

    def __init__(self, shown: Callable[[str], str] = str, *, needs_reader: bool = False) -> None:
        """Starts with nothing printed."""
        self._shown = shown
        self._needs_reader = needs_reader
        if isinstance(sys.stdout, io.TextIOWrapper):
            sys.stdout.reconfigure(errors="replace")
        self._one_at_a_time = threading.Lock()

    def __call__(self, replica: str, line: str) -> None:
        """Prints a line."""
        with self._one_at_a_time:
            try:
                sys.stdout.write(f"[{replica}] {self._shown(line)}\n")
                sys.stdout.flush()
            except BrokenPipeError:
                # Python would complain once more when it flushes at its end.
                os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
                if self._needs_reader:
                    raise


def forward_lines(
    file: Path, start: int, on_line: Callable[[str], None], *, to_end_of_file: bool
) -> int:
    """Passes on the lines of a file from a position; returns where they end."""
    with file.open("rb") as stream:
        stream.seek(start)
        for line in stream:
            if not line.endswith(b"\n") and not to_end_of_file:
                break
            start += len(line)
            on_line(line.decode(errors="replace").rstrip("\n"))
    return start
