"""Bring one repository at a revision into a directory: as little of its history as it takes."""

import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

from trireme.code import credentials, shadow
from trireme.code import revision as revisions
from trireme.code.command import git, must, patiently
from trireme.code.credentials import Access
from trireme.code.failures import is_not_there, unreadable
from trireme.errors import InputError

_FETCH = ("fetch", "--quiet", "--no-tags", "--no-recurse-submodules", "--no-auto-maintenance")
_DEPTHS = (50, 500, 5000)  # commits from each branch and tag, before all of them
_EVERYTHING = ("+refs/heads/*:refs/remotes/origin/*", "+refs/tags/*:refs/tags/*")


class Found(NamedTuple):
    """The commit of a revision, and the branch that it names; empty where it is none."""

    commit: str
    branch: str


class Origin(NamedTuple):
    """Where a repository comes from."""

    source: str
    secret: str
    access: Access
    stand_in: str = ""

    @property
    def place(self) -> str:
        """What git talks to: the source, or what stands for it."""
        return self.stand_in or self.source


@contextmanager
def opened(source: str, secret: str) -> Iterator[Origin]:
    """Gives where a repository comes from, with the access that it needs."""
    with credentials.access(source, secret) as access, shadow.standing_for(source) as url:
        yield Origin(source, secret, access, url)


def commit_at(directory: Path) -> str:
    """Returns the commit that a directory has checked out; empty where it is no repository."""
    if not (directory / ".git").exists():
        return ""
    return git("rev-parse", "HEAD", at=directory).stdout.strip()


def is_from(directory: Path, source: str) -> bool:
    """Whether a repository was fetched from this URL."""
    return git("config", "remote.origin.url", at=directory).stdout.strip() == source


def tip(origin: Origin, revision: str) -> Found | None:
    """Returns what a branch, a tag or ``HEAD`` is on the server now; None for anything else."""
    names = revisions.names(revision)
    patterns = [pattern for name in names for pattern in (name, f"{name}^{{}}")]
    result = patiently("ls-remote", origin.place, *patterns, access=origin.access)
    if result.returncode != 0:
        raise unreadable(origin.source, result.stderr, origin.secret)
    commits = {name: commit for commit, name in map(str.split, result.stdout.splitlines())}
    for name in names:
        if name in commits:
            # An annotated tag is listed once more, as the commit it points at.
            commit = commits.get(f"{name}^{{}}", commits[name])
            return Found(commit, revisions.branch(name))
    return None


def check(origin: Origin, revision: str, at: Path) -> None:
    """Refuses a revision that a repository on this machine, ``at``, does not have."""
    if tip(origin, revision) or not revision:
        return
    is_id = revisions.is_commit(revision) or revisions.may_be_short_commit(revision)
    if not is_id or git("rev-parse", "--verify", f"{revision}^{{commit}}", at=at).returncode:
        raise _missing(revision, origin)


def fetch(origin: Origin, revision: str, repository: Path) -> Found:
    """Makes a repository in an empty directory that holds the commit a revision names."""
    must("make a repository", git("init", "--quiet", "--template=", str(repository)))
    must("name the origin", git("remote", "add", "origin", origin.source, at=repository))
    for name in revisions.names(revision):
        if _fetched(origin, name, repository):
            return Found(
                _commit("FETCH_HEAD", revision, origin, repository), revisions.branch(name)
            )
    commit = revision.lower()
    if revisions.may_be_short_commit(commit):
        commit = _full(origin, commit, repository)
        if _fetched(origin, commit, repository):
            return Found(commit, "")
    if not revisions.is_commit(commit):
        raise _missing(revision, origin)
    return Found(_deepen(origin, commit, repository), "")


def _fetched(origin: Origin, name: str, repository: Path) -> bool:
    """Fetches one commit; returns whether the server gives it under this name or id."""
    result = _fetch(origin, "--depth=1", name, at=repository)
    if result.returncode != 0 and not is_not_there(result.stderr):
        raise unreadable(origin.source, result.stderr, origin.secret)
    if "not our ref" in result.stderr:
        raise _missing(name, origin)
    return result.returncode == 0


def _fetch(origin: Origin, extent: str, *names: str, at: Path) -> subprocess.CompletedProcess[str]:
    result = patiently(*_FETCH, extent, origin.place, *names, at=at, access=origin.access)
    if "does not support shallow" in result.stderr:  # a plain web server with files
        return patiently(*_FETCH, origin.place, *names, at=at, access=origin.access)
    return result


def _fetch_everything(origin: Origin, extent: str, at: Path) -> None:
    """Fetches all branches and tags, as far as the extent says."""
    result = _fetch(origin, extent, *_EVERYTHING, at=at)
    if result.returncode != 0:
        raise unreadable(origin.source, result.stderr, origin.secret)


def _deepen(origin: Origin, commit: str, repository: Path) -> str:
    """Fetches more and more history until it holds a commit that the server won't give by id."""
    for depth in (*(f"--depth={depth}" for depth in _DEPTHS), "--unshallow"):
        _fetch_everything(origin, depth, repository)
        if git("cat-file", "-e", f"{commit}^{{commit}}", at=repository).returncode == 0:
            return commit
        if not (repository / ".git" / "shallow").exists():
            break
    raise _missing(commit, origin)


def _full(origin: Origin, short: str, repository: Path) -> str:
    """Returns the only commit whose id begins so; servers find none by less than all of it."""
    commits = repository / ".git" / "commits"
    must("make a repository", git("init", "--quiet", "--bare", "--template=", str(commits)))
    _fetch_everything(origin, "--filter=tree:0", commits)
    full = _commit(short, short, origin, commits)
    shutil.rmtree(commits)
    return full


def _commit(name: str, revision: str, origin: Origin, repository: Path) -> str:
    result = git("rev-parse", "--verify", f"{name}^{{commit}}", at=repository)
    if "ambiguous" in result.stderr:
        raise InputError(
            f"code_revision {revision!r}: several commits in {origin.source} begin with it; give "
            "more of the id"
        )
    if result.returncode != 0:
        raise _missing(revision, origin)
    return result.stdout.strip()


def _missing(revision: str, origin: Origin) -> InputError:
    return InputError(f"code_revision {revision or 'HEAD'!r} does not exist in {origin.source}")
