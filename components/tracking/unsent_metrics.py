"""The metrics that a training program has left in a file for whoever started it to send."""

import json
import os
import stat
from collections.abc import Callable, Iterator
from itertools import islice, takewhile
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from mlflow.entities import Metric

NAME = "metrics-unsent.jsonl"
"""What ``trainers/pytorch/metrics.py`` calls it in CHECKPOINT_DIR, and describes."""

BATCH = 1000  # metrics that MLflow takes at once
LONGEST = 4096  # bytes of a line, which holds one metric
LARGEST = 2**63 - 1  # the whole number that a database holds


def batches(file: Path, name: Callable[[str], str]) -> Iterator[list["Metric"]]:
    """Returns what is in a file, by names as MLflow takes them; nothing where there is none.

    A program of the user has written it, so lines that are no metric are left out.
    """
    metrics = (metric for line in _lines(file) if (metric := _metric(line, name)))
    while batch := list(islice(metrics, BATCH)):
        yield batch


def newest(file: Path, name: Callable[[str], str], start: int) -> tuple[list["Metric"], int]:
    """Returns the next metrics of a file that is being written, and the byte after them.

    Args:
        start: The byte to begin at.
    """
    # Each line is begun with its end, so the last is not known to be whole.
    lines = list(takewhile(lambda line: line.endswith(b"\n"), islice(_lines(file, start), BATCH)))
    metrics = [metric for line in lines if (metric := _metric(line, name))]
    return metrics, start + sum(map(len, lines))


def _lines(file: Path, start: int = 0) -> Iterator[bytes]:
    try:
        descriptor = os.open(file, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
    except OSError:
        return
    with os.fdopen(descriptor, "rb") as stream:
        if stat.S_ISREG(os.fstat(descriptor).st_mode):
            stream.seek(start)
            while line := stream.readline(LONGEST):
                yield line


def _metric(line: bytes, name: Callable[[str], str]) -> "Metric | None":
    from mlflow.entities import Metric

    try:
        found = json.loads(line)
        key, value = name(str(found["key"])), float(found["value"])
        timestamp, step = int(found["timestamp"]), int(found["step"])
    except (ValueError, LookupError, TypeError, OverflowError, RecursionError):
        return None
    is_known = 0 <= timestamp <= LARGEST and abs(step) <= LARGEST
    return Metric(key, value, timestamp, step) if is_known else None
