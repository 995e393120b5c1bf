"""Last words of a step's container: what it has come to and, of the one that ends a run, the run.

Kubernetes keeps them with the pod, which whoever has started the run can read.
"""

import json
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

from trireme.errors import TriremeError
from trireme.files.home import TRACKER
from trireme.text.say import say

TERMINATION_LOG = Path("/dev/termination-log")
"""Where Kubernetes reads a container's last words from (``terminationMessagePath``)."""

LAST_STEP = "finish"

ENDS_RUN = "TRIREME_ENDS_RUN"
"""The variable of a step that ends its run if it fails, as no other would: the pipeline's name."""

LIMIT = 4096
"""Bytes of a container's last words, see
https://kubernetes.io/docs/tasks/debug/debug-application/determine-reason-pod-failure."""

LONGEST = 300  # characters of a fact


class LastWords(NamedTuple):
    """What a step has come to, and, left by the last one, the run."""

    result: str
    facts: dict[str, str] = {}  # noqa: RUF012 - it is never changed
    last_lines: str = ""


@contextmanager
def last_words() -> Iterator[None]:
    """Ends the process in one sentence when an error comes that a person can act on.

    The exit status is the error's; anything else is a fault of ours and keeps its traceback.
    """
    try:
        yield
    except TriremeError as error:
        # Here ``trireme run`` ends with the detail, which is of lines that have been shown already.
        say(f"error: {error}" if TRACKER in os.environ else error.shown())
        leave(str(error))
        sys.exit(error.exit_status)


def leave(text: str) -> None:
    """Leaves a text as the last words of this step's container."""
    if os.access(TERMINATION_LOG, os.W_OK):
        TERMINATION_LOG.write_text(text)


def left() -> str:
    """Returns what this step's container has left so far."""
    return TERMINATION_LOG.read_text() if os.access(TERMINATION_LOG, os.R_OK) else ""


def written(result: str, facts: dict[str, str], last_lines: str) -> str:
    """Returns last words as a text that is not too long: of the lines the last, the first facts."""
    facts = {name: text[:LONGEST] for name, text in facts.items()}
    last_lines = last_lines[-LIMIT:]
    while True:
        text = json.dumps(LastWords(result[:LONGEST], facts, last_lines)._asdict())
        over = len(text) - LIMIT
        if over <= 0:
            return text
        if last_lines:
            last_lines = last_lines[max(1, over // 12) :]  # a letter is up to 12 of JSON
        else:
            facts.popitem()


def read(text: str) -> LastWords:
    """Returns what a step has left, which somebody's own leaves in words of its own."""
    try:
        found = json.loads(text)
        result, facts, last_lines = (found[name] for name in LastWords._fields)
    except (ValueError, RecursionError, LookupError, TypeError):
        return LastWords(text)
    texts = [result, last_lines, *facts, *facts.values()] if isinstance(facts, dict) else [None]
    is_ours = all(isinstance(each, str) for each in texts)
    return LastWords(result, facts, last_lines) if is_ours else LastWords(text)
