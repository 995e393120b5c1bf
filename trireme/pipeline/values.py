"""Parameter values that would arrive in a step as something else."""

import math
from typing import Any

from trireme.errors import InputError
from trireme.graph.checking import WHOLE


def check(values: dict[str, Any]) -> None:
    """Refuses values that are no JSON, or that a double does not hold."""
    for name, value in values.items():
        _check(name, value)


def _check(name: str, value: Any) -> None:
    if isinstance(value, dict):
        for key, inner in value.items():
            if not isinstance(key, str):
                raise InputError(f"parameter {name}: the key {key!r} is not a text")
            _check(name, key)
            _check(f"{name}.{key}", inner)
    elif isinstance(value, list | tuple):
        for index, inner in enumerate(value):
            _check(f"{name}.{index}", inner)
    elif isinstance(value, str):
        _check_text(name, value)
    elif isinstance(value, int):
        if abs(value) > WHOLE:
            raise InputError(
                f"parameter {name}: {value} would be rounded; whole numbers are exact up to "
                f"{WHOLE}, so hand it over as a text"
            )
    elif isinstance(value, float):
        if not math.isfinite(value):
            raise InputError(f"parameter {name}: {value} is not a JSON number")
    elif value is not None:
        raise InputError(f"parameter {name}: {str(value)!r} is a {_kind(value)}, not a JSON value")


def _kind(value: Any) -> str:
    return f"{type(value).__module__}.{type(value).__name__}".removeprefix("datetime.")


def _check_text(name: str, text: str) -> None:
    try:
        text.encode()
    except UnicodeEncodeError:
        raise InputError(f"parameter {name}: {text!r} is not valid text") from None
