"""The replica of a failed job that is to blame, and what of its output is worth showing."""

import re
from collections.abc import Iterable

from trireme.cause import cause
from trireme.errors import JobFailed
from trireme.frameworks import FRAMEWORKS
from trireme.observers.preflight.replica.said import is_said

TAIL = 20  # lines of a failed replica that are shown
KEPT = 80  # lines of a replica that are kept, for TAIL to be among them before a launcher's own

# What a replica says whose peer is gone: it was dragged down, it is not the cause.
_PEER_LOST = re.compile(
    r"connection (was )?(closed|reset|refused)|closed by peer|broken pipe|socket timeout|"
    + "|".join(filter(None, dict.fromkeys(plugin.peer_lost for plugin in FRAMEWORKS.values()))),
    re.IGNORECASE,
)
_REPORT = re.compile(
    "|".join(filter(None, dict.fromkeys(plugin.report for plugin in FRAMEWORKS.values())))
)


class TimeLimitReached(JobFailed):
    """The job had run as long as it may."""


def is_peer_loss(lines: Iterable[str]) -> bool:
    """Tells whether a replica failed because another one was gone."""
    return any(_PEER_LOST.search(line) for line in lines if not is_said(line))


def last_lines(replica: str, lines: Iterable[str]) -> str:
    """Returns up to ``TAIL`` of a failed replica's last lines: those of its program itself."""
    return "\n".join(f"[{replica}] {line}" for line in _of_program(lines)[-TAIL:])


def cause_of(status: int, lines: Iterable[str]) -> str:
    """Returns what is to be added to how a replica ended, from its program's last lines."""
    return cause(status, _of_program(lines))


def _of_program(lines: Iterable[str]) -> list[str]:
    """Returns the lines of the program itself, without a preflight's and a launcher's report."""
    recent = [line for line in lines if not is_said(line)]
    report = next((at for at, line in enumerate(recent) if _REPORT.search(line)), 0)
    return recent[: report or None]
