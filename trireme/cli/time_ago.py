"""Times since when something is meant, as a person types them: ``12h``, ``30d``."""

import re

from trireme.errors import InputError

_SECONDS = {"m": 60, "h": 3600, "d": 86400, "w": 7 * 86400}


def seconds_of(text: str, option: str) -> float:
    """Returns how many seconds that is."""
    match = re.fullmatch(r"(\d{1,6})([mhdw])", text)
    if not match:
        raise InputError(f"{option} {text!r}: must be a number with m, h, d or w, such as 30d")
    return int(match[1]) * _SECONDS[match[2]]
