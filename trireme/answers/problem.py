"""The answer where a command cannot do what it should: an error, for scripts."""

import re
from dataclasses import dataclass
from typing import Literal

from trireme.answers.answer import Answer
from trireme.errors import TriremeError

# As sentences on input begin: the field and what was given for it.
_GIVEN = re.compile(
    r"(parameter )?(?P<field>(--?)?[A-Za-z][\w.\[\]-]*)"
    r"( ['\"\d{\[]|: (['\"]|(must|is|has|needs|give)\b))"
)
_COMMAND = re.compile(r"'(trireme [^']+)'")


@dataclass(frozen=True, kw_only=True)
class Problem(Answer):
    """An error: one line on stderr, after which nothing comes."""

    kind: Literal["error"] = "error"
    code: str
    """What went wrong, in a word; docs/reference/errors.md lists them."""
    exit_status: int
    sentence: str
    """The same for a person."""
    field: str
    """The option, parameter or field that is at fault; empty where it is none, or not known."""
    next: list[str]
    """Commands that help."""
    last_lines: list[str]
    """What else is worth showing, such as the last lines of a replica that failed."""


def of(error: TriremeError) -> Problem:
    """Returns an error as an answer."""
    is_input = error.exit_status == 2 and (at_fault := _GIVEN.match(str(error)))
    return Problem(
        code=error.code,
        exit_status=error.exit_status,
        sentence=str(error),
        field=at_fault["field"] if is_input and at_fault else "",
        next=_COMMAND.findall(str(error)),
        last_lines=error.detail.splitlines(),
    )
