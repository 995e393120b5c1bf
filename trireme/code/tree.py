"""The working tree of a commit: its files, those in LFS, and its submodules.

See https://git-lfs.com and https://git-scm.com/docs/gitmodules.
"""

import os
import shutil
from pathlib import Path, PurePosixPath
from typing import NamedTuple

from trireme.code import shadow, url
from trireme.code.command import git, must, patiently
from trireme.code.failures import reason, unreadable
from trireme.code.repository import Origin, fetch
from trireme.errors import InputError, TriremeError

_IN_PARALLEL = "checkout.workers=4"  # a NAS answers each write slowly, but many at once
_FILE, _LINK, _SUBMODULE = "100644", "120000", "160000"
_LFS = (  # what `git lfs install` would write for everything this user does
    *("-c", "filter.lfs.clean=git-lfs clean -- %f"),
    *("-c", "filter.lfs.smudge=git-lfs smudge -- %f"),
    *("-c", "filter.lfs.process=git-lfs filter-process"),
    *("-c", "filter.lfs.required=true"),
    # It tries again for what is lost for good, too; by default for more than a minute.
    *("-c", "lfs.transfer.maxretries=4"),
)
NO_LFS = (
    *("-c", "filter.lfs.clean=", "-c", "filter.lfs.smudge="),
    *("-c", "filter.lfs.process=", "-c", "filter.lfs.required=false"),
)


_MOST_PARTS = 10_000  # of a path, with those of the links in it


ALL, NONE = "all", "none"
"""What submodules are wanted, where not those of some paths, with commas between them."""


class Contents(NamedTuple):
    """What was found in a tree that a person should know of: links, and in words what it lacks."""

    links: list[Path]
    missing: list[str]


class _Entry(NamedTuple):
    mode: str
    id: str
    path: str


def fill(origin: Origin, commit: str, tree: Path, selection: str = ALL) -> Contents:
    """Checks out a commit that has been fetched, and its submodules at the commits it names.

    Args:
        selection: Which submodules; of one that is wanted all that are in it.
    """
    entries = _entries(commit, tree)
    contents = Contents([tree / entry.path for entry in entries if entry.mode == _LINK], [])
    in_lfs = is_in_lfs(commit, tree)
    if in_lfs and not shutil.which("git-lfs"):
        contents.missing.append("the files in LFS, because git-lfs is not installed")
        in_lfs = False
    _check_out(origin, commit, tree, in_lfs)
    submodules = _selected(selection, [entry for entry in entries if entry.mode == _SUBMODULE])
    described = any(entry.path == ".gitmodules" and entry.mode == _FILE for entry in entries)
    sources = _submodule_urls(commit, tree) if submodules and described else {}
    for entry in submodules:
        if source := sources.get(entry.path):
            below = _fill_submodule(origin, source, entry, tree)
            contents.links.extend(below.links)
            contents.missing.extend(below.missing)
        else:
            contents.missing.append(f"the submodule {entry.path}, which .gitmodules leaves out")
    return contents


def _selected(selection: str, submodules: list[_Entry]) -> list[_Entry]:
    """Returns the submodules that are wanted."""
    if selection in (ALL, NONE):
        return submodules if selection == ALL else []
    by_path = {entry.path: entry for entry in submodules}
    for path in (names := selection.split(",")):
        if path not in by_path:
            existing = ", ".join(by_path) or "none"
            raise InputError(f"code_submodules {path!r}: the repository has {existing}")
    return [by_path[path] for path in names]


def check_links(links: list[Path], tree: Path) -> None:
    """Refuses links that lead out of the tree."""
    top = tree.resolve()
    for link in links:
        end = Path(os.path.realpath(link))  # which unlike Path.resolve takes a loop as it is
        if link.readlink().is_absolute() or not end.is_relative_to(top):
            raise _leads_out(str(link.relative_to(tree)), str(link.readlink()))


def check_targets(targets: dict[str, str]) -> None:
    """Refuses links that would lead out of a tree, given what each is to, before it is there."""
    for link in targets:
        at: list[str] = []
        parts = [*reversed(PurePosixPath(link).parts)]
        for _ in range(_MOST_PARTS):  # a loop ends nowhere
            if not parts:
                break
            if (part := parts.pop()) == "..":
                is_out = not at
                at = at[:-1]
            else:
                target = PurePosixPath(targets.get("/".join([*at, part]), part))
                is_out = target.is_absolute()
                if target == PurePosixPath(part):
                    at.append(part)
                else:
                    parts += reversed(target.parts)
            if is_out:
                raise _leads_out(link, targets[link])


def check_links_of(commit: str, at: Path) -> None:
    """Refuses links of a commit that lead out of its tree; not those of its submodules."""
    links = [entry for entry in _entries(commit, at) if entry.mode == _LINK]
    blobs = (git("cat-file", "blob", entry.id, at=at) for entry in links)
    check_targets(
        {entry.path: must("read a link", blob) for entry, blob in zip(links, blobs, strict=True)}
    )


def _leads_out(link: str, target: str) -> InputError:
    return InputError(
        f"code_url: {link} is a link that leads out of the repository, to {target}; remove it "
        "(data belongs in dataset_uri, and is found in DATA_DIR)"
    )


def _entries(commit: str, tree: Path) -> list[_Entry]:
    command = ("ls-tree", "-r", "-z", "--full-tree", commit)
    lines = must("list the files", git(*command, at=tree)).split("\0")[:-1]
    described = (line.partition("\t") for line in lines)
    return [_Entry(about[:6], about.split(" ")[2], path) for about, _, path in described]


def _check_out(origin: Origin, commit: str, tree: Path, with_lfs: bool) -> None:
    if with_lfs:
        _check_lfs_urls(commit, tree)
    # With force a file that a failed attempt left is no obstacle to the next.
    command = ("-c", _IN_PARALLEL, "checkout", "--quiet", "--force", "--detach", commit)
    result = patiently(*(_LFS if with_lfs else NO_LFS), *command, at=tree, access=origin.access)
    if result.returncode != 0 and with_lfs:
        raise unreadable(origin.source, result.stderr, origin.secret)
    if result.returncode != 0:
        raise InputError(f"git could not check out {commit}: {reason(result.stderr)}")


def is_in_lfs(commit: str, tree: Path) -> bool:
    """Whether a commit has files in LFS."""
    command = ("grep", "-q", "filter=lfs", commit, "--", ":(glob)**/.gitattributes")
    return git(*command, at=tree).returncode == 0


def _check_lfs_urls(commit: str, tree: Path) -> None:
    """Refuses a commit that wants its LFS files from anywhere but a server."""
    command = ("config", "--blob", f"{commit}:.lfsconfig", "--get-regexp", r"url$")
    for line in git(*command, at=tree).stdout.splitlines():
        source = line.partition(" ")[2]
        if not url.server(source):
            raise InputError(
                f"code_url: its .lfsconfig has the URL {source!r}, which is not a server"
            )


def _submodule_urls(commit: str, tree: Path) -> dict[str, str]:
    """Returns where the submodules of a commit come from, by their paths."""
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


def _fill_submodule(origin: Origin, source: str, entry: _Entry, tree: Path) -> Contents:
    directory = tree / entry.path  # the empty one that git left for it
    path = Path(os.path.realpath(directory))
    if path != tree.resolve() / entry.path or not directory.is_dir():
        raise InputError(f"the submodule {entry.path} overlaps with another path")
    try:
        source = url.of_submodule(source, origin.source)
        with shadow.standing_for(source) as stand_in:
            below = origin._replace(source=source, stand_in=stand_in)
            fetch(below, entry.id, directory)
    except InputError as error:
        advice = "; code_submodules says which are checked out"
        raise InputError(f"the submodule {entry.path}: {error}{advice}") from None
    except TriremeError as error:
        raise TriremeError(f"the submodule {entry.path}: {error}") from None
    return fill(below, entry.id, directory)
