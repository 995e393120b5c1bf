"""The cause of a Python program's end, as far as its last lines tell it."""

import re
import signal
from collections.abc import Iterable

from trireme.credentials.withheld import without_values
from trireme.errors import exit_in_words

LONGEST = 500  # characters of an exception that are told

_CRASHED = {
    128 + number
    for number in (signal.SIGSEGV, signal.SIGABRT, signal.SIGBUS, signal.SIGFPE, signal.SIGILL)
}
_RANK = re.compile(r"\[rank\d+\]: ?")  # as PyTorch puts before each line of a traceback
_GROUP = re.compile(r"\A(?: *[|+] ?)+")  # as exception groups have them
# The end of a traceback: of a frame of Python's own, or of the box that rich draws.
_FRAME = re.compile(r'  File ".+", line \d+|╰─')
_EXCEPTION = re.compile(r"[^\W\d]\w*(\.\w+)*(:|$)")
# What a launcher ends with whose program has failed: that has said why before.
_OF_A_LAUNCHER = re.compile(r"subprocess\.CalledProcessError: |.*\bChildFailedError:")

# As faulthandler writes it, see PYTHONFAULTHANDLER.
_FATAL = re.compile(r"Fatal Python error: (?P<words>.+)")
_CURRENT = re.compile(r"Current thread .*\(most recent call first\):")
_STACK = re.compile(r'  File "(?P<file>.+)", line (?P<line>\d+) in (?P<where>.+)')
OF_A_LIBRARY = re.compile(r"<|.*/(site|dist)-packages/|.*/lib/python3")


def ended(status: int, lines: Iterable[str]) -> str:
    """Says how a program ended, and by what: its exception, or the line that a signal came at.

    Args:
        status: Its exit status.
        lines: The last lines that it has printed.
    """
    return exit_in_words(status) + cause(status, lines)


def cause(status: int, lines: Iterable[str]) -> str:
    """Returns what there is to be added to how a program ended; empty where nothing is known."""
    lines = list(lines)
    if status < 0:
        status = 128 - status
    if status in _CRASHED:
        return _crash(lines)
    if status != 1:  # that of an exception
        return ""
    reason = exception(lines)
    if not reason and (fatal := next(filter(None, map(_FATAL.match, lines)), None)):
        reason = fatal["words"] + _crash(lines)  # of a process that a launcher has started
    return f": {reason}" if reason else ""


def exception(lines: Iterable[str]) -> str:
    """Returns the first line of the exception that a program ended with; empty for none.

    Of several ranks it is that of the first to fail, of exceptions with a cause the last.
    """
    exceptions: dict[str, str] = {}
    open_frames: set[str] = set()
    for line in lines:
        begins = _RANK.match(line)
        rank = begins[0].strip() if begins else ""
        text = _GROUP.sub("", line[begins.end() :] if begins else line)
        if _FRAME.match(text):
            open_frames.add(rank)
        elif rank in open_frames and text.strip() and not text.startswith((" ", "\t")):
            open_frames.discard(rank)
            if _EXCEPTION.match(text) and not (exceptions and _OF_A_LAUNCHER.match(text)):
                exceptions[rank] = text.strip()
    return without_values(next(iter(exceptions.values()), ""))[:LONGEST]


def _crash(lines: list[str]) -> str:
    """Returns where a signal ended a program: its innermost line that is of no library."""
    current = next((at for at, line in enumerate(lines) if _CURRENT.match(line)), None)
    if current is None:
        return ""
    frames = []
    for line in lines[current + 1 :]:
        if not (frame := _STACK.match(line)):
            break
        frames.append(frame)
    user_frames = [frame for frame in frames if not OF_A_LIBRARY.match(frame["file"])] or frames
    if not user_frames:
        return ""
    name = user_frames[0]["file"].rpartition("/")[2]
    return f" at {name}, line {user_frames[0]['line']}, in {user_frames[0]['where']}"
