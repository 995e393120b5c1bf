"""Handling the signals that tell a process to end."""

import signal
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from types import FrameType

TOLD_TO_END = (signal.SIGTERM, signal.SIGINT)
"""What ``kill`` and Ctrl-C send."""


@dataclass
class Interrupted(BaseException):
    """The process was told to end."""

    number: int


def interrupt(number: int, frame: FrameType | None) -> None:
    """Handles a signal by raising ``Interrupted``."""
    raise Interrupted(number)


@contextmanager
def handled(
    handler: Callable[[int, FrameType | None], None], numbers: Sequence[int] = TOLD_TO_END
) -> Iterator[None]:
    """Handles signals for as long as this is entered, in the main thread."""
    before = [signal.signal(number, handler) for number in numbers]
    try:
        yield
    finally:
        for number, previous in zip(numbers, before, strict=True):
            signal.signal(number, previous)


def from_a_terminal() -> tuple[int, ...]:
    """Returns what tells a command in a terminal to end: its closing, too, but under nohup."""
    ignored = signal.getsignal(signal.SIGHUP) == signal.SIG_IGN
    return TOLD_TO_END if ignored else (*TOLD_TO_END, signal.SIGHUP)
