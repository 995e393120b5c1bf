"""Progress of a dataset's copying: a line that says bytes, files, rate and time left."""

import contextlib
import sys
import threading
import time

from trireme.text.units import clock, in_words

TERMINAL, PLAIN = 0.2, 1.0  # seconds between two lines, redrawn or one below the other


class Progress:
    """Counts what is done and shows it on standard error, from any thread."""

    def __init__(self, size: int, files: int) -> None:
        self._size, self._files = size, files
        self._bytes = self._done = self._copied = 0
        self._started = self._shown = time.monotonic()
        self._terminal = sys.stderr.isatty()
        self._lock = threading.Lock()

    def add(self, size: int, files: int, copied: bool = True) -> None:
        """Counts bytes and files."""
        with self._lock:
            self._bytes += size
            self._done += files
            self._copied += size * copied
            now = time.monotonic()
            if now - self._shown >= (TERMINAL if self._terminal else PLAIN):
                self._shown = now
                with contextlib.suppress(OSError):  # nobody is there to read it
                    self._show(now)

    def end(self) -> None:
        """Takes the line away from a terminal."""
        if self._terminal:
            sys.stderr.write("\r\x1b[K")
            sys.stderr.flush()

    def _show(self, now: float) -> None:
        rate = self._copied / max(now - self._started, 1e-3)
        remaining = f", {clock((self._size - self._bytes) / rate)} left" if rate else ""
        line = (
            f"{in_words(self._bytes)} of {in_words(self._size)}, {self._done:,} of "
            f"{self._files:,} files, {in_words(int(rate))}/s{remaining}"
        )
        sys.stderr.write(f"\r\x1b[K{line}" if self._terminal else f"{line}\n")
        sys.stderr.flush()
