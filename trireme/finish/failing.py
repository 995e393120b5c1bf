"""Failures of steps that say nothing of them to Trireme: somebody's own."""

import re

from trireme.cause import ended, exception
from trireme.errors import TriremeError

SHOWN = 40  # lines at most

_FRAME, _INDENTED = '  File "', "    "
_OF_AN_ENGINE = re.compile(
    r'  File "(<frozen runpy>|.*/(site|dist)-packages/kfp/|.*/trireme/trireme/targets/local/)'
)
"""Frames of what runs a step's function, which nobody looks for a mistake in."""


def failure(step: str, exit_status: int, lines: list[str]) -> TriremeError:
    """Returns how a step has failed: in the last words of its traceback, if it left one.

    Args:
        lines: The last ones that it has printed.
    """
    said = exception(lines)
    how = f"failed: {said}" if said else ended(exit_status, lines)
    return TriremeError(f"step {step} {how}", "\n".join(_without_engine(lines)[-SHOWN:]))


def _without_engine(lines: list[str]) -> list[str]:
    """Returns the lines without the frames of engines, in tracebacks."""
    kept, is_of_an_engine = [], False
    for line in lines:
        if line.startswith(_FRAME):
            is_of_an_engine = bool(_OF_AN_ENGINE.match(line))
        elif not line.startswith(_INDENTED):
            is_of_an_engine = False
        if not is_of_an_engine:
            kept.append(line)
    return kept
