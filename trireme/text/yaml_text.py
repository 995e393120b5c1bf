"""Read the YAML that people write, and say in a sentence what is wrong with it."""

from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

import yaml

from trireme.errors import InputError

LARGEST = 1 << 20  # bytes; what takes a second to be read
MOST = 50_000  # values, likewise; a few lines of aliases can stand for billions
DEEPEST = 100  # lists and mappings, one in the other
LONGEST_NUMBER = 1_000  # characters; PyYAML takes minutes for some that have a million

LONGEST_NAME = 100  # characters of a key in a sentence

_TOO_DEEP = "it is nested too deep, or an alias stands for what it is in"
_MERGED = "tag:yaml.org,2002:merge"
_NUMBERS = ("tag:yaml.org,2002:int", "tag:yaml.org,2002:float")


class _Refused(Exception):
    """It could be read, but would take too long or too much room; says what it has."""


class Loader(yaml.SafeLoader):
    """Refuses what is too much while it comes, because reading all of it would be too late."""

    def __init__(self, text: str) -> None:
        super().__init__(text)
        self._values = 0
        self._keys: dict[int, set[tuple[str, str]]] = {}

    def close(self) -> None:
        """Lets go of what is held in circles."""
        self.dispose()

    def compose_node(self, parent: yaml.Node | None, index: int) -> yaml.Node | None:
        """Reads the next value with all that is in it."""
        self._values += 1
        if self._values > MOST:
            raise _Refused(f"it holds more than {MOST:,} values")
        node = super().compose_node(parent, index)
        if node and node.tag in _NUMBERS and len(node.value) > LONGEST_NUMBER:
            raise _Refused(f"a number has more than {LONGEST_NUMBER:,} digits")
        if parent and index is None and isinstance(node, yaml.ScalarNode):  # a key of a mapping
            self._refuse_twice(parent, node)
        return node

    def _refuse_twice(self, parent: yaml.Node, key: yaml.ScalarNode) -> None:
        """Refuses a key that a mapping has already, whose first value PyYAML itself would drop."""
        known = self._keys.setdefault(id(parent), set())
        if (key.tag, key.value) in known and key.tag != _MERGED:
            line = key.start_mark.line + 1
            raise yaml.YAMLError(
                f"{key.value[:LONGEST_NAME]!r} is given twice, again in line {line}"
            )
        known.add((key.tag, key.value))


def read(file: Path, called: str) -> Any:
    """Returns what a YAML file holds.

    Args:
        called: What a person knows it as, such as ``--params params.yaml``.
    """
    return parse(text_of(file, called), called)


def text_of(file: Path, called: str) -> str:
    """Returns the text of a file."""
    try:
        with file.open("rb") as stream:
            content = stream.read(LARGEST + 1)
        if len(content) > LARGEST:
            raise InputError(f"{called}: is larger than {LARGEST >> 20} MiB")
        return content.decode()
    except (OSError, UnicodeDecodeError) as error:
        why = getattr(error, "strerror", None) or error
        raise InputError(f"{called}: cannot be read: {why}") from None


def parse(text: str, called: str, loader: type[Loader] = Loader) -> Any:
    """Returns what a YAML text holds."""
    with _explained(called), closing(loader(text)) as reader:
        if (node := reader.get_single_node()) is None:
            return None
        _refuse_large(node)
        return reader.construct_document(node)


def documents(text: str, called: str) -> list[Any]:
    """Returns what each document of a YAML text holds, but for empty ones."""
    with _explained(called), closing(Loader(text)) as reader:
        contents = []
        while reader.check_node():
            if node := reader.get_node():
                _refuse_large(node)
                contents.append(reader.construct_document(node))
        return [document for document in contents if document is not None]


def check(text: str, called: str) -> None:
    """Refuses documents that another reader would take too long or too much room for."""
    with _explained(called), closing(Loader(text)) as reader:
        while reader.check_node():
            if node := reader.get_node():
                _refuse_large(node)


def _refuse_large(node: yaml.Node) -> None:
    """Refuses what is too much with all that is in it as often as there is an alias for it."""
    values, waiting = 0, [(node, 0)]
    while waiting:
        current, depth = waiting.pop()
        values += 1
        if values > MOST:
            raise _Refused(f"it holds more than {MOST:,} values, aliases followed")
        if depth > DEEPEST:
            raise _Refused(_TOO_DEEP)
        if isinstance(current, yaml.MappingNode):
            waiting += [(part, depth + 1) for pair in current.value for part in pair]
        elif isinstance(current, yaml.SequenceNode):
            waiting += [(part, depth + 1) for part in current.value]


@contextmanager
def _explained(called: str) -> Iterator[None]:
    try:
        yield
    except (yaml.YAMLError, ValueError) as error:  # a date such as 2026-13-45
        words = " ".join(str(error).split()).replace('in "<unicode string>", ', "")
        raise InputError(f"{called} is not YAML: {words}") from None
    except (ArithmeticError, AttributeError, LookupError, TypeError):  # as PyYAML meets them
        raise InputError(
            f"{called} is not YAML: a value does not fit its tag, or is too large"
        ) from None
    except (_Refused, RecursionError) as error:
        refused = error if isinstance(error, _Refused) else _TOO_DEEP
        raise InputError(f"{called} is not YAML that can be read: {refused}") from None
