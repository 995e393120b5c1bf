"""Values of JSON that others write, as they were written."""

import json
from typing import Any

LONGEST_NAME = 100  # characters of a name in a sentence


class GivenTwiceError(ValueError):
    """A name comes twice in an object, whose first value Python itself would drop."""


def read(text: str) -> Any:
    """Returns what a JSON text holds; refuses a name that comes twice in an object."""
    return json.loads(text, object_pairs_hook=_once)


def _once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    members: dict[str, Any] = {}
    for name, value in pairs:
        if name in members:
            raise GivenTwiceError(f"{name[:LONGEST_NAME]!r} is given twice")
        members[name] = value
    return members


def whole(value: Any) -> Any:
    """Returns a value in which whole numbers are ``int`` again, at any depth.

    kfp hands on objects and lists as protobuf's ``Struct``, all of whose numbers are doubles.
    """
    if isinstance(value, dict):
        return {name: whole(item) for name, item in value.items()}
    if isinstance(value, list):
        return [whole(item) for item in value]
    return int(value) if isinstance(value, float) and value.is_integer() else value


def words(values: Any) -> Any:
    """Returns a program's arguments with numbers as JSON writes them; 3.0 is 3."""
    if not isinstance(values, list | tuple):
        return values
    return [
        json.dumps(value)
        if isinstance(value, int | float) and not isinstance(value, bool)
        else value
        for value in whole(list(values))
    ]
