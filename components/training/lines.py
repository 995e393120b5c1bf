"""Show what replicas print, line by line, from as many threads as there are replicas."""

import os
import sys
import threading
from collections.abc import Callable


class Lines:
    """Prints each line with its replica's name, whole, to whoever still reads.

    A reader that goes away, such as ``head``, ends the showing and nothing else.
    """

    def __init__(self, shown: Callable[[str], str] = str) -> None:
        """Starts with nothing printed.

        Args:
            shown: What is to be shown of a line.
        """
        self._shown = shown
        self._one_at_a_time = threading.Lock()

    def __call__(self, replica: str, line: str) -> None:
        """Prints a line.

        Args:
            replica: The name of the replica.
            line: What it printed.
        """
        with self._one_at_a_time:
            try:
                sys.stdout.write(f"[{replica}] {self._shown(line)}\n")
                sys.stdout.flush()
            except BrokenPipeError:
                # Python would complain once more when it flushes at its end.
                os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
