"""A working tree as one commit: with what is not committed, and without what .gitignore names.

Its repository is only read: its index, branches, objects and files stay as they are.
"""

import os
import re
import tempfile
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path, PurePosixPath
from typing import NamedTuple

from trireme.code import data_link, shadow
from trireme.code import url as urls
from trireme.code.command import git, must
from trireme.code.tree import NO_LFS, check_targets
from trireme.data.progress import in_words
from trireme.errors import InputError
from trireme.files.home import in_a_pod

LIMIT = 100 << 20  # bytes of files that are not committed
MOST = 10_000  # files of a folder that is no repository; a home has more

GENERATED = b'<meta name="generator" content="Trireme">'
PAGE_HEAD = 1 << 10  # bytes of a page that tell what it is

SUBJECT = "Uncommitted changes"
"""What the commit says that holds them."""

_ENVIRONMENT = "pyvenv.cfg"
"""The file that tells that a folder is a virtual environment."""

_NOTHING = "4b825dc642cb6eb9a060e54bf8d69288fbee4904"
"""What git calls a tree without files."""

_IDENTITY = {
    f"GIT_{role}_{field}": value
    for role in ("AUTHOR", "COMMITTER")
    # The same content on the same commit has the same id.
    for field, value in (("NAME", "trireme"), ("EMAIL", "trireme@localhost"), ("DATE", "@0 +0000"))
}
_SECRET = re.compile(
    r"(.*/)?("
    r"[^/]*\.env(\.[^/]+)?|\.envrc|\.npmrc|[._]netrc|\.pypirc|\.pgpass|\.git-credentials|\.dockercfg"
    r"|\.(aws|gnupg|kube|ssh)/.+|\.docker/config\.json|kubeconfig|id_(rsa|dsa|ecdsa|ed25519)(_sk)?"
    r"|(application_default_)?credentials|([^/]*credentials|secrets)\.(csv|ini|json|toml|ya?ml)"
    r"|[^/]*(client[-_]?secret|service[-_]?account)[^/]*\.json"
    r"|[^/]+\.(pem|key|p8|p12|pfx|jks|keystore|kdbx|ppk)"
    r")",
    re.IGNORECASE,
)


class Snapshot(NamedTuple):
    """A working tree in a repository of its own, which lacks what the other has.

    Attributes:
        repository: A bare repository, its HEAD the commit.
        head: The commit that was checked out; empty where there is none yet.
        changed: How many files are not as in that commit.
        left_out: Those that are left out although .gitignore does not name them.
        nested: Repositories in the working tree that are no submodules of it, left out as well.
    """

    repository: Path
    commit: str
    head: str
    changed: int
    left_out: list[str]
    nested: list[str]

    @property
    def in_words(self) -> str:
        """What is in it besides the commit that was checked out, and what is missing."""
        files = "1 uncommitted file" if self.changed == 1 else f"{self.changed} uncommitted files"
        missing = self.left_out if self.changed else []
        without = ", ".join([*missing, *(f"the repository {name}" for name in self.nested)])
        parts = [f"with {files}" if self.changed else "", f"without {without}" if without else ""]
        return ", ".join(filter(None, parts))


class _Changes(NamedTuple):
    changed: list[str]
    untracked: list[str]
    left_out: list[str]
    nested: list[str]


def is_meant(url: str, revision: str) -> bool:
    """Whether a working tree or a plain folder is meant as it is, and no commit of it."""
    if revision or in_a_pod() or not urls.is_directory(url):
        return False
    directory = urls.directory(url)
    return (directory / ".git").exists() or shadow.is_plain(directory)


def check_top(url: str) -> None:
    """Refuses a folder of a working tree that is not its top."""
    directory = urls.directory(url)
    top = shadow.top(directory)
    if top and top != directory:
        raise InputError(
            f"code_url {url!r}: is a folder of the repository {top}; give code_url={top} and "
            f"code_directory={directory.relative_to(top)}"
        )


def check(url: str, without: Sequence[str] = ()) -> None:
    """Refuses a working tree with links out of it, or more uncommitted than anybody would copy.

    Args:
        without: Paths of it that are no code.
    """
    directory = urls.directory(url)
    if shadow.is_plain(directory):
        _check_number(directory, without)
    with shadow.of(directory) as environment:
        changes = _changes(directory, environment, without)
        links = _committed_links(directory, environment, without)
    check_targets(_targets(directory, {*links, *changes.changed, *changes.untracked}))
    sizes = {name: _size(directory / name) for name in (*changes.changed, *changes.untracked)}
    if sum(sizes.values()) > LIMIT:
        (largest,) = _shown([max(sizes, key=lambda name: sizes[name])])
        raise InputError(
            f"code_url {url!r}: what is not committed there has {in_words(sum(sizes.values()))} "
            f"(the largest file is {largest}), and {in_words(LIMIT)} is the most; name data in "
            ".gitignore or code_without, or give code_revision=HEAD for the last commit alone"
        )


def _check_number(directory: Path, without: Sequence[str]) -> None:
    """Refuses a folder with more files than anybody's code has."""
    ignored, left_out = directory / ".gitignore", {*shadow.NO_CODE}
    if ignored.is_file() and ignored.stat().st_size < MOST:  # in full it is git's to read
        left_out |= {
            line.strip().strip("/") for line in ignored.read_text("utf-8", "replace").splitlines()
        }
    apart, number = {directory / path for path in without}, Counter[str]()
    for folder, folders, files in os.walk(directory):
        above = Path(folder)
        if above != directory and _ENVIRONMENT in files:
            folders.clear()
            continue
        folders[:] = [
            name for name in folders if name not in left_out and above / name not in apart
        ]
        number[next(iter(above.relative_to(directory).parts), "")] += len(files)
        if number.total() > MOST:
            (most, _), *_ = number.most_common(1)
            advice = f" or code_without, as {most}" if most else " or code_without"
            raise InputError(
                f"code_url {str(directory)!r} is not a git repository and has more than {MOST:,} "
                f"files; give a folder with the code alone, or name data in .gitignore{advice}"
            )


def is_left_out(url: str, path: str) -> bool:
    """Whether a file of a working tree is not committed, and .gitignore names it."""
    return _has_others(url, path, "--ignored", "--exclude-standard")


def is_committed(url: str, path: str) -> bool:
    """Whether git has all that is at a path of a working tree."""
    return not _has_others(url, path)


def _has_others(url: str, path: str, *options: str) -> bool:
    directory = urls.directory(url)
    with shadow.of(directory) as environment:
        named = ("ls-files", "-z", "--others", *options, "--", f":(literal){path}")
        return bool(git(*named, at=directory, environment=environment).stdout)


@contextmanager
def taken(url: str, without: Sequence[str] = ()) -> Iterator[Snapshot]:
    """Gives a working tree as it is now, for as long as this is entered.

    Args:
        without: Paths of it that are no code.
    """
    check(url, without)
    with tempfile.TemporaryDirectory(prefix="trireme-code-") as folder:
        yield _take(urls.directory(url), Path(folder, "git"), without)


def _take(directory: Path, into: Path, without: Sequence[str]) -> Snapshot:
    environment = shadow.make(directory, into)

    def run(action: str, *arguments: str, stdin: str = "") -> str:
        # A file of LFS is taken as it is: what LFS would make of it stays in that repository.
        command = (*NO_LFS, *arguments)
        result = git(*command, at=directory, environment=environment | _IDENTITY, stdin=stdin)
        return must(action, result).rstrip("\n")

    changes = _changes(directory, environment, without)
    # git add would look into submodules, with their configuration.
    compare = ("diff-files", "--ignore-submodules=dirty", "-z", "--name-only")
    gone = run("find what is gone", *compare, "--diff-filter=D")
    run("take what is gone", "update-index", "--force-remove", "-z", "--stdin", stdin=gone)
    differing = run("find the changes", *compare, "--diff-filter=d").split("\0")
    # Not those that are as LFS would have them: whatever was touched would be taken as a change.
    to_add = [*({*differing} & {*changes.changed}), *changes.untracked]
    additions = "".join(f"{name}\0" for name in to_add)
    run("take the changes", "update-index", "--add", "--remove", "-z", "--stdin", stdin=additions)
    if without:
        listed = run("list them", "ls-files", "-z", "--", *_at(without)).split("\0")[:-1]
        apart = [name for name in listed if PurePosixPath(name).name not in data_link.KEEPERS]
        removals = "".join(f"{name}\0" for name in apart)
        run("leave them out", "update-index", "--force-remove", "-z", "--stdin", stdin=removals)
    result = git("rev-parse", "--verify", "HEAD", at=directory, environment=environment)
    head = result.stdout.strip()
    tree = run("write the tree", "write-tree")
    commit, changed = head, 0
    if not head or tree != run("read HEAD", "rev-parse", "HEAD^{tree}"):
        parents = ("-p", head) if head else ()
        commit = run("make a commit", "commit-tree", tree, *parents, "-m", SUBJECT)
        names = run("compare", "diff-tree", "-r", "-z", "--name-only", head or _NOTHING, commit)
        changed = names.count("\0")
    if not (head or changed):
        raise InputError(f"code_url {str(directory)!r}: has neither commits nor files")
    (into / "HEAD").write_text(f"{commit}\n")
    return Snapshot(into, commit, head, changed, *map(_shown, (changes.left_out, changes.nested)))


def _at(paths: Sequence[str], magic: str = "literal") -> list[str]:
    """Returns what git takes for paths, as they are written."""
    return [f":({magic}){PurePosixPath(path)}" for path in paths]


def _but(without: Sequence[str]) -> list[str]:
    """Returns arguments with which git lists all but some paths."""
    return ["--", ".", *_at(without, "exclude,literal")] if without else []


def _changes(directory: Path, environment: dict[str, str], without: Sequence[str] = ()) -> _Changes:
    def listed(*options: str) -> list[str]:
        command = ("ls-files", "-z", *options, "--exclude-standard", *_but(without))
        result = git(*command, at=directory, environment=environment)
        return sorted(set(must("list what is not committed", result).split("\0")[:-1]))

    # A repository in the working tree that is no submodule of it ends with a slash.
    others = listed("--others")
    nested = [name for name in others if name.endswith("/")]
    files = [name for name in others if not name.endswith("/")]
    homes = {PurePosixPath(name).parent for name in files if name.endswith(f"/{_ENVIRONMENT}")}
    untracked = [name for name in files if homes.isdisjoint(PurePosixPath(name).parents)]
    secret = [name for name in untracked if _SECRET.fullmatch(name)]
    added = [name for name in untracked if name not in secret and not _is_page(directory / name)]
    return _Changes(listed("--modified"), added, secret, nested)


def _committed_links(
    directory: Path, environment: dict[str, str], without: Sequence[str]
) -> list[str]:
    """Returns the links that git has of a working tree."""
    command = ("ls-files", "-z", "--stage", *_but(without))
    result = git(*command, at=directory, environment=environment)
    lines = must("list the links", result).split("\0")[:-1]
    return [line.partition("\t")[2] for line in lines if line.startswith("120000 ")]


def _targets(directory: Path, names: set[str]) -> dict[str, str]:
    """Returns what those names are links to that are links, and are not behind one."""
    links = {name for name in names if (directory / name).is_symlink()}
    return {
        name: str((directory / name).readlink())
        for name in sorted(links)
        if not any((directory / above).is_symlink() for above in PurePosixPath(name).parents)
    }


def _is_page(file: Path) -> bool:
    """Whether this is a page that ``trireme report`` has left there, which is no change of code."""
    if file.suffix != ".html" or not file.is_file():
        return False
    with file.open("rb") as page:
        return GENERATED in page.read(PAGE_HEAD)


def _shown(names: list[str]) -> list[str]:
    """Returns names as text, also those that are none in UTF-8."""
    return [os.fsencode(name).decode(errors="backslashreplace") for name in names]


def _size(file: Path) -> int:
    return file.lstat().st_size if os.path.lexists(file) and not file.is_dir() else 0
