"""Last words of the container of a run's last step: what came of the run.

Kubernetes keeps them with the pod, which whoever has started the run can read.
"""

import json
from typing import NamedTuple

LAST_STEP = "finish"

LIMIT = 4096
"""Bytes of a container's last words, see
https://kubernetes.io/docs/tasks/debug/debug-application/determine-reason-pod-failure."""

LONGEST = 300  # characters of a fact


class LastWords(NamedTuple):
    """What a step has come to, and, left by the last one, the run."""

    result: str
    facts: dict[str, str] = {}  # noqa: RUF012 - it is never changed
    last_lines: str = ""


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
