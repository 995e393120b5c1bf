"""The revision of a repository that is wanted: a branch, a tag or a commit."""

import re

from trireme.errors import InputError

_ACCEPTED = re.compile(r"[^\s~^:?*\[\\\x00-\x1f\x7f]*")  # what git allows in a name
_COMMIT = re.compile(r"[0-9a-fA-F]{40}")
_SHORT_COMMIT = re.compile(r"[0-9a-fA-F]{4,39}")


def check(revision: str) -> None:
    """Refuses what cannot be a revision, or what git would take for an option."""
    if revision.startswith("-") or not _ACCEPTED.fullmatch(revision):
        raise InputError(f"code_revision {revision!r} is not a branch, a tag or a commit")


def is_commit(revision: str) -> bool:
    """Whether this is a full commit id."""
    return bool(_COMMIT.fullmatch(revision))


def may_be_short_commit(revision: str) -> bool:
    """Whether this can be the beginning of a commit id, besides a branch or a tag."""
    return bool(_SHORT_COMMIT.fullmatch(revision))


def names(revision: str) -> list[str]:
    """Returns what a revision, or HEAD, can be called on the server, in order of precedence."""
    if is_commit(revision):
        return [revision.lower()]
    if revision in ("", "HEAD"):
        return ["HEAD"]
    if revision.startswith("refs/"):
        return [revision]
    return [f"refs/heads/{revision}", f"refs/tags/{revision}"]


def branch(name: str) -> str:
    """Returns which branch one of these names is; empty for a tag or a commit."""
    return name.removeprefix("refs/heads/") if name.startswith("refs/heads/") else ""
