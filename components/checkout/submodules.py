"""What .gitmodules says (https://git-scm.com/docs/gitmodules)."""

import os
from pathlib import Path

from trireme.components.checkout.command import git, must
from trireme.components.errors import InputError


def urls(commit: str, tree: Path) -> dict[str, str]:
    """Returns where the submodules of a commit come from, by their paths.

    One that says ``update = none`` is left out, as git does.
    """
    command = ("config", "--blob", f"{commit}:.gitmodules", "--null", "--list")
    sections: dict[str, dict[str, str]] = {}
    for entry in must("read .gitmodules", git(*command, at=tree)).split("\0"):
        key, _, value = entry.partition("\n")
        name, _, setting = key.rpartition(".")
        sections.setdefault(name, {})[setting] = value
    return {
        section["path"]: section["url"]
        for section in sections.values()
        if {"path", "url"} <= section.keys() and section.get("update") != "none"
    }


def make_room(path: str, tree: Path) -> Path:
    """Returns the empty directory that git left for a submodule."""
    directory = tree / path
    if Path(os.path.realpath(directory)) != tree.resolve() / path or not directory.is_dir():
        raise InputError(f"the submodule {path} is not at a place of its own")
    return directory
