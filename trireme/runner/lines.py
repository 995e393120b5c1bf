"""Lines that programs print: read many at a time, and shown from as many threads as there are."""

import io
import os
import sys
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import IO

from trireme.text.say import forget_reader

LIMIT = 64 * 1024  # bytes that are read at a time, and after which a line without an end is cut
PAUSE = 0.01  # seconds between two looks at a program that prints all the time
WAITING = 8 << 20  # characters that wait for whoever reads what is shown
UNREAD = 5.0  # seconds for the last of them to be shown


def blocks(
    stream: IO[bytes], on_rest: Callable[[bytes], None] = lambda rest: None
) -> Iterator[bytes]:
    """Yields whole lines, as many as there are at a time, each with its end but the last of all.

    Args:
        on_rest: Called, each time something has come, with what there is of a line without an end.
    """
    rest, last_read = b"", 0.0
    while more := stream.read1(LIMIT):  # type: ignore[attr-defined]
        end = more.rfind(b"\n") + 1
        if end:
            yield rest + more[:end]
            rest = more[end:]
        else:
            rest += more
        on_rest(rest)
        if len(rest) > LIMIT:
            yield rest
            rest = b""
        if len(more) < LIMIT and time.monotonic() < last_read + PAUSE:
            time.sleep(PAUSE)  # many lines cost little more than one
        last_read = time.monotonic()
    if rest:
        yield rest


class LinePrinter:
    """Prints lines, each with its replica's name, whole, while somebody reads."""

    # What a terminal has no letter for becomes a question mark. A reader that goes away, such as
    # ``head``, ends the showing and nothing else, unless a line is worth nothing without one.

    def __init__(
        self,
        shown: Callable[[str], str] = str,
        *,
        needs_reader: bool = False,
        written: Callable[[str, str], str] | None = None,
    ) -> None:
        """Starts with nothing printed.

        Args:
            written: Returns what is written of a replica's line, in place of ``[replica] line``.
        """
        self._shown = shown
        self._needs_reader = needs_reader
        self._written = written
        if isinstance(sys.stdout, io.TextIOWrapper):
            sys.stdout.reconfigure(errors="replace")
        self._one_at_a_time = threading.Lock()

    def __call__(self, replica: str, lines: str) -> None:
        """Prints a line, or several with an end between them."""
        with self._one_at_a_time:
            try:
                sys.stdout.write(self._text(replica, lines))
                sys.stdout.flush()
            except BrokenPipeError:
                forget_reader(sys.stdout)
                if self._needs_reader:
                    raise

    def _text(self, replica: str, lines: str) -> str:
        if self._written:
            texts = map(self._shown, lines.split("\n"))
            return "".join(f"{self._written(replica, line)}\n" for line in texts)
        before = f"[{replica}] "
        return f"{before}{self._shown(lines)}\n".replace("\n", f"\n{before}", lines.count("\n"))


class LivePrinter(LinePrinter):
    """Prints likewise, and keeps nobody waiting: what is not read in time is left out, and told."""

    def __init__(self, shown: Callable[[str], str] = str) -> None:
        """Starts with nothing printed; see ``LinePrinter``."""
        super().__init__(shown)
        self._waiting: deque[tuple[str, str]] = deque()
        self._size = self._left_out = 0
        self._is_printing = self._is_closed = False
        self._changed = threading.Condition()
        threading.Thread(target=self._print, daemon=True).start()

    def __call__(self, replica: str, lines: str) -> None:
        """Has lines printed; of too many the oldest are not."""
        with self._changed:
            self._waiting.append((replica, lines))
            self._size += len(lines)
            while self._size > WAITING:
                oldest = self._waiting.popleft()[1]
                self._size -= len(oldest)
                self._left_out += 1 + oldest.count("\n")
            self._changed.notify_all()

    def close(self) -> None:
        """Waits a little for what has not been printed yet."""
        with self._changed:
            self._is_closed = True
            self._changed.notify_all()
            self._changed.wait_for(lambda: not (self._waiting or self._is_printing), UNREAD)

    def _print(self) -> None:
        while True:
            with self._changed:
                self._is_printing = False
                self._changed.notify_all()
                self._changed.wait_for(lambda: self._waiting or self._is_closed)
                if not self._waiting:
                    return
                self._is_printing = True
                waiting, self._waiting, self._size = self._waiting, deque(), 0
                left_out, self._left_out = self._left_out, 0
            text = "".join(self._text(*replica_lines) for replica_lines in waiting)
            if left_out:
                text = f"({left_out:,} lines are left out here; the logs have all)\n{text}"
            try:
                _write(text)
            except BrokenPipeError:
                forget_reader(sys.stdout)
            except (OSError, ValueError):  # a terminal that has gone
                pass


def _write(text: str) -> None:
    """Writes to standard output; a program can end while that waits, unlike while Python does."""
    try:
        file = sys.stdout.fileno()
    except io.UnsupportedOperation:  # it is none of the system's
        sys.stdout.write(text)
        return
    rest = memoryview(text.encode(sys.stdout.encoding, "replace"))
    while rest:
        rest = rest[os.write(file, rest) :]


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
