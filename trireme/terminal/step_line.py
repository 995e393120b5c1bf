"""The line in which a step is shown, or all turns of a loop."""

import time
from collections import Counter
from dataclasses import dataclass, field

from trireme.progress import Progress


@dataclass
class Line:
    """What is shown of one step or loop: the ``progress``, and steps ``ended`` by state.

    Attributes:
        share: The share that was done when that was known last.
        told: The share that was done at least when its program told of an epoch last.
        reasons: Why it did not go on, as far as that has been told.
    """

    state: str = ""
    started: float = 0.0
    seconds: float = 0.0
    text: str = ""
    progress: Progress | None = None
    ended: Counter[str] = field(default_factory=Counter)
    running: int = 0
    is_led: bool = False
    share: float = 0.0
    told: float = 0.0
    reasons: set[str] = field(default_factory=set)

    @property
    def counts(self) -> str:
        """Of a loop: how many steps run, and how many have ended how."""
        counts = Counter({"running": self.running}) + self.ended
        return ", ".join(f"{count} {state.lower()}" for state, count in counts.items())

    @property
    def elapsed(self) -> float:
        """Seconds since it started, or that it took."""
        return time.monotonic() - self.started if self.state == "running" else self.seconds
