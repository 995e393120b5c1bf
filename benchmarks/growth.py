"""What work costs at several sizes: CPU, wall, memory, and the exponent by which it grows."""

import math
import os
import pickle
import resource
import time
import traceback
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np

MIB = 2**20


class Cost(NamedTuple):
    """What a piece of work took, in a process of its own.

    Attributes:
        cpu: Seconds, of its children too.
        memory: Bytes that it needed at its peak, more than when it began.
        found: What it returned.
    """

    cpu: float
    wall: float
    memory: int
    result: object


def cost(work: Callable[[], object]) -> Cost:
    """Does a piece of work in a fork of this process, so that nothing is left of it."""
    reading, writing = os.pipe()
    if not (child := os.fork()):
        status = 1
        try:
            with os.fdopen(writing, "wb") as pipe:
                pickle.dump(_measured(work), pipe)
            status = 0
        except BaseException:
            traceback.print_exc()
        finally:
            os._exit(status)
    os.close(writing)
    with os.fdopen(reading, "rb") as pipe:
        sent = pipe.read()
    if os.waitpid(child, 0)[1]:
        raise SystemExit("the work failed")
    return pickle.loads(sent)


def _measured(work: Callable[[], object]) -> Cost:
    # https://man7.org/linux/man-pages/man5/proc_pid_clear_refs.5.html: 5 makes the peak what is now
    Path("/proc/self/clear_refs").write_text("5")
    before, began = _kib("VmRSS"), time.monotonic()
    cpu = _cpu()
    result = work()
    return Cost(_cpu() - cpu, time.monotonic() - began, (_kib("VmHWM") - before) * 1024, result)


def _cpu() -> float:
    used = [resource.getrusage(scope) for scope in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return sum(usage.ru_utime + usage.ru_stime for usage in used)


def _kib(name: str) -> int:
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith(f"{name}:"))


def exponent(sizes: Sequence[float], costs: Sequence[float]) -> float:
    """Returns e where costs grow as size to the power of e: 1 is linear."""
    logarithms = [[math.log(max(value, 1e-9)) for value in several] for several in (sizes, costs)]
    return float(np.polyfit(*logarithms, 1)[0])
