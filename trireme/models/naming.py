"""Names of what builds a network."""

import re

from trireme.errors import InputError


def check(factory: str) -> None:
    """Refuses what cannot name a factory."""
    if factory and not re.fullmatch(r"[\w.]+:\w+", factory):
        raise InputError(f"model_factory {factory!r}: must be module:callable, as in train:Net")
