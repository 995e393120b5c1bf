"""The machine that a run computes with: its packages and its CPU."""

import importlib.metadata
import os
import platform
from pathlib import Path

PACKAGES = "environment.txt"  # the artifact of a pipeline's MLflow run that lists them


def packages() -> str:
    """Returns every package that is installed, as in ``name==version``, a line each."""
    lines = {
        f"{distribution.metadata['Name']}=={distribution.version}"
        for distribution in importlib.metadata.distributions()
    }
    return "\n".join(sorted(lines, key=str.lower)) + "\n"


def cpu() -> str:
    """Returns the CPU's model, how many cores of it we may use, and threads where that is set."""
    # Instructions, and the threads that a sum is divided among, decide the last bits of a result.
    cores = len(os.sched_getaffinity(0))
    words = [_model() or platform.machine(), f"{cores} {'core' if cores == 1 else 'cores'}"]
    if threads := os.environ.get("OMP_NUM_THREADS"):
        words.append(f"OMP_NUM_THREADS={threads}")
    return ", ".join(words)


def _model() -> str:
    """Returns what ``/proc/cpuinfo`` calls the CPU; empty where it has no name, as on ARM."""
    try:
        lines = Path("/proc/cpuinfo").read_text(errors="replace").splitlines()
    except OSError:
        return ""
    for line in lines:
        name, _, value = line.partition(":")
        if name.strip() == "model name":
            return value.strip()
    return ""
