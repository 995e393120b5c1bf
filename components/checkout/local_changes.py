"""What of a local working tree a run does not have: changes that are not committed."""

import os
from pathlib import Path

from trireme.components.checkout.command import git

LIMIT = 1 << 20  # bytes of a difference that are kept

_DIFF = (
    "diff",
    "--no-color",
    "--no-ext-diff",
    "--no-textconv",
    # A look into submodules would be one with their configuration.
    "--ignore-submodules=dirty",
)


def write_changes(directory: Path, commit: str, file: Path) -> bool | None:
    """Writes how the tracked files of a working tree differ from the commit that it is at.

    Nothing that the repository's configuration names is run.

    Returns:
        Whether there is one; None where it is at another commit, has no files or is not ours.
    """
    file.unlink(missing_ok=True)
    options = ["-c", "safe.directory="]
    if git(*options, "rev-parse", "HEAD", at=directory).stdout.strip() != commit:
        return None
    options += _without_filters(options, directory)
    # git itself writes to the file: there may be more of it than fits into memory.
    output = f"--output={file.absolute()}"
    if git(*options, *_DIFF, output, commit, at=directory).returncode != 0:
        return None
    if not file.stat().st_size:
        file.unlink()
        return False
    if file.stat().st_size > LIMIT:
        os.truncate(file, LIMIT)
        with file.open("ab") as stream:
            stream.write(b"\n[cut here: there is more]\n")
    return True


def _without_filters(options: list[str], directory: Path) -> list[str]:
    """Returns options that turn off the filters that the repository itself configures."""
    command = ("config", "--show-scope", "--name-only", "--get-regexp", r"^filter\.")
    scoped = git(*options, *command, at=directory).stdout.splitlines()
    names = {name for scope, _, name in map(_split, scoped) if scope in ("local", "worktree")}
    drivers = {name.rpartition(".")[0] for name in names}
    settings = ("clean=", "smudge=", "process=", "required=false")
    return [f for driver in sorted(drivers) for s in settings for f in ("-c", f"{driver}.{s}")]


def _split(line: str) -> tuple[str, str, str]:
    return line.partition("\t")
