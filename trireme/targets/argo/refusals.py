"""Refusals: what Argo cannot do, each by its name."""

from collections.abc import Collection
from typing import Any

from trireme.errors import InputError


class NotOnArgo(InputError):
    """A pipeline asks for what cannot be expressed on plain Argo; names the task and what it is."""

    def __init__(self, subject: str, feature: str) -> None:
        super().__init__(f"{subject}: {feature} cannot be expressed on Argo")


def only(allowed: Collection[str], config: dict[str, Any], subject: str) -> None:
    """Refuses what is given and not known."""
    for name in config.keys() - set(allowed):
        raise NotOnArgo(subject, name)
