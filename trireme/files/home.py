"""Home: where this process runs, and where Trireme keeps what outlives it."""

import os
from pathlib import Path

from trireme.errors import InputError

TRACKER = "TRIREME_TRACKER"
"""Names the file that MLflow's variables appear in, where somebody else keeps a step's record."""


def home() -> Path:
    """Returns Trireme's data directory: TRIREME_HOME, by default ``~/.trireme``."""
    path = os.environ.get("TRIREME_HOME") or "~/.trireme"
    try:
        directory = Path(path).expanduser().absolute()
    except RuntimeError:  # there is no such user, or none that this process runs as
        raise InputError(
            f"TRIREME_HOME {path}: there is no such home directory; it can be an absolute path"
        ) from None
    if set("?%") & set(str(directory)):
        raise InputError(f"TRIREME_HOME {directory}: cannot hold ? or %, which SQLite's URLs use")
    return directory


def jobs_home() -> Path:
    """Returns where the jobs of this machine are."""
    return home() / "jobs"


def make_home() -> None:
    """Makes the data directory where there is none, for its owner alone."""
    home().mkdir(mode=0o700, parents=True, exist_ok=True)


def unwritable(error: OSError) -> InputError:
    """Returns what is to be said where the data directory cannot be written."""
    return InputError(f"TRIREME_HOME {home()}: cannot be written: {error.strerror}")


def in_a_pod() -> bool:
    """Whether this is a step on a cluster, not of a pipeline that somebody runs in a pod."""
    return "KUBERNETES_SERVICE_HOST" in os.environ and TRACKER not in os.environ


def mounted(directory: Path) -> list[str]:
    """Returns the keys of the Secret or ConfigMap that a pod has in a directory.

    One that is optional and not there is mounted, too: what kubelet has there for itself, a link
    ``..data`` and what it leads to, is no key.
    """
    return sorted(file.name for file in directory.iterdir() if not file.name.startswith(".."))
