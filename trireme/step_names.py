"""Names of steps: as of the task in the pipeline, and here in a loop with its turn."""

import os
import re

STEP = "TRIREME_STEP"
"""The variable with a step's name where that is not its component's, as of the second of two."""

ONCE = ("checkout", "dataset", "train", "evaluate", "export", "compare", "plan", "choose")
"""Components of Trireme's that a run has once, because others look for what they leave by name.

A pipeline may have one in each of two branches, of which one runs.
"""

TRIAL = "trial"
"""The component of a sweep that a run has many of."""

NAMED = (*ONCE, TRIAL)
"""Components whose steps are called as they are, whatever their task is called."""

_TURNS = re.compile(r"(-\d{3,})*")


def own_name(component: str) -> str:
    """Returns the name of the step that runs in this process, of a component."""
    if without_index(component) in NAMED:
        return component
    return os.environ.get(STEP) or component.replace("_", "-")


def in_a_loop(name: str, *turns: int) -> str:
    """Returns the name of a step that runs once for each item of a loop.

    Args:
        turns: The item's number, from 0; in loops in loops those of all, from the outside.
    """
    return "-".join([name, *(f"{turn:03}" for turn in turns)])


def without_index(name: str) -> str:
    """Returns the name that a step shares with the others of its loop, or loops."""
    words = name.split("-")
    while len(words) > 1 and words[-1].isdecimal() and len(words[-1]) >= 3:
        words.pop()
    return "-".join(words)


def is_of(name: str, step: str) -> bool:
    """Whether a name is a step's or a turn's of it; without_index takes resize-224 for a turn."""
    return name.startswith(step) and bool(_TURNS.fullmatch(name, len(step)))
