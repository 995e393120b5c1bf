"""Say something to whoever watches."""

import sys
from typing import TextIO


def say(text: str, stream: TextIO | None = None) -> None:
    """Prints a line, its end in the same write: where several processes print, lines stay whole."""
    stream = stream or sys.stderr
    stream.write(f"{text}\n")
    stream.flush()
