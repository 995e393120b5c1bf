"""The file of a ledger: what it holds, also for a process that goes on with it."""

import json
import math
import time
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from trireme.observers.goodput import NAME
from trireme.observers.goodput.ledger import Checkpoint, Ledger, Mark
from trireme.observers.timeline import UNREADABLE

SIZE_LIMIT = 16 << 20  # bytes of a file that is read


@dataclass
class State:
    """What the file holds: a ledger, and what is needed to go on with it.

    Attributes:
        before: The ledger of the jobs before the present one.
        reached: How far these were, by unit.
        key: What tells the present job from others; empty for none.
        now: Its ledger.
        followed: Since when its lines are read.
    """

    before: Ledger = field(default_factory=Ledger)
    reached: dict[str, float] = field(default_factory=dict)
    key: str = ""
    now: Ledger = field(default_factory=Ledger)
    marks: list[Mark] = field(default_factory=list)
    checkpoints: list[Checkpoint] = field(default_factory=list)
    hangs: list[tuple[float, float]] = field(default_factory=list)
    preflights: list[float] = field(default_factory=list)
    followed: float = 0.0

    def next(self, key: str) -> "State":
        """Returns the state when another job comes, which goes on where this one was."""
        if not self.key:
            return replace(self, key=key)
        reached = dict(self.reached)
        for mark in self.marks:
            reached[mark.unit] = max(mark.done, reached.get(mark.unit, 0.0))
        return State(self.before + self.now, reached, key, followed=time.time())


def read(file: Path) -> Ledger | None:
    """Returns the ledger in a file; None where there is none. A program can write to it."""
    state = load(file)
    return state.before + state.now if state else None


def read_all(workspace: Path) -> list[Ledger]:
    """Returns the ledgers of all trainings of a run: of a sweep each trial's."""
    # The best trial's is also where that of a training without a sweep would be.
    places = [*workspace.glob(f"trials/*/steps/*/{NAME}")] or workspace.glob(f"steps/*/{NAME}")
    return [of for place in places if (of := read(place))]


def load(file: Path) -> State | None:
    """Returns what a file holds; None where there is none, or it is something else."""
    try:
        if file.stat().st_size > SIZE_LIMIT:
            return None
        kept = json.loads(file.read_text(encoding="utf-8"))
        return State(
            before=_ledger(kept["before"]),
            reached=_table(kept["reached"]),
            key=str(kept["key"]),
            now=_ledger(kept["now"]),
            marks=[Mark(_number(at), str(unit), _number(done)) for at, unit, done in kept["marks"]],
            checkpoints=[
                Checkpoint(_number(at), _number(began), None if took is None else _number(took))
                for at, began, took in kept["checkpoints"]
            ],
            hangs=[(_number(began), _number(ended)) for began, ended in kept["hangs"]],
            preflights=[*map(_number, kept["preflights"])],
            followed=_number(kept["followed"]),
        )
    except (OSError, *UNREADABLE):
        return None


def _ledger(kept: Mapping[str, Any]) -> Ledger:
    seen = kept["checkpoints"]
    return Ledger(
        seconds=_table(kept["seconds"]),
        gpu_seconds=_table(kept["gpu_seconds"]),
        cost=_table(kept["cost"]),
        currency=str(kept["currency"])[:12],
        ran=_number(kept["ran"]),
        replica_seconds=_number(kept["replica_seconds"]),
        interruptions=int(kept["interruptions"]),
        restarts=int(kept["restarts"]),
        restarting=_number(kept["restarting"]),
        checkpoints=None if seen is None else int(seen),
        stops=int(kept["stops"]),
        gaps=int(kept["gaps"]),
        between=_number(kept["between"]),
        silent=_number(kept["silent"]),
    )


def _table(kept: Mapping[str, Any]) -> dict[str, float]:
    return {str(name): _number(value) for name, value in kept.items()}


def _number(value: Any) -> float:
    number = float(value)
    if not (math.isfinite(number) and number >= 0):
        raise ValueError(value)
    return number
