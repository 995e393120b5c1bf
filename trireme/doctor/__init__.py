"""Doctor: what this machine and a cluster have for Trireme, what that allows, what is missing."""

from enum import StrEnum
from typing import NamedTuple


class Verdict(StrEnum):
    """How something is: MISSING is what runs can do without, FAILED what they cannot."""

    OK = "ok"
    MISSING = "missing"
    UNKNOWN = "unknown"
    FAILED = "failed"


class Fact(NamedTuple):
    """Something that is so, with what mends it where that is needed.

    Attributes:
        allows: What a person can do for that.
    """

    verdict: Verdict
    sentence: str
    allows: str = ""


def ok(sentence: str) -> Fact:
    """Returns something that is as it should be."""
    return Fact(Verdict.OK, sentence)
