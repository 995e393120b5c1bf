"""The metrics that a training program has left in a file for whoever started it to send."""

import json
import os
import stat
from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING

from trireme.tracking.batch import accepted

if TYPE_CHECKING:
    from mlflow.entities import Metric

NAME = "metrics-unsent.jsonl"
"""What ``trainers/metrics.py`` calls it in CHECKPOINT_DIR, and describes."""

BATCH = 1000  # metrics that MLflow takes at once
LONGEST = 4096  # bytes of a line, which holds one metric
LARGEST = 2**63 - 1  # the whole number that a database holds


def batches(
    file: Path, start: int = 0, *, is_ended: bool = True
) -> Iterator[tuple[list["Metric"], int]]:
    """Returns what is in a file, and the byte that each batch ends at; nothing where there is none.

    A program of the user has written it, so lines that are no metric are left out.

    Args:
        start: The byte to begin at.
        is_ended: Whether nothing is written any more.
    """
    lines = _lines(file, start, is_ended)
    while some := list(islice(lines, BATCH)):
        yield [metric for line, _ in some if (metric := _metric(line))], some[-1][1]


def _lines(file: Path, start: int, is_ended: bool) -> Iterator[tuple[bytes, int]]:
    try:
        descriptor = os.open(file, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
    except OSError:
        return
    with os.fdopen(descriptor, "rb") as stream:
        found = os.fstat(descriptor)
        if not stat.S_ISREG(found.st_mode):
            return
        end = start if start <= found.st_size else 0  # it has been begun anew
        stream.seek(end)
        while line := stream.readline(LONGEST):
            # Each line is begun with its end, so the last is not known to be whole.
            if not (is_ended or line.endswith(b"\n") or len(line) == LONGEST):
                return
            end += len(line)
            yield line, end


def _metric(line: bytes) -> "Metric | None":
    from mlflow.entities import Metric

    try:
        found = json.loads(line)
        key, value = accepted(str(found["key"])), float(found["value"])
        timestamp, step = int(found["timestamp"]), int(found["step"])
    except (ValueError, LookupError, TypeError, OverflowError, RecursionError):
        return None
    is_known = 0 <= timestamp <= LARGEST and abs(step) <= LARGEST
    return Metric(key, value, timestamp, step) if is_known else None
