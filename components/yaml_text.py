"""Read the YAML that people write, and say in a sentence what is wrong with it."""

from pathlib import Path
from typing import Any

import yaml

from trireme.components.errors import InputError


def read(file: Path, called: str) -> Any:
    """Returns what a YAML file holds.

    Args:
        called: What a person knows it as, such as ``--params params.yaml``.
    """
    return parse(text_of(file, called), called)


def text_of(file: Path, called: str) -> str:
    """Returns the text of a file."""
    try:
        return file.read_text()
    except (OSError, UnicodeDecodeError) as error:
        why = getattr(error, "strerror", None) or error
        raise InputError(f"{called}: cannot be read: {why}") from None


def parse(text: str, called: str, loader: type[yaml.SafeLoader] = yaml.SafeLoader) -> Any:
    """Returns what a YAML text holds."""
    try:
        return yaml.load(text, loader)
    except (yaml.YAMLError, ValueError) as error:  # a date such as 2026-13-45
        words = " ".join(str(error).split()).replace('in "<unicode string>", ', "")
        raise InputError(f"{called} is not YAML: {words}") from None
    except RecursionError:
        raise InputError(f"{called} is not YAML that can be read: it is nested too deep") from None
