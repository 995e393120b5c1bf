"""Write answers as JSON or YAML."""

import json
from functools import cache
from typing import Any

from pydantic import TypeAdapter

from trireme.answers.answer import Part


def as_json(answer: Part) -> str:
    """Returns an answer as JSON, for a person to read, too; what is no number becomes null."""
    return _written(answer, indent=2)


def in_a_line(answer: Part) -> str:
    """Returns an answer as JSON in one line."""
    return _written(answer)


def as_yaml(answer: Part) -> str:
    """Returns an answer as a document of YAML."""
    import yaml

    values = json.loads(in_a_line(answer))
    return "---\n" + yaml.safe_dump(values, sort_keys=False, allow_unicode=True).rstrip()


def _written(answer: Part, indent: int | None = None) -> str:
    kind: Any = type(answer)
    return _adapter(kind).dump_json(answer, indent=indent).decode()


@cache
def _adapter(kind: Any) -> TypeAdapter[Any]:
    """Returns what writes a kind of answer, which takes long to be made."""
    return TypeAdapter(kind)
