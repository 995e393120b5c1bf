"""Refusals: what Argo cannot do, each by its name."""

from collections.abc import Collection
from typing import Any

from trireme.errors import InputError


class NotOnArgo(InputError):
    """A pipeline asks for what cannot be expressed on plain Argo; names the task and what it is."""

    def __init__(self, where: str, what: str) -> None:
        super().__init__(f"{where}: {what} cannot be expressed on Argo")


def only(known: Collection[str], given: dict[str, Any], where: str) -> None:
    """Refuses what is given and not known."""
    for name in given.keys() - set(known):
        raise NotOnArgo(where, name)
