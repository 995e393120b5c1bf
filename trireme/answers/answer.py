"""The frame of every answer: its kind, its version, and how times are told.

Answers are dataclasses that pydantic describes and writes: who only reads a table does not wait
until pydantic is loaded. Within a version fields are added, but none goes or changes its meaning.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from decimal import Decimal
from typing import ClassVar, Literal


@dataclass(frozen=True, kw_only=True)
class Part:
    """Part of an answer: a docstring under a field is its description in the JSON Schema."""

    __pydantic_config__: ClassVar = {"use_attribute_docstrings": True}


@dataclass(frozen=True, kw_only=True)
class Answer(Part):
    """An answer as a whole; each has a ``kind`` of its own."""

    version: Literal[1] = 1
    """Grows when a field goes or changes its meaning."""


def moment(seconds: float) -> datetime:
    """Returns a time, given in seconds since the epoch, as answers have it: whole, in UTC."""
    return datetime.fromtimestamp(int(seconds), UTC)


def moment_if_known(seconds: float | None) -> datetime | None:
    """Returns the same; None of 0 and of None, which stand for what is not known."""
    return moment(seconds) if seconds else None


def amounts(resources: Mapping[str, Decimal]) -> dict[str, float]:
    """Returns amounts of resources as answers have them: CPUs, bytes, devices."""
    return {name: float(amount) for name, amount in resources.items()}
