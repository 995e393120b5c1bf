"""The parameters of a run one by one, its program's arguments too, as runs are compared by."""

import ast
import json
import re
from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from typing import Any

from trireme.credentials.withheld import is_withheld
from trireme.tracking.batch import NAME_LIMIT, PARAMETER_LIMIT

PREFIX = "args."
"""How the names of these parameters begin, after that of the whole, ``args``."""

MOST = 200  # of one program; a hundred calls of MLflow would be the price of thousands
HIDDEN = "(withheld)"

EMPTY = ("", "[]", "{}", "None")
"""Values that say as much as none."""

_OPTION = re.compile(r"--?([^\W\d_][^=]*)(?:=(.*))?", re.DOTALL)
_JOINED = re.compile(r"-([a-zA-Z])([\d.].*)")
_OVERRIDE = re.compile(r"\+{0,2}([^\W\d][\w.@/-]*)=(.*)", re.DOTALL)  # of Hydra
_UNUSUAL = re.compile(r"[^\w.-]")


def one_by_one(args: Sequence[str]) -> dict[str, str]:
    """Returns parameters by name: ``args.lr`` for ``--lr 0.01``, ``args.0`` for a first word alone.

    A value follows an option if the next word does not begin with ``-``, or is a number; more
    numbers after a number are of the same option. Of an option that comes twice the last counts,
    as most programs have it.
    """
    parameters: dict[str, str] = {}
    spelled: dict[str, str] = {}
    for option, value in _pairs(args):
        name = f"{PREFIX}{_UNUSUAL.sub('_', option)}"[: NAME_LIMIT - 2].rstrip(".")
        if spelled.setdefault(name.casefold(), name) != name:
            name += "_2"  # some databases take -b and -B for one
        parameters.pop(name, None)
        parameters[name] = HIDDEN if _is_secret(option, value) else value[:PARAMETER_LIMIT]
    return dict(list(parameters.items())[:MOST])


def secrets(args: Sequence[str]) -> list[str]:
    """Returns the values among a program's arguments that are withheld."""
    return [value for option, value in _pairs(args) if _is_secret(option, value)]


def each(params: Mapping[str, Any]) -> dict[str, str]:
    """Returns parameters with each argument and each field of an object by itself.

    Args:
        params: Values, or texts as MLflow has them, where the arguments may be by themselves too.
    """
    flat: dict[str, str] = {}
    for name, recorded_value in params.items():
        value = parsed(recorded_value)
        if name == "args" and isinstance(value, list):
            flat |= one_by_one([str(word) for word in value])
        elif isinstance(value, dict) and value:
            flat |= dict(_fields(name, value))
        else:
            flat[name] = str(recorded_value)
    if recorded := {name: params[name] for name in params if name.startswith(PREFIX)}:
        flat = {name: flat[name] for name in flat if not name.startswith(PREFIX)} | recorded
    return flat


def parsed(text: Any) -> Any:
    """Returns what a text stands for that is a list or an object, also in Python's words."""
    if not (isinstance(text, str) and text[:1] in ("[", "{")):
        return text
    for read in (json.loads, ast.literal_eval):
        with suppress(ValueError, SyntaxError, MemoryError, RecursionError):
            return read(text)
    return text  # such as one that was cut off


def _fields(name: str, fields: Mapping[Any, Any]) -> Iterator[tuple[str, str]]:
    for field, value in fields.items():
        if isinstance(value, dict) and value:
            yield from _fields(f"{name}.{field}", value)
        else:
            yield f"{name}.{field}", HIDDEN if _is_secret(str(field), str(value)) else str(value)


def _pairs(args: Sequence[str]) -> Iterator[tuple[str, str]]:
    """Yields options with their values, and words alone with their numbers."""
    words, alone, only_words = deque(args), 0, False
    while words:
        word = words.popleft()
        if word == "--" and not only_words:
            only_words = True
        elif only_words or _is_number(word):
            yield str(alone), word
            alone += 1
        elif (match := _JOINED.fullmatch(word)) and _is_number(match[2]):
            yield match[1], match[2]
        elif match := _OPTION.fullmatch(word):
            yield match[1], _following(words) if match[2] is None else match[2]
        elif match := _OVERRIDE.fullmatch(word):
            yield match[1], match[2]
        else:
            yield str(alone), word
            alone += 1


def _following(words: deque[str]) -> str:
    """Takes an option's value from the words after it; one without is ``true``."""
    if not words or (words[0].startswith("-") and not _is_number(words[0])):
        return "true"
    values = [words.popleft()]
    while words and _is_number(values[0]) and _is_number(words[0]):
        values.append(words.popleft())
    return " ".join(values)


def _is_number(word: str) -> bool:
    try:
        float(word)
    except ValueError:
        return False
    return True


def _is_secret(option: str, value: str) -> bool:
    """Tells whether a value is withheld where it is a variable's; ``--max-tokens 512`` is not."""
    variable = _UNUSUAL.sub("_", option).replace("-", "_").replace(".", "_").upper()
    if all(map(_is_number, value.split())):
        variable = variable.replace("TOKEN", "")
    return value != "true" and is_withheld(variable, value)
