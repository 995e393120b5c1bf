"""Lines of JSON in which a replica says what its preflight has found, and its problems."""

from __future__ import annotations

import json
import os
from typing import Any

MARK = "trireme-preflight: "
"""How the lines begin that are read by whoever follows the job."""

FAILED = 78
"""The exit status of a replica that must not train, EX_CONFIG: restarting it would not help."""

SENTENCE = "preflight: "
"""How the lines begin that are for people."""

LADDER = ("name", "port", "interface", "library", "version", "disk", "size", "slow", "small")
"""What can be wrong, in the order in which to look: what comes first explains what comes later."""


class Failed(Exception):
    """The job must not train; ``problem`` says why."""

    def __init__(self, step: str, replica: str, sentence: str) -> None:
        super().__init__(sentence)
        self.problem = problem(step, replica, sentence, is_fatal=True)


class Skipped(Exception):
    """The test could not be made, which says nothing of the job."""


def problem(step: str, replica: str, sentence: str, *, is_fatal: bool = False) -> dict[str, Any]:
    """Returns a problem: which step of the ladder, whose it is, and what to do about it."""
    return {"step": step, "replica": replica, "sentence": sentence, "fatal": is_fatal}


def is_said(line: str) -> bool:
    """Tells whether a line of a replica is the preflight's, and none of its program's."""
    return MARK in line or line.startswith(SENTENCE)  # mpirun puts a rank before it


def say(**content: Any) -> None:
    """Prints a line for whoever follows the job."""
    # In one write: all processes of a replica share its output.
    os.write(1, f"{MARK}{json.dumps(content, separators=(',', ':'))}\n".encode())
