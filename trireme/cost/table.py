"""The place of the price table: one file, here or in a ConfigMap.

Apart from what reads it, so that a step without one loads nothing for it.
"""

import math
from pathlib import Path

from trireme.files.home import home, mounted

NAME = "prices.yaml"
"""The file, in Trireme's data directory; also the key in the ConfigMap."""

CONFIG_MAP = "trireme-prices"
"""What has the table on a cluster; there need not be one."""

MOUNT = Path("/etc/trireme/prices")
"""Where the steps' pods have it."""

WHERE = f"{NAME} in TRIREME_HOME or, on a cluster, in a ConfigMap {CONFIG_MAP}"
"""Where one has to be, for a person."""


def file() -> Path | None:
    """Returns the price table; ``None`` where there is none."""
    if MOUNT.is_dir():
        # A ConfigMap that has the table under another name is no ConfigMap that is not there.
        return MOUNT / NAME if mounted(MOUNT) else None
    path = home() / NAME
    return path if path.exists() else None


def in_words(amount: float, currency: str) -> str:
    """Returns an amount of money, with two digits that say something."""
    digits = 2 if not 0 < amount < 1 else max(2, 1 - math.floor(math.log10(amount)))
    return f"{amount:,.{digits}f} {currency}"
