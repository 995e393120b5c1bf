"""Show what replicas print, line by line, from as many threads as there are replicas."""

import io
import os
import sys
import threading
from collections.abc import Callable


class Lines:
    """Prints each line with its replica's name, whole, to whoever still reads.

    What a terminal has no letter for becomes a question mark. A reader that goes away, such as
    ``head``, ends the showing and nothing else, unless a line is worth nothing without one.
    """

    def __init__(self, shown: Callable[[str], str] = str, *, needs_reader: bool = False) -> None:
        """Starts with nothing printed.

        Args:
            shown: What is to be shown of a line.
            needs_reader: Raise BrokenPipeError when nobody reads any more.
        """
        self._shown = shown
        self._needs_reader = needs_reader
        if isinstance(sys.stdout, io.TextIOWrapper):
            sys.stdout.reconfigure(errors="replace")
        self._one_at_a_time = threading.Lock()

    def __call__(self, replica: str, line: str) -> None:
        """Prints a line.

        Args:
            replica: The name of the replica.
            line: What it printed.

        Raises:
            BrokenPipeError: Nobody reads it, and ``needs_reader`` says that this matters.
        """
        with self._one_at_a_time:
            try:
                sys.stdout.write(f"[{replica}] {self._shown(line)}\n")
                sys.stdout.flush()
            except BrokenPipeError:
                # Python would complain once more when it flushes at its end.
                os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
                if self._needs_reader:
                    raise
