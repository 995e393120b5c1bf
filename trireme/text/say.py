"""Say something to whoever watches."""

import os
import sys
from typing import TextIO

from trireme.plain import plain


def say(text: str, stream: TextIO | None = None) -> None:
    """Prints a line, its end in the same write: where several processes print, lines stay whole."""
    stream = stream or sys.stderr
    try:
        stream.write(f"{plain(text)}\n")
        stream.flush()
    except BrokenPipeError:  # what is said is no reason to end what is done
        forget_reader(stream)


def forget_reader(stream: TextIO) -> None:
    """Has what is written from now on go nowhere, as whoever has read it, such as head, is gone.

    Without this Python would complain of what is left in its buffer.
    """
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, stream.fileno())
    os.close(nowhere)
