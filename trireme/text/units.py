"""Bytes and seconds as a person reads them."""

_UNITS = ("B", "KiB", "MiB", "GiB", "TiB", "PiB")


def in_words(size: float) -> str:
    """Returns a number of bytes as a person reads it, as in ``1.5 GiB``."""
    unit = 0
    while size >= 1024 and unit < len(_UNITS) - 1:
        size, unit = size / 1024, unit + 1
    return f"{size:.0f} {_UNITS[unit]}" if unit == 0 else f"{size:.1f} {_UNITS[unit]}"


def clock(seconds: float) -> str:
    """Returns seconds as on a clock, as in ``1:02:03``."""
    minutes, seconds = divmod(int(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02}:{seconds:02}" if hours else f"{minutes}:{seconds:02}"
