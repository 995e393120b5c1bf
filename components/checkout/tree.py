"""The working tree of a commit: its files, its LFS files and its submodules."""

import os
from pathlib import Path
from typing import NamedTuple

from trireme.components.checkout import lfs, submodules, url
from trireme.components.checkout.command import git, must, patiently
from trireme.components.checkout.failures import reason, unreadable
from trireme.components.checkout.repository import Origin, fetch
from trireme.components.errors import InputError

_IN_PARALLEL = "checkout.workers=4"  # a NAS answers each write slowly, but many at once
_FILE, _LINK, _SUBMODULE = "100644", "120000", "160000"


class Contents(NamedTuple):
    """What was found in a tree that a person should know of."""

    links: list[Path]
    missing: list[str]


class _Entry(NamedTuple):
    mode: str
    id: str
    path: str


def fill(origin: Origin, commit: str, tree: Path) -> Contents:
    """Checks out a commit that has been fetched, and its submodules at the commits it names."""
    entries = _entries(commit, tree)
    contents = Contents([tree / entry.path for entry in entries if entry.mode == _LINK], [])
    in_lfs = lfs.are_used((entry.path for entry in entries), commit, tree)
    if in_lfs and not lfs.installed():
        contents.missing.append("the files in LFS, because git-lfs is not installed")
    _check_out(origin, commit, tree, in_lfs and lfs.installed())
    for entry, source in _submodules(origin, entries, commit, tree):
        if source:
            below = _fill_submodule(origin, source, entry, tree)
            contents.links.extend(below.links)
            contents.missing.extend(below.missing)
        else:
            contents.missing.append(f"the submodule {entry.path}, which .gitmodules leaves out")
    return contents


def check_links(links: list[Path], tree: Path) -> None:
    """Refuses links that lead out of the tree.

    What they lead to is no part of the commit: another machine has something else there, or
    nothing, and a program that writes to them writes to what the tree has no business with.
    """
    top = tree.resolve()
    for link in links:
        end = Path(os.path.realpath(link))  # which unlike Path.resolve takes a loop as it is
        if link.readlink().is_absolute() or not end.is_relative_to(top):
            raise InputError(
                f"code_url: {link.relative_to(tree)} there is a link that leads out of the "
                f"repository, to {link.readlink()}; remove it from the commit (data belongs in "
                "dataset_uri, and is found in DATA_DIR)"
            )


def _entries(commit: str, tree: Path) -> list[_Entry]:
    command = ("ls-tree", "-r", "-z", "--full-tree", commit)
    lines = must("list the files", git(*command, at=tree)).split("\0")[:-1]
    described = (line.partition("\t") for line in lines)
    return [_Entry(about[:6], about.split(" ")[2], path) for about, _, path in described]


def _check_out(origin: Origin, commit: str, tree: Path, with_lfs: bool) -> None:
    if with_lfs:
        lfs.check(commit, tree)
    # With force a file that a failed attempt left is no obstacle to the next.
    command = ("-c", _IN_PARALLEL, "checkout", "--quiet", "--force", "--detach", commit)
    result = patiently(*lfs.options(with_lfs), *command, at=tree, access=origin.access)
    if result.returncode != 0 and with_lfs:
        raise unreadable(origin.source, result.stderr, origin.secret)
    if result.returncode != 0:
        raise InputError(f"git could not check out {commit}: {reason(result.stderr)}")


def _submodules(
    origin: Origin, entries: list[_Entry], commit: str, tree: Path
) -> list[tuple[_Entry, str]]:
    """Returns the submodules and the URLs that .gitmodules gives them."""
    wanted = [entry for entry in entries if entry.mode == _SUBMODULE]
    if not wanted:
        return []
    described = any(entry.path == ".gitmodules" and entry.mode == _FILE for entry in entries)
    urls = submodules.urls(commit, tree) if described else {}
    return [(entry, urls.get(entry.path, "")) for entry in wanted]


def _fill_submodule(origin: Origin, source: str, entry: _Entry, tree: Path) -> Contents:
    directory = submodules.make_room(entry.path, tree)
    try:
        below = origin._replace(source=url.of_submodule(source, origin.source))
        fetch(below, entry.id, directory)
    except InputError as error:
        raise InputError(f"the submodule {entry.path}: {error}") from None
    return fill(below, entry.id, directory)
