"""Incidents, which a job's ``retries`` count, however many replicas fail of each."""

import json
from collections.abc import Callable, Iterable, Mapping
from functools import partial
from typing import Any, NamedTuple

from trireme.errors import InputError
from trireme.frameworks.kinds import RETRIES

SEEN = "trireme.dev/failed-attempts"
"""The annotation of a job with the attempts that its follower has seen fail, for its next one: of
those before the last of a pod's container Kubernetes keeps none."""

KEPT = 1000  # of them, the newest; an object's annotations may take 256 KiB

EPISODE = 30.0  # seconds after a failure in which others belong to the same incident


class FailedAttempt(NamedTuple):
    """An attempt of a replica that failed by itself; times in seconds, of whichever clock.

    Attributes:
        lost_peer: Tells whether it says that another replica was gone.
    """

    replica: str
    began: float
    ended: float
    lost_peer: Callable[[], bool]


def incidents(failed: Iterable[FailedAttempt]) -> int:
    """Counts what went wrong: replicas that fail together, or of another's failure, once."""
    count, first, last = 0, 0.0, 0.0
    names: set[str] = set()  # each fails once of one incident
    for attempt in sorted(failed, key=lambda attempt: attempt.ended):
        belongs = attempt.replica not in names and (
            attempt.ended <= last + EPISODE
            # Some notice only after minutes that another one has gone.
            or (attempt.began < first and attempt.lost_peer())
        )
        if not (count and belongs):
            count, first = count + 1, attempt.ended
            names.clear()
        names.add(attempt.replica)
        last = attempt.ended
    return count


def after(retries: int) -> str:
    """Says that a job has failed though it was tried again so often."""
    return f", after {retries} {'retry' if retries == 1 else 'retries'}"


def allowed(manifest: Mapping[str, Any]) -> int | None:
    """Returns how many incidents a job survives; ``None`` where its operator alone counts."""
    text = ((manifest.get("metadata") or {}).get("annotations") or {}).get(RETRIES)
    if text is None:
        return None
    if not (str(text).isascii() and str(text).isdigit()):
        raise InputError(f"annotation {RETRIES} {text!r}: must be a number of retries")
    return int(text)


def to_annotation(failed: Iterable[FailedAttempt]) -> str:
    """Returns attempts as ``SEEN`` holds them."""
    newest = sorted(failed, key=lambda attempt: attempt.ended)[-KEPT:]
    rows = [
        [attempt.replica, attempt.began, attempt.ended, attempt.lost_peer()] for attempt in newest
    ]
    return json.dumps(rows, separators=(",", ":"))


def from_annotation(text: str) -> list[FailedAttempt]:
    """Returns the attempts that ``SEEN`` holds; none where somebody has changed it."""
    try:
        return [
            FailedAttempt(str(replica), float(began), float(ended), partial(bool, lost_peer))
            for replica, began, ended, lost_peer in json.loads(text)
        ]
    except (ValueError, TypeError, RecursionError):
        return []
