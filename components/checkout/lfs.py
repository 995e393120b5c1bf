"""Files that git-lfs keeps outside of the repository (https://git-lfs.com)."""

import shutil
from collections.abc import Iterable
from pathlib import Path

from trireme.components.checkout.command import git
from trireme.components.checkout.url import server
from trireme.components.errors import InputError

# What `git lfs install` would write for everything this user does.
_ON = (
    "filter.lfs.clean=git-lfs clean -- %f",
    "filter.lfs.smudge=git-lfs smudge -- %f",
    "filter.lfs.process=git-lfs filter-process",
    "filter.lfs.required=true",
    # It tries again for what is lost for good, too; by default for more than a minute.
    "lfs.transfer.maxretries=4",
)
_OFF = (
    "filter.lfs.clean=",
    "filter.lfs.smudge=",
    "filter.lfs.process=",
    "filter.lfs.required=false",
)


def are_used(paths: Iterable[str], commit: str, tree: Path) -> bool:
    """Whether a commit has files in LFS."""
    attributes = [path for path in paths if Path(path).name == ".gitattributes"]
    if not attributes:
        return False
    pattern = (":(glob)**/.gitattributes",)
    return not git("grep", "-q", "filter=lfs", commit, "--", *pattern, at=tree).returncode


def installed() -> bool:
    """Whether there is git-lfs."""
    return shutil.which("git-lfs") is not None


def options(wanted: bool) -> list[str]:
    """Returns options of git with which a checkout has LFS files, or the pointers to them."""
    return [part for setting in (_ON if wanted else _OFF) for part in ("-c", setting)]


def check(commit: str, tree: Path) -> None:
    """Refuses a commit that wants its LFS files from anywhere but a server."""
    command = ("config", "--blob", f"{commit}:.lfsconfig", "--get-regexp", r"url$")
    for line in git(*command, at=tree).stdout.splitlines():
        url = line.partition(" ")[2]
        if not server(url):
            raise InputError(f"code_url: .lfsconfig there has the URL {url!r}, which is no server")
