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


def lasting(seconds: float) -> str:
    """Returns how long something lasts, as in ``1 h 02 min``."""
    if seconds < 9.95:
        return f"{seconds:.1f} s"
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    days, hours = divmod(hours, 24)
    if days:
        return f"{days} d {hours:02} h"
    if hours:
        return f"{hours} h {minutes:02} min"
    return f"{minutes} min {rest:02} s" if minutes else f"{rest} s"
