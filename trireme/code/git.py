"""Check out a git repository at an exact commit."""

import json
import os
from collections.abc import Sequence
from pathlib import Path, PurePosixPath
from typing import NamedTuple

from trireme.code import builtin, bundle, repository, shadow, snapshot, tree
from trireme.code import revision as revisions
from trireme.code import url as urls
from trireme.code.command import LOCAL_ACCESS, git, must
from trireme.code.repository import Found, Origin
from trireme.credentials import secrets
from trireme.errors import InputError, TriremeError
from trireme.files.workspace import written_whole
from trireme.text.say import say
from trireme.tracking import journal

LIMIT = 1 << 20  # bytes of a difference that are kept

# A look into submodules would be one with their configuration.
_DIFF = (
    *("--no-color", "--no-ext-diff", "--no-textconv"),
    *("--ignore-submodules=dirty", "--submodule=short"),
)


class Checkout(NamedTuple):
    """A repository in the workspace.

    Attributes:
        commit: The full id of the commit checked out; of the reference trainers, that of their
            contents.
    """

    path: str
    commit: str


def check(
    url: str,
    revision: str,
    secret: str = "",
    directory: str = "",
    submodules: str = tree.ALL,
    without: Sequence[str] = (),
) -> None:
    """Refuses what could not work, or what git would take for something else than it is."""
    urls.check(url)
    revisions.check(revision)
    secrets.check("code_secret", secret)
    if not _is_inside(directory):
        raise InputError(f"code_directory {directory!r} must be a path inside the repository")
    if not all(map(str.strip, submodules.split(","))):
        raise InputError(
            f"code_submodules {submodules!r}: must be {tree.ALL}, {tree.NONE}, or the paths of "
            "submodules with commas between them"
        )
    for path in without:
        if not isinstance(path, str) or not _is_inside(path) or not PurePosixPath(path).parts:
            raise InputError(f"code_without {path!r}: must be a path inside code_url, as data is")
    if without and not snapshot.is_meant(url, revision):
        raise InputError(
            "code_without is given without a directory of this machine as code_url, or with "
            "code_revision; of a commit all is taken"
        )
    if not url:
        builtin.check(revision, directory, secret)
        if submodules != tree.ALL:
            raise InputError(f"code_submodules {submodules!r} is given without code_url")


def _is_inside(path: str) -> bool:
    is_relative = "\0" not in path and not path.startswith("/")
    return is_relative and not {"..", ".git"} & {*PurePosixPath(path).parts}


def check_here(url: str, secret: str, revision: str = "", without: Sequence[str] = ()) -> None:
    """Refuses what is wrong as far as this machine can tell without asking a server."""
    if not url or urls.bundle(url):
        return
    if urls.is_directory(url):
        snapshot.check_top(url)
    if snapshot.is_meant(url, revision):
        snapshot.check(url, without)
    source, name = urls.source(url), secrets.given(secret, "code")
    with repository.opened(source, name) as origin:
        if urls.is_local(source):
            directory = urls.path(origin.place)
            repository.check(origin, revision, directory)
            if not snapshot.is_meant(url, revision):
                result = git(
                    "rev-parse", "--verify", f"{revision or 'HEAD'}^{{commit}}", at=directory
                )
                tree.check_links_of(must("find the commit", result).strip(), directory)


def check_file(
    name: str, file: str, url: str, revision: str, directory: str, without: Sequence[str] = ()
) -> None:
    """Refuses a file that a repository does not have, as far as this machine can tell.

    Args:
        name: The parameter that names the file.
    """
    path = str(PurePosixPath(directory, file))
    if any(PurePosixPath(path).is_relative_to(folder) for folder in without):
        raise InputError(f"{name} {file!r} is left out of the code: code_without names it")
    if snapshot.is_meant(url, revision) and snapshot.is_left_out(url, path):
        raise InputError(f"{name} {file!r} is left out of the code: .gitignore names it")
    if not _has_file(path, url, revision):
        is_ours = file.startswith(f"{builtin.PLACE}/")  # the default
        advice = f"; give -p {name}=FILE.py, your program in it" if is_ours else ""
        raise InputError(f"{name} {file!r} does not exist in the repository{advice}")


def _has_file(path: str, url: str, revision: str) -> bool:
    """Tells whether a repository on this machine has a file; also True where it cannot tell."""
    source = urls.source(url) if url else ""
    if not urls.is_local(source):
        return bool(url)
    at = urls.path(source)
    if snapshot.is_meant(url, revision):
        return (at / path).is_file()
    commit = revision or "HEAD"
    with repository.opened(source, "") as origin:
        directory = urls.path(origin.place)
        if git("rev-parse", "--verify", f"{commit}^{{commit}}", at=directory).returncode:
            return True
        if git("cat-file", "-e", f"{commit}:{path}", at=directory).returncode == 0:
            return True
        # In a submodule, or behind a link, only a checkout tells.
        above = [str(parent) for parent in PurePosixPath(path).parents][:-1]
        listed = (
            git("ls-tree", commit, "--", *above, at=directory).stdout.splitlines() if above else []
        )
        return any(line.startswith(("160000", "120000")) for line in listed)


def resolve(url: str, revision: str, secret: str = "") -> str:
    """Returns the full id of a revision's commit, or the revision where only a fetch can tell."""
    check(url, revision, secret)
    if not url:
        return revision
    if revisions.is_commit(revision):
        return revision.lower()
    source = urls.source(url)
    with repository.opened(source, secret) as origin:
        tip = repository.tip(origin, revision)
    return tip.commit if tip else revision


def checkout(
    url: str,
    revision: str,
    destination: Path,
    *,
    secret: str = "",
    directory: str = "",
    submodules: str = tree.ALL,
    without: Sequence[str] = (),
) -> Checkout:
    """Brings a repository's working tree at a revision to a directory, with its submodules.

    Only the wanted commit is fetched where the server allows it. The directory appears whole
    or not at all, and is left as it is when it holds the wanted commit already. Of a local
    directory without a revision it is what is there, committed or not.

    Args:
        url: An https, ssh, git or file URL, a local directory, or a bundle's URL. Empty: the
            reference trainers that this package carries.
        revision: A branch, a tag, or a full or short commit id. Empty: the remote's ``HEAD``.
        secret: The name of the Secret that opens a private repository, with the keys in
            ``trireme.code.credentials.KEYS``. Empty: whatever git finds on this
            machine.
        directory: A directory in the repository, which is what the caller wants of it.
        submodules: ``all``, ``none``, or the paths of those that are wanted, with commas between.
        without: Paths of a directory that are no code.
    """
    check(url, revision, secret, directory, submodules, without)
    if not url:
        return _bring_builtin(destination)
    source = urls.source(url)
    params = {"code_url": source, "code_revision": revision or "HEAD", "code_directory": directory}
    params |= {"code_submodules": submodules} if submodules != tree.ALL else {}
    params |= {"code_without": json.dumps(list(without))} if without else {}
    journal.log_params({name: value for name, value in params.items() if value})
    try:
        with repository.opened(source, secret) as origin:
            if bundle_url := urls.bundle(url):
                resolved, notes = _bring_bundle(bundle_url, origin, destination, submodules)
            elif snapshot.is_meant(url, revision):
                resolved, notes = _bring_snapshot(url, origin, destination, submodules, without)
            else:
                resolved, notes = _bring(origin, revision, destination, submodules)
                notes += _without_changes(source, resolved, destination)
        path = _inside(directory, destination)
        _record(source, resolved, notes)
    except OSError as error:
        raise _unwritable(destination, error) from None
    return Checkout(str(path), resolved.commit)


def _bring_builtin(destination: Path) -> Checkout:
    try:
        commit = builtin.copy_trainers(destination)
    except OSError as error:
        raise _unwritable(destination, error) from None
    version = builtin.version()
    journal.log_tags({"git.commit": commit, "git.url": builtin.URL, "trainers.version": version})
    journal.summarize(f"the trainers of Trireme {version}, {commit[:19]}")
    return Checkout(str(destination), commit)


def _already_there(origin: Origin, revision: str, destination: Path) -> Found | None:
    """Returns what the destination holds if that is what is wanted."""
    commit = repository.commit_at(destination)
    if not commit or revisions.is_commit(revision):
        return Found(commit, "") if commit and commit == revision.lower() else None
    if tip := repository.tip(origin, revision):
        return tip if tip.commit == commit else None
    is_short = revisions.may_be_short_commit(revision) and commit.startswith(revision.lower())
    is_it = is_short and repository.is_from(destination, origin.source)
    return Found(commit, "") if is_it else None


def _bring(
    origin: Origin, revision: str, destination: Path, submodules: str, repo: Path | None = None
) -> tuple[Found, list[str]]:
    """Brings what is wanted, unless it is there already; returns also what it is without.

    Args:
        repo: Where the commit itself is, if it is not at the origin.
    """
    remote = Origin(repo.as_uri(), "", LOCAL_ACCESS) if repo else origin
    if resolved := _already_there(remote, revision, destination):
        return resolved, []
    with written_whole(destination) as partial:
        resolved = repository.fetch(remote, revision, partial)
        if repo:
            must("name the origin", git("remote", "set-url", "origin", origin.source, at=partial))
        contents = tree.fill(origin, resolved.commit, partial, submodules)
        tree.check_links(contents.links, partial)
    return resolved, [f"without {missing}" for missing in contents.missing]


def _bring_bundle(
    bundle_url: urls.Bundle, origin: Origin, destination: Path, submodules: str
) -> tuple[Found, list[str]]:
    resolved, notes = Found(bundle_url.commit, ""), list[str]()
    if repository.commit_at(destination) != bundle_url.commit:
        with bundle.fetched(bundle_url.place, bundle_url.commit) as repo:
            resolved, notes = _bring(origin, bundle_url.commit, destination, submodules, repo)
    subject = git("log", "-1", "--format=%s", at=destination).stdout.strip()
    _keep(destination, resolved.commit)
    journal.log_tags({"git.dirty": str(subject == snapshot.SUBJECT).lower()})
    return resolved, notes


def _bring_snapshot(
    url: str, origin: Origin, destination: Path, submodules: str, without: Sequence[str]
) -> tuple[Found, list[str]]:
    with snapshot.taken(url, without) as working_tree:
        resolved, notes = _bring(
            origin, working_tree.commit, destination, submodules, working_tree.repository
        )
        if working_tree.changed:
            changes = destination.with_name(f"{destination.name}.diff")
            if write_changes(urls.path(origin.source), working_tree.head, changes):
                journal.log_artifact(changes)
            _keep(destination, resolved.commit)
            say(f"{origin.source} is checked out {working_tree.in_words}")
    journal.log_tags({"git.dirty": str(bool(working_tree.changed)).lower()})
    return resolved, [*filter(None, [working_tree.in_words]), *notes]


def _keep(destination: Path, commit: str) -> None:
    """Records a commit that is on no server."""
    file = destination.with_name(bundle.FILE)
    if bundle.pack(destination, commit, file):
        journal.log_artifact(file)
        journal.log_tags({bundle.TAG: bundle.FILE})
    else:
        say("warning: the code is too large to be recorded, so the run cannot be reproduced")


def _inside(directory: str, destination: Path) -> Path:
    path = destination / directory
    if not path.is_dir() or not path.resolve().is_relative_to(destination.resolve()):
        raise InputError(f"code_directory {directory!r} is not a directory in the repository")
    return path


def _record(source: str, resolved: Found, notes: list[str]) -> None:
    tags = {"git.commit": resolved.commit, "git.url": source}
    if resolved.branch:
        tags["git.branch"] = resolved.branch
    for note in notes:
        if note.startswith("without"):
            say(f"warning: {source} is checked out {note}")
    journal.log_tags(tags)
    origin = "the folder that was sent, as" if urls.bundle(source) else f"{source} at"
    journal.summarize(", ".join([f"{origin} {resolved.commit[:12]}", *notes]))


def _without_changes(source: str, resolved: Found, destination: Path) -> list[str]:
    """Records what a working tree has besides the commit that was wanted of it."""
    if not urls.is_local(source):
        return []
    changes = destination.with_name(f"{destination.name}.diff")
    dirty = write_changes(urls.path(source), resolved.commit, changes)
    if dirty is not None:
        journal.log_tags({"git.dirty": str(dirty).lower()})
    if dirty:
        journal.log_artifact(changes)
    return ["without its uncommitted changes"] if dirty else []


def _unwritable(destination: Path, error: OSError) -> TriremeError:
    return TriremeError(f"{destination} cannot be written: {error.strerror or error}")


def write_changes(directory: Path, commit: str, file: Path) -> bool | None:
    """Writes how the tracked files of a working tree differ from the commit that it is at.

    Returns:
        Whether there is one; None where it is at another commit, or has no files.
    """
    file.unlink(missing_ok=True)
    if shadow.git_dir(directory) is None:
        return None
    with shadow.of(directory) as environment:
        if git("rev-parse", "HEAD", at=directory, environment=environment).stdout.strip() != commit:
            return None
        # git itself writes to the file: there may be more of it than fits into memory.
        output = f"--output={file.absolute()}"
        command = ("diff", *_DIFF, output, commit)
        if git(*command, at=directory, environment=environment).returncode != 0:
            return None
    if not file.stat().st_size:
        file.unlink()
        return False
    if file.stat().st_size > LIMIT:
        os.truncate(file, LIMIT)
        with file.open("ab") as stream:
            stream.write(b"\n[cut here: there is more]\n")
    return True
