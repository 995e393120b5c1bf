"""When a job that says nothing hangs: how long it may be silent is learnt from the job itself."""

from collections.abc import Mapping
from typing import Any

from trireme.errors import InputError
from trireme.frameworks.kinds import ON_HANG

ANSWERS = ("report", "restart", "fail")

RESTARTS = 3  # times that a job which hangs is started anew without a new checkpoint in between

FIRST = 900.0  # seconds that a job may be silent and idle which has no rhythm yet
LEAST = 300.0  # seconds that every job may be
FACTOR = 5.0  # how much longer than ever before it may be
BUSY = 0.01  # share of a processor above which a replica works


class Rhythm:
    """How long a job has been silent and idle: between lines, checkpoints and work."""

    def __init__(self, now: float) -> None:
        """Starts with none; times are in seconds, of any one clock."""
        self._longest = 0.0
        self.start_anew(now)

    def start_anew(self, now: float) -> None:
        """Takes in that the job starts again, as slowly as it may."""
        self._last, self._signs = now, 0

    def heard(self, at: float) -> None:
        """Takes in when the last line or checkpoint came."""
        if at <= self._last:
            return
        if self._signs:  # what comes before the first one is the start
            self._longest = max(self._longest, at - self._last)
        self._last, self._signs = at, self._signs + 1

    def worked(self, at: float) -> None:
        """Takes in that the job worked, which is no rhythm."""
        self._last = max(self._last, at)

    def silence(self, now: float) -> float | None:
        """Returns for how many seconds it has done nothing, if that is longer than it should."""
        limit = FIRST if self._signs < 3 else max(LEAST, FACTOR * self._longest)
        return now - self._last if now - self._last > limit else None


def sentence(silence: float) -> str:
    """Says that a job hangs."""
    return f"no replica has printed, saved a checkpoint or worked for {silence / 60:.0f} minutes"


def answer(manifest: Mapping[str, Any]) -> str:
    """Returns what to do when a job hangs, one of ``ANSWERS``."""
    said = ((manifest.get("metadata") or {}).get("annotations") or {}).get(ON_HANG, "report")
    if said not in ANSWERS:
        raise InputError(f"annotation {ON_HANG} {said!r}: must be one of {', '.join(ANSWERS)}")
    return str(said)
