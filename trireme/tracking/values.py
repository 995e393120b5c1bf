"""Values that a run's record keeps: metrics are numbers, tags are texts, parameters are JSON."""

import json
from collections.abc import Mapping, Sequence
from numbers import Real
from reprlib import repr
from typing import Any


def numbers(values: Mapping[str, Any], what: str = "metrics") -> dict[str, float]:
    """Returns numbers by name, whatever library they are of; refuses what is none.

    Args:
        what: What they are called.

    Raises:
        TypeError: One sentence that names what is wrong.
    """
    return {name: _number(what, name, value) for name, value in _by_name(values, what).items()}


def texts(values: Mapping[str, Any], what: str = "tags") -> dict[str, str]:
    """Returns texts by name; refuses what is none, as ``numbers`` does."""
    for name, value in _by_name(values, what).items():
        if not isinstance(value, str):
            raise TypeError(f"{what}: {name} {repr(value)} is no text")
    return dict(values)


def parameters(values: Mapping[str, Any], what: str = "params") -> dict[str, Any]:
    """Returns values by name; refuses what JSON does not have, as ``numbers`` does."""
    for name, value in _by_name(values, what).items():
        try:
            json.dumps(value)
        except (TypeError, ValueError, RecursionError):
            raise TypeError(f"{what}: {name} {repr(value)} is no value that JSON has") from None
    return dict(values)


def lines(texts_given: Sequence[str], what: str = "words") -> Sequence[str]:
    """Returns lines; refuses a text alone, whose letters they would be, as ``numbers`` does."""
    if isinstance(texts_given, str | bytes) or not isinstance(texts_given, Sequence):
        raise TypeError(f"{what}: {repr(texts_given)} is no list of texts")
    for line in texts_given:
        if not isinstance(line, str):
            raise TypeError(f"{what}: {repr(line)} is no text")
    return texts_given


def _number(what: str, name: str, value: Any) -> float:
    if not isinstance(value, Real):
        raise TypeError(f"{what}: {name} {repr(value)} is no number")
    try:
        number = float(value)
    except OverflowError:
        raise TypeError(f"{what}: {name} {repr(value)} is too large") from None
    return value if isinstance(value, int | float) else number


def _by_name(values: Mapping[str, Any], what: str) -> Mapping[str, Any]:
    if not isinstance(values, Mapping):
        raise TypeError(f"{what}: {repr(values)} has no names")
    for name in values:
        if not isinstance(name, str):
            raise TypeError(f"{what}: the name {repr(name)} is no text")
    return values
