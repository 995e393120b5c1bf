"""Records that runs and jobs of this machine keep of themselves."""

import json
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, TypeVar

from trireme.errors import InputError
from trireme.text.say import say

LAYOUT = 1
"""How their folders are laid out, which records tell: another number is another version's."""

NUMBER = (int, float)

Kind = type | tuple[type, ...]
Found = TypeVar("Found")


def read(file: Path, needed: Mapping[str, Kind], more: Mapping[str, Kind]) -> dict[str, Any] | None:
    """Returns the record in a file; None where there is none.

    Args:
        needed: The types of the fields that it must have.
        more: Those of fields that it may have.

    Raises:
        InputError: It is of another version of Trireme, or damaged.
    """
    try:
        record = json.loads(file.read_text())
    except OSError:
        return None
    except ValueError:
        raise of_another_version(file) from None
    if not isinstance(record, dict) or record.get("layout") != LAYOUT:
        raise of_another_version(file)
    kinds = dict(needed) | {name: kind for name, kind in more.items() if name in record}
    if not all(isinstance(record.get(name), kind) for name, kind in kinds.items()):
        raise of_another_version(file)
    return record


def of_another_version(file: Path) -> InputError:
    """Returns what to say of a record that this version cannot read."""
    return InputError(
        f"{file}: is of another version of Trireme, or damaged; that version reads it, or remove "
        f"{file.parent} and start anew"
    )


def readable(folders: Iterable[Path], read_one: Callable[[Path], Found | None]) -> Iterator[Found]:
    """Yields what can be read in folders, and says which cannot."""
    for folder in folders:
        try:
            record = read_one(folder)
        except InputError as error:
            say(f"warning: {error}")
            continue
        if record is not None:
            yield record
