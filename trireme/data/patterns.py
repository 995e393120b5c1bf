"""Patterns of the files of a dataset that are meant."""

import re
from collections.abc import Callable, Iterator
from typing import Annotated

from pydantic import AfterValidator

MOST = 300  # patterns in a list
LONGEST = 1_000  # characters of a pattern

_TOKEN = re.compile(r"(?<![^/])\*\*/|\*\*|\*|\?|\[!?\]?[^\]/]*\]|.", re.DOTALL)
_FOLDERS = {"": "", "**/": "(?:[^/]+/)*?", "**": ".*?"}


def matcher(patterns: list[str]) -> Callable[[str], bool]:
    """Returns what tells whether one of some patterns matches a file's path.

    ``*`` and ``?`` stand for any characters, and ``[a-z]`` and ``[!a-z]`` for one, but for ``/``;
    ``**`` stands for any number of folders. A pattern with no ``/`` before its end matches in
    every folder; one that ends in ``/`` matches all that is in such a folder, ``/`` alone what is
    in one without a name, as in ``a//b``.
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
    pieces = _TOKEN.findall(pattern)
    # One of several stars that follow each other is as good.
    pairs = zip(pieces, ["", *pieces], strict=False)
    tokens = [token for token, before in pairs if token != before or not token.startswith("*")]
    parts: list[tuple[str, list[str]]] = [("", [])]
    for token in tokens:
        if token.startswith("**"):
            parts.append((token, []))
        else:
            parts[-1][1].append(token)
    # What comes before a ** is best looked for as far to the left as there is one, so that it need
    # not be tried again; that is the same with the stars of a name, as in Python's fnmatch.
    *before, last = (_FOLDERS[folders] + "".join(_translated(names)) for folders, names in parts)
    return f"(?s:{''.join(f'(?>{part})' for part in before)}{last})"


def _translated(tokens: list[str]) -> Iterator[str]:
    """Yields the parts of an expression that takes no longer for many stars than for few."""
    position = 0
    while position < len(tokens):
        token = tokens[position]
        position += 1
        if token != "*":
            yield _of_token(token)
            continue
        end = position
        while end < len(tokens) and tokens[end] not in ("*", "/"):
            end += 1
        between = "".join(map(_of_token, tokens[position:end]))
        if end < len(tokens) and tokens[end] == "*":
            yield f"(?>[^/]*?{between})"
            position = end
        else:
            yield "[^/]*?"


def _of_token(token: str) -> str:
    if token == "?":
        return "[^/]"
    if token.startswith("[") and len(token) > 1:
        negated = token.startswith("[!")
        inside = token[2 if negated else 1 : -1]
        inside = re.sub(r"([\\\[\]^&~|]|-(?=-))", r"\\\1", inside)
        return f"(?!/)[{'^' if negated else ''}{inside}]"
    return re.escape(token)


def _is_pattern(pattern: str) -> str:
    if len(pattern) > LONGEST:
        raise ValueError(f"{pattern[:40]!r}... must have at most {LONGEST:,} characters")
    if not pattern or (pattern.startswith("/") and pattern != "/"):
        raise ValueError(f"{pattern!r} must be a pattern of relative paths, as in *.jpg")
    try:
        re.compile(_expression(pattern))
    except re.error:
        raise ValueError(f"{pattern!r} is not a pattern such as *.jpg") from None
    return pattern


def _is_of_files(pattern: str) -> str:
    if pattern == "/" or "\0" in pattern:
        raise ValueError(f"{pattern!r} must be a pattern of relative paths, as in *.jpg")
    if ".." in pattern.split("/"):
        raise ValueError(f"{pattern!r} must not hold '..'")
    return pattern


def _are_few(patterns: list[str]) -> list[str]:
    if len(patterns) > MOST:
        raise ValueError(f"there must be at most {MOST} patterns, not {len(patterns):,}")
    return patterns


_Pattern = Annotated[str, AfterValidator(_is_pattern)]

Included = Annotated[
    list[Annotated[_Pattern, AfterValidator(_is_of_files)]], AfterValidator(_are_few)
]
"""A list of patterns of paths, checked."""

Excluded = Annotated[list[_Pattern], AfterValidator(_are_few)]
"""Likewise, also of what a source has that can be no file, as an object may be called ``a//b``."""
