"""Which files of a dataset are meant: patterns as in shells and .gitignore."""

import re
from collections.abc import Callable
from typing import Annotated

from pydantic import AfterValidator

_TOKEN = re.compile(r"\*\*/|\*\*|\*|\?|\[!?\]?[^\]/]*\]|.", re.DOTALL)


def matcher(patterns: list[str]) -> Callable[[str], bool]:
    """Returns what tells whether one of some patterns matches a file's path.

    ``*`` and ``?`` stand for any characters, and ``[a-z]`` and ``[!a-z]`` for one, but for ``/``;
    ``**`` stands for any number of folders. A pattern with no ``/`` before its end matches in
    every folder; one that ends in ``/`` matches all that is in such a folder.
    """
    if not patterns:
        return lambda path: False
    expression = re.compile("|".join(f"(?:{_expression(pattern)})" for pattern in patterns))
    return lambda path: expression.fullmatch(path) is not None


def selector(include: list[str], exclude: list[str]) -> Callable[[str], bool]:
    """Returns what tells whether a path is included, which all are by default, and not excluded."""
    if not include and not exclude:
        return lambda path: True
    included, excluded = matcher(include or ["**"]), matcher(exclude)
    return lambda path: included(path) and not excluded(path)


def _expression(pattern: str) -> str:
    if "/" not in pattern.rstrip("/"):
        pattern = f"**/{pattern}"
    if pattern.endswith("/"):
        pattern += "**"
    return "(?s:" + "".join(_translated(token) for token in _TOKEN.findall(pattern)) + ")"


def _translated(token: str) -> str:
    if token == "**/":
        return "(?:[^/]+/)*"
    if token == "**":
        return ".*"
    if token == "*":
        return "[^/]*"
    if token == "?":
        return "[^/]"
    if token.startswith("[") and len(token) > 1:
        negated = token.startswith("[!")
        inside = token[2 if negated else 1 : -1]
        inside = re.sub(r"([\\\[\]^&~|]|-(?=-))", r"\\\1", inside)
        return f"(?!/)[{'^' if negated else ''}{inside}]"
    return re.escape(token)


def _is_pattern(pattern: str) -> str:
    if not pattern.strip("/") or "\0" in pattern or pattern.startswith("/"):
        raise ValueError(f"{pattern!r} must be a pattern of relative paths, as in *.jpg")
    if ".." in pattern.split("/"):
        raise ValueError(f"{pattern!r} must not hold '..'")
    try:
        re.compile(_expression(pattern))
    except re.error:
        raise ValueError(f"{pattern!r} is not a pattern such as *.jpg") from None
    return pattern


Pattern = Annotated[str, AfterValidator(_is_pattern)]
"""A pattern of paths, checked."""
