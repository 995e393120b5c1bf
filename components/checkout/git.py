"""Check out a git repository at an exact commit."""

import os
import re
import subprocess
from pathlib import Path
from typing import NamedTuple
from urllib.parse import unquote, urlsplit

from components.errors import InputError
from components.tracking import journal
from components.workspace import written_whole

SOURCE_TREE = Path(__file__).resolve().parents[2]
"""Trireme's own source tree, the default repository of a run."""

NETWORK_TIMEOUT = 300  # seconds that one git command may take

_URL = re.compile(r"(https?|ssh|git|file)://[^\s]+|[\w.-]+@[\w.-]+:[^\s]+")
_CREDENTIALS = re.compile(
    r"https?://[^/@\s]+@|\w+://[^/@\s]*:[^/@\s]*@|[^/@\s]+:[^/@\s]+@", re.IGNORECASE
)
_COMMIT = re.compile(r"[0-9a-f]{40}")
_REVISION = re.compile(r"[^\s~^:?*\[\\\x00-\x1f\x7f]*")  # what git allows in a name


class Checkout(NamedTuple):
    """A repository in the workspace.

    Attributes:
        path: The directory that holds the working tree.
        commit: The full id of the commit checked out.
    """

    path: str
    commit: str


def check(url: str, revision: str) -> None:
    """Refuses a URL or revision that could not work or that git would take for an option.

    Args:
        url: As for ``checkout``.
        revision: As for ``checkout``.

    Raises:
        InputError: One sentence that says what is wrong.
    """
    if _CREDENTIALS.match(url):
        raise InputError(
            "code_url holds a password or token, which would end up in logs and records; "
            "give the URL without it and let git's credential helper or an SSH key supply it"
        )
    if url and not _URL.fullmatch(url) and not _is_directory(url):
        raise InputError(
            f"code_url {url!r} is neither a directory here nor an https, ssh, git or file URL"
        )
    if revision.startswith("-") or not _REVISION.fullmatch(revision):
        raise InputError(f"code_revision {revision!r} is not a branch, a tag or a commit")


def checkout(url: str, revision: str, destination: Path) -> Checkout:
    """Brings a repository's working tree at a revision to a directory.

    Only the wanted commit is fetched where the server allows it. The directory appears whole
    or not at all, and is left as it is when it holds the wanted commit already.

    Args:
        url: An https, ssh, git or file URL, or a local directory. Empty: Trireme's own
            repository, which the default trainers are in.
        revision: A branch, a tag, or a full or short commit id. Empty: the remote's ``HEAD``.
        destination: The directory to make.

    Returns:
        Where the working tree is, and its commit.

    Raises:
        InputError: The repository cannot be reached or has no such revision.
    """
    check(url, revision)
    source = _source(url)
    journal.log_params({"code_url": source, "code_revision": revision or "HEAD"})
    wanted = _resolve(source, revision)
    if not (wanted and wanted == _commit_at(destination)):
        _fetch(source, wanted, revision, destination)
    commit = _commit_at(destination)
    journal.log_tags({"git.commit": commit, "git.url": source})
    note = ", without what is not committed there" if _has_changes(source) else ""
    journal.summarize(f"{source} at {commit[:12]}{note}")
    return Checkout(str(destination), commit)


def _is_directory(path: str) -> bool:
    try:
        return Path(path).expanduser().is_dir()
    except (OSError, ValueError, RuntimeError):  # too long, not a path, no such user
        return False


def _source(url: str) -> str:
    if not url:
        if not (SOURCE_TREE / ".git").exists():
            raise InputError(
                f"code_url is empty, which means Trireme's own repository, but {SOURCE_TREE} "
                "is not a git checkout; give the URL of the repository to train from"
            )
        return SOURCE_TREE.as_uri()
    if _URL.fullmatch(url):
        return url
    return Path(url).expanduser().resolve().as_uri()


def _resolve(source: str, revision: str) -> str:
    """Returns the full commit id that the remote gives the revision, or "" if it must be searched.

    Raises:
        InputError: The repository cannot be reached.
    """
    result = _git("ls-remote", *_trusting(source), source)
    if result.returncode != 0:
        raise InputError(f"code_url {source!r} cannot be read: {_reason(result)}")
    commits = {name: commit for commit, name in map(str.split, result.stdout.splitlines())}
    if _COMMIT.fullmatch(revision):
        return revision
    names = ["HEAD"]
    if revision:
        branch, tag = f"refs/heads/{revision}", f"refs/tags/{revision}"
        names = [branch, f"{tag}^{{}}", tag, revision]
    return next((commits[name] for name in names if name in commits), "")


def _fetch(source: str, commit: str, revision: str, destination: Path) -> None:
    with written_whole(destination) as partial:
        _must("make a repository", _git("init", "--quiet", at=partial))
        fetch = ("fetch", "--quiet", *_trusting(source))
        if not commit or _git(*fetch, "--depth=1", source, commit, at=partial).returncode != 0:
            # A short commit id, or a server that hands out only the tips of branches.
            everything = ("+refs/heads/*:refs/remotes/origin/*", "+refs/tags/*:refs/tags/*")
            _must(f"fetch {source}", _git(*fetch, source, *everything, at=partial))
        target = commit or revision or "HEAD"
        found = _git("rev-parse", "--verify", "--quiet", f"{target}^{{commit}}", at=partial)
        if found.returncode != 0:
            raise InputError(f"code_revision {revision!r} does not exist in {source}")
        _must(
            f"check out {target}",
            _git("checkout", "--quiet", "--detach", found.stdout.strip(), at=partial),
        )


def _has_changes(source: str) -> bool:
    """Whether a directory that was checked out from holds changes that are not committed."""
    if not source.startswith("file://"):
        return False
    directory = Path(unquote(urlsplit(source).path))
    status = ("-c", "core.fsmonitor=false", "status", "--porcelain", "--untracked-files=no")
    return bool(_git(*status, at=directory).stdout.strip())


def _trusting(source: str) -> list[str]:
    """Returns options that let git read Trireme's own tree whoever owns it.

    Git refuses other people's directories; this one we are running code from already.
    """
    if source != SOURCE_TREE.as_uri():
        return []
    return ["--upload-pack=git -c safe.directory=* upload-pack"]


def _commit_at(directory: Path) -> str:
    if not (directory / ".git").exists():
        return ""
    return _git("rev-parse", "HEAD", at=directory).stdout.strip()


def _git(*arguments: str, at: Path | None = None) -> subprocess.CompletedProcess[str]:
    """Runs git with nothing of the fetched repository executed and nobody asked for a password."""
    command = ["git", "-c", "core.hooksPath=/dev/null", "-c", "protocol.ext.allow=never"]
    if at:
        command += ["-C", str(at)]
    environment = os.environ | {
        "GIT_TERMINAL_PROMPT": "0",
        "GIT_SSH_COMMAND": os.environ.get("GIT_SSH_COMMAND", "ssh -o BatchMode=yes"),
        "LC_ALL": "C",
    }
    # A repository named by the caller's environment must not stand in for the one asked for.
    for name in ("GIT_DIR", "GIT_WORK_TREE", "GIT_INDEX_FILE"):
        environment.pop(name, None)
    try:
        return subprocess.run(
            [*command, *arguments],
            env=environment,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=NETWORK_TIMEOUT,
        )
    except FileNotFoundError:
        raise InputError("git is not installed; install it and run again") from None
    except subprocess.TimeoutExpired:
        raise InputError(f"git {arguments[0]} did not finish within {NETWORK_TIMEOUT} s") from None


def _must(action: str, result: subprocess.CompletedProcess[str]) -> None:
    if result.returncode != 0:
        raise InputError(f"git could not {action}: {_reason(result)}")


def _reason(result: subprocess.CompletedProcess[str]) -> str:
    lines = [line for line in result.stderr.splitlines() if line.strip()]
    telling = [line for line in lines if line.startswith(("fatal:", "error:", "ssh:"))]
    return (telling or lines or ["git said nothing"])[0]
