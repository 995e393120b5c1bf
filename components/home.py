"""Where Trireme keeps what outlives a command on this machine."""

import os
from pathlib import Path

from components.errors import InputError


def home() -> Path:
    """Returns Trireme's data directory: TRIREME_HOME, by default ``~/.trireme``.

    Raises:
        InputError: It cannot be used.
    """
    directory = Path(os.environ.get("TRIREME_HOME") or "~/.trireme").expanduser().absolute()
    if set("?%") & set(str(directory)):
        raise InputError(f"TRIREME_HOME {directory}: cannot hold ? or %, which SQLite's URLs use")
    return directory
