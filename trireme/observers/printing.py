"""Observers of lines: they are shown to a person, kept, and summed up in the last."""

import re
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import TextIO

from trireme.observers.base import Observer
from trireme.plain import plain

_LIBRARY_LINE = re.compile(
    r"🏃 View run |🧪 View experiment |metrics [\w ]*MLflow |"
    r"\d{4}-[-\d]+ [:.\d]+: [EWIF] |[EWIF]\d{4} "
)
"""How lines begin that MLflow, TensorFlow and ``trainers/metrics.py`` add to a program's
own when it is about to end."""

LATE = 100  # lines of those that come together among which the last word is
SUMMARY = 200  # characters of the program's last line that stand for what it did


class Printing(Observer):
    """Shows what replicas print, and what becomes of the job."""

    def __init__(
        self,
        on_lines: Callable[[str, str], None],
        on_state: Callable[[str], None] = lambda sentence: None,
    ) -> None:
        """Prepares it.

        Args:
            on_lines: Called with a replica's name and one or more lines, an end between them, from
                several threads.
            on_state: Called with each sentence about the job's state.
        """
        self._on_lines, self._on_state = on_lines, on_state

    def lines(self, replica: str, text: str) -> None:
        """Shows lines; a terminal that has gone, or cannot show a letter, is no failure."""
        with suppress(OSError, ValueError):
            self._on_lines(replica, text)

    def state(self, sentence: str) -> None:
        """Shows a sentence about the job's state."""
        with suppress(OSError, ValueError):
            self._on_state(sentence)


class Logs(Observer):
    """Keeps what replicas print, a file each."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._files: dict[str, TextIO] = {}

    def lines(self, replica: str, text: str) -> None:
        """Adds lines to the file of a replica."""
        # A full disk is no reason to stop training; nor are lines that come when all has ended.
        with suppress(OSError, ValueError):
            self._file(replica).write(text + "\n")

    def end(self, failure: BaseException | None) -> None:
        """Ends the files."""
        for file in self._files.values():
            with suppress(OSError):
                file.close()

    def _file(self, replica: str) -> TextIO:
        if replica not in self._files:
            # Each is written to by the one thread that follows its replica.
            self._files[replica] = (self._folder / f"{replica}.log").open(
                "a", buffering=1, encoding="utf-8", errors="replace"
            )
        return self._files[replica]


class LastWord(Observer):
    """Keeps the last line of the leading replica that has a word.

    Attributes:
        line: That line; empty where there is none.
    """

    def __init__(self, leader: str) -> None:
        self._leader, self.line = leader, ""

    def lines(self, replica: str, text: str) -> None:
        """Takes in lines; of very many, the late ones."""
        if replica != self._leader:
            return
        for line in reversed(text.rsplit("\n", LATE)[-LATE:]):
            words = plain(line).strip()
            # A ruler of dashes tells nothing.
            if any(map(str.isalnum, words)) and not _LIBRARY_LINE.match(words):
                self.line = words[:SUMMARY]
                return
