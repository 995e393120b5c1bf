"""The metrics that a training program has left in a file for whoever started it to send."""

import json
import os
import stat
from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING

from trireme.tracking.batch import accepted
from trireme.tracking.journal import LARGEST

if TYPE_CHECKING:
    from mlflow.entities import Metric

NAME = "metrics-unsent.jsonl"
"""What ``trainers/metrics.py`` calls it in CHECKPOINT_DIR, and describes."""

BATCH = 1000  # metrics that MLflow takes at once
LONGEST = 4096  # bytes of a line, which holds one metric


def batches(file: Path) -> Iterator[list["Metric"]]:
    """Returns what is in a file; nothing where there is none.

    A program of the user has written it, so lines that are no metric are left out.
    """
    metrics = filter(None, map(_metric, _lines(file)))
    while batch := list(islice(metrics, BATCH)):
        yield batch


def _lines(file: Path) -> Iterator[bytes]:
    try:
        descriptor = os.open(file, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
    except OSError:
        return
    with os.fdopen(descriptor, "rb") as stream:
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            return
        while line := stream.readline(LONGEST):
            yield line


def _metric(line: bytes) -> "Metric | None":
    from mlflow.entities import Metric

    try:
        fields = json.loads(line)
        key, value = accepted(str(fields["key"])), float(fields["value"])
        timestamp, step = int(fields["timestamp"]), int(fields["step"])
    except (ValueError, LookupError, TypeError, OverflowError, RecursionError):
        return None
    is_known = 0 <= timestamp <= LARGEST and abs(step) <= LARGEST
    return Metric(key, value, timestamp, step) if is_known else None
