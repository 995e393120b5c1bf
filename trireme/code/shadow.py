"""A repository of ours that stands for one on this machine, whose configuration is never read.

git runs what a repository's own configuration names: filters, transports of promisor remotes,
monitors of the file system, hooks. So git is never let near it: it gets a repository with our
configuration, a link to the other's objects, and copies of its branches and its index. What git
would wait for or read without end, such as a FIFO in place of a branch, is refused.
"""

import os
import re
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from trireme.code import url as urls
from trireme.code.command import git, must
from trireme.errors import InputError
from trireme.files.home import in_a_pod

_HARMLESS = (
    *("core.autocrlf", "core.eol", "core.filemode", "core.ignorecase", "core.precomposeunicode"),
    *("core.safecrlf", "core.symlinks", "extensions.refstorage"),
)
"""Settings that say how files and objects are kept, and name nothing that is run."""

_READ_BY_GIT = (".gitattributes", ".gitignore", ".gitmodules", ".lfsconfig")
_OF_OBJECTS = re.compile(r"[0-9a-f]{2}|pack|info")

_LINE = 10_000  # bytes of a file that is one line, as a branch is
_LARGEST = 1 << 30  # bytes of other files; monorepos have an index of some hundred million
_MOST = 100_000  # branches and tags that are not packed

NO_CODE = (
    *(".venv", "venv", "__pycache__", ".ipynb_checkpoints", "node_modules", "mlruns", "wandb"),
)
"""Folders that nobody means as code, whether .gitignore names them or not."""


def git_dir(directory: Path) -> Path | None:
    """Returns the repository of a directory: its ``.git``, or itself; None where it is none."""
    try:
        for candidate in (_dot_git(directory), directory):
            if (candidate / "HEAD").is_file() and (_common(candidate) / "objects").is_dir():
                return candidate
    except OSError:  # a path that is too long, or nobody else's business
        pass
    return None


def _dot_git(directory: Path) -> Path:
    """Returns the ``.git`` of a directory, or what it names if it is a file."""
    dot = directory / ".git"
    if dot.is_file() and (line := _line(dot)).startswith("gitdir: "):
        return directory / line.removeprefix("gitdir: ")
    return dot


def top(directory: Path) -> Path | None:
    """Returns the top of the working tree that a directory is in; None where it is in none."""
    return next(
        (folder for folder in (directory, *directory.parents) if (folder / ".git").exists()), None
    )


def is_plain(directory: Path) -> bool:
    """Tells whether this is a folder of this machine in no repository: all its files are meant."""
    is_folder = directory.is_dir() and not in_a_pod()
    return is_folder and top(directory) is None and git_dir(directory) is None


def make(directory: Path, into: Path) -> dict[str, str]:
    """Makes the repository that stands for that of a directory.

    Returns:
        Variables with which git takes it for the directory's own.

    Raises:
        InputError: There is none, or a file that git would read is none.
    """
    try:
        return _make(directory, into)
    except (OSError, ValueError) as error:  # such as a path that cannot be one
        raise InputError(f"code_url {str(directory)!r} cannot be read: {error}") from None


def _make(directory: Path, into: Path) -> dict[str, str]:
    real = git_dir(directory)
    if real is None:
        if not is_plain(directory):
            raise _none(str(directory), directory)
        return _make_empty(directory, into)
    common = _common(real)
    _check_objects(common / "objects")
    for folder in ("objects/info", "info", "refs"):
        (into / folder).mkdir(parents=True)
    # By a link, whose name is ours: in a list of paths theirs could stand for another.
    (into / "theirs").symlink_to((common / "objects").resolve())
    (into / "objects/info/alternates").write_text("../theirs\n")
    for name, largest in (("refs", _LINE), ("reftable", _LARGEST)):
        for file in _few(common / name):
            _copy(file, into / name / file.relative_to((common / name).resolve()), largest)
    shared = [file.relative_to(real) for file in real.glob("sharedindex.*")]
    for name in ("HEAD", "index", *map(str, shared)):
        _copy(real / name, into / name)
    for name in ("packed-refs", "shallow", "info/exclude", "info/attributes"):
        _copy(common / name, into / name)
    _leave_out(into)
    _configure(common / "config", into / "config")
    if real == directory:
        return {"GIT_DIR": str(into)}
    _check_tree(directory)
    environment = {"GIT_DIR": str(into), "GIT_WORK_TREE": str(directory)}
    _unmark(directory, environment)
    return environment


def _make_empty(directory: Path, into: Path) -> dict[str, str]:
    """Makes a repository without commits for a folder that has none."""
    _check_tree(directory)
    into.parent.mkdir(parents=True, exist_ok=True)
    result = git("init", "--quiet", "--bare", "--template=", str(into), at=into.parent)
    must("make a repository", result)
    (into / "info").mkdir()
    _leave_out(into)
    return {"GIT_DIR": str(into), "GIT_WORK_TREE": str(directory)}


def _leave_out(into: Path) -> None:
    """Has git leave out what is no code, unless it knows it or a .gitignore says otherwise."""
    with (into / "info/exclude").open("a") as file:
        file.write("".join(f"\n{name}/" for name in NO_CODE) + "\n")


def _unmark(directory: Path, environment: dict[str, str]) -> None:
    """Has git look at files that the index tells it not to look at."""
    command = ("ls-files", "-z", "-v")
    listed = must("list the files", git(*command, at=directory, environment=environment))
    # Small letters are of files that are assumed to be unchanged, S of those to be skipped.
    entries = [(entry[0], entry[2:]) for entry in listed.split("\0")[:-1]]
    marks = {
        "--no-assume-unchanged": [name for mark, name in entries if mark in "hs"],
        # One that is not there has been left out of a sparse checkout, not deleted.
        "--no-skip-worktree": [
            name for mark, name in entries if mark in "Ss" and os.path.lexists(directory / name)
        ],
    }
    for option, names in marks.items():
        if names:
            listing = "".join(f"{name}\0" for name in names)
            update = ("update-index", option, "-z", "--stdin")
            unmarked = git(*update, at=directory, environment=environment, stdin=listing)
            must("look at all files", unmarked)


@contextmanager
def of(directory: Path) -> Iterator[dict[str, str]]:
    """Gives the variables of ``make`` for as long as this is entered."""
    with tempfile.TemporaryDirectory(prefix="trireme-code-") as folder:
        yield make(directory, Path(folder, "git"))


@contextmanager
def standing_for(source: str) -> Iterator[str]:
    """Gives the URL to fetch from, for as long as this is entered: a server's is itself."""
    if not urls.is_local(source):
        yield source
        return
    directory = urls.path(source)
    repository = git_dir(directory) or git_dir(Path(f"{directory}.git"))  # as git looks for it
    if repository is None and not is_plain(directory):
        raise _none(source, directory)
    with tempfile.TemporaryDirectory(prefix="trireme-code-") as folder:
        into = Path(folder, "git")
        make(repository or directory, into)
        yield into.as_uri()


def _none(source: str, directory: Path) -> InputError:
    folder = directory.resolve()
    if repository := next((above for above in folder.parents if git_dir(above)), None):
        return InputError(
            f"code_url {source!r} is a folder of the git repository {repository}; give "
            f"code_url={repository} and code_directory={folder.relative_to(repository)}"
        )
    return InputError(f"code_url {source!r} is not a git repository")


def _line(file: Path) -> str:
    with file.open("rb") as stream:
        return os.fsdecode(stream.read(_LINE)).rstrip("\r\n")


def _common(repository: Path) -> Path:
    """Returns what a working tree shares with others of its repository."""
    shared = repository / "commondir"
    return repository / _line(shared) if shared.is_file() else repository


def _copy(file: Path, to: Path, largest: int = _LARGEST) -> None:
    _check(file, largest)
    if file.is_file():
        to.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(file, to)
        # An index that seems to be newer than it is has git take a file for unchanged that has been
        # changed in the same second.
        info = file.stat()
        os.utime(to, ns=(info.st_atime_ns, info.st_mtime_ns))


def _configure(real: Path, config: Path) -> None:
    config.write_text("[core]\n\trepositoryformatversion = 0\n\tbare = false\n")
    if not real.is_file():
        return
    listed = git("config", "--file", str(real), "--null", "--list", at=config.parent).stdout
    for entry in listed.split("\0"):
        key, _, value = entry.partition("\n")
        if (key, value) == ("extensions.objectformat", "sha256"):
            raise InputError(
                f"code_url: the repository {real.parent} names its commits by SHA-256; only those "
                "that do so by SHA-1, as git does by itself, are read"
            )
        if key in _HARMLESS:
            must(
                "keep a setting", git("config", "--file", str(config), key, value, at=config.parent)
            )
            if key.startswith("extensions."):
                version = ("core.repositoryformatversion", "1")
                must("keep it", git("config", "--file", str(config), *version, at=config.parent))


def _check(file: Path, largest: int | None = None) -> None:
    """Refuses what git would wait for, or read without end."""
    if not file.exists() or file.is_dir():
        return
    if not file.is_file():
        raise InputError(f"code_url: {str(file)!r} is not a file")
    if largest and file.stat().st_size > largest:
        raise InputError(f"code_url: {str(file)!r} is larger than git makes it")


def _items(folder: Path) -> Iterator[os.DirEntry[str]]:
    """Yields what is in a folder, at any depth, but for what is behind links and in ``.git``."""
    waiting = [str(folder)]
    while waiting:
        with suppress(OSError), os.scandir(waiting.pop()) as entries:
            for item in entries:
                if item.is_dir(follow_symlinks=False) and item.name != ".git":
                    waiting.append(item.path)
                yield item


def _few(folder: Path) -> Iterator[Path]:
    """Yields the files of a folder of branches and tags."""
    for number, item in enumerate(_items(folder.resolve())):
        if number == _MOST:
            raise InputError(
                f"code_url: {str(folder)!r} has more than {_MOST:,} files; git pack-refs makes one "
                "of them"
            )
        if not item.is_dir():
            yield Path(item.path)


def _check_objects(objects: Path) -> None:
    """Looks at a folder of objects, and at those that it names to have more."""
    waiting, seen = [objects.resolve()], set[Path]()
    while waiting:
        if (folder := waiting.pop()) in seen or not folder.is_dir():
            continue
        seen.add(folder)
        below = [item.path for item in os.scandir(folder) if _OF_OBJECTS.fullmatch(item.name)]
        for path in (*map(Path, below), folder / "info/commit-graphs"):
            for item in os.scandir(path) if path.is_dir() else ():
                if not item.is_file():  # which of most files is known without a look at them
                    _check(Path(item.path))
        alternates = folder / "info/alternates"
        _check(alternates, _LINE)
        for line in _line(alternates).splitlines() if alternates.is_file() else ():
            if line.startswith('"'):
                raise InputError(f"code_url: {str(alternates)!r} holds a path in quotes")
            if line and not line.startswith("#"):
                waiting.append((folder / line).resolve())


def _check_tree(directory: Path) -> None:
    """Looks at what git reads of a working tree, and of the repositories that are in it."""
    for item in _items(directory):
        if item.name in _READ_BY_GIT:
            _check(Path(item.path))
        if item.name == ".git" and (folder := Path(item.path).parent) != directory:
            nested = _dot_git(folder)
            common = _common(nested)
            for file in (nested / "HEAD", common / "config", common / "packed-refs"):
                _check(file, _LARGEST)
            for file in _few(common / "refs"):
                _check(file, _LINE)
