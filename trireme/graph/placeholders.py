"""kfp's placeholders in constants, commands and arguments.

What they are: https://www.kubeflow.org/docs/components/pipelines/user-guides/components/.
"""

import json
import re
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

_PLACEHOLDER = re.compile(r"\{\{\$(.*?)\}\}", re.DOTALL)
_KEYED = re.compile(
    r"\.(inputs|outputs)\.(parameters|artifacts)\['{1,2}(.+?)'{1,2}\]"
    r"(?:\.(path|uri|output_file|metadata))?(?:\['{1,2}(.+?)'{1,2}\])?"
)


class Keyed(NamedTuple):
    """A placeholder such as ``{{$.inputs.artifacts['model'].metadata['framework']}}``."""

    side: str
    kind: str
    key: str
    attribute: str
    item: str


def keyed(inside: str) -> Keyed | None:
    """Returns what the inside of a placeholder asks for, if it is of an input or an output."""
    match = _KEYED.fullmatch(inside)
    return Keyed(*(group or "" for group in match.groups())) if match else None


def pieces(text: str) -> list[tuple[bool, str]]:
    """Returns the pieces of a text: whether each is a placeholder, and the text or its inside."""
    closed, end, rest = text.rpartition("}}")  # or each that is not closed is looked for to the end
    parts = _PLACEHOLDER.split(closed + end)
    parts[-1] += rest
    return [(bool(index % 2), part) for index, part in enumerate(parts) if part or index % 2]


def words(text: str, is_given: Callable[[str], bool]) -> list[str]:
    """Returns the words of a command line, several or none, that a word of kfp's stands for."""
    if text.startswith(('{"Concat": ', '{"IfPresent": ')):
        return _words(json.loads(text), is_given)
    return [text]


def _words(structure: Any, is_given: Callable[[str], bool]) -> list[str]:
    if isinstance(structure, str):
        return [structure]
    if isinstance(structure, list):
        return [word for part in structure for word in _words(part, is_given)]
    if "Concat" in structure:
        return ["".join(_words(structure["Concat"], is_given))]
    choice = structure["IfPresent"]
    return _words(choice.get("Then" if is_given(choice["InputName"]) else "Else", []), is_given)


def parameters_in(value: Any) -> Iterator[str]:
    """Yields the input parameters that placeholders in a constant ask for."""
    if isinstance(value, str):
        for is_placeholder, piece in pieces(value):
            reference = keyed(piece) if is_placeholder else None
            if reference and reference[:2] == ("inputs", "parameters"):
                yield reference.key
    elif isinstance(value, dict):
        for item in (*value.keys(), *value.values()):
            yield from parameters_in(item)
    elif isinstance(value, list):
        for item in value:
            yield from parameters_in(item)
