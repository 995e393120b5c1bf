"""The reference trainers that this package carries: the code of a run that names no repository."""

import hashlib
import importlib.metadata
import shutil
from importlib import import_module
from pathlib import Path, PurePosixPath

from trireme.credentials.secrets import DEFAULTS
from trireme.errors import InputError
from trireme.files.workspace import written_whole
from trireme.process.extras import DISTRIBUTION

URL = "builtin://trainers"
"""What is recorded as the place where the code is from."""

TRAINERS = Path(next(iter(import_module("trireme.trainers").__path__)))
PLACE = PurePosixPath("trainers")
"""Where they are in CODE_DIR, as in Trireme's own repository."""


def check(revision: str, directory: str, secret: str) -> None:
    """Refuses what only a repository has."""
    of_a_repository = {
        "code_revision": revision,
        "code_directory": directory,
        "code_secret": "" if secret == DEFAULTS["code"] else secret,
    }
    for name, value in of_a_repository.items():
        if value:
            raise InputError(
                f"{name} {value!r} is given without code_url; give its repository as code_url"
            )


def check_program(field: str, program: str) -> None:
    """Refuses a program that is none of them, before a run starts."""
    if program and program not in _files(TRAINERS):
        raise InputError(
            f"{field} {program!r} is not one of Trireme's trainers, which are in {PLACE}; give "
            "its repository as code_url"
        )


def copy_trainers(destination: Path) -> str:
    """Makes a directory the code of a run; returns the id of its contents."""
    expected = commit()
    if _commit(destination / PLACE) != expected:
        with written_whole(destination) as partial:
            for name, file in _files(TRAINERS).items():
                (partial / name).parent.mkdir(parents=True, exist_ok=True)
                shutil.copyfile(file, partial / name)
    return expected


def commit() -> str:
    """Returns the id of the trainers' contents, which is recorded as the commit."""
    return _commit(TRAINERS)


def version() -> str:
    """Returns the release of Trireme that they are of."""
    try:
        return importlib.metadata.version(DISTRIBUTION)
    except importlib.metadata.PackageNotFoundError:
        return "not installed"


def _commit(folder: Path) -> str:
    hashed = hashlib.sha256()
    for name, file in _files(folder).items():
        hashed.update(f"{name} {hashlib.sha256(file.read_bytes()).hexdigest()}\n".encode())
    return f"sha256:{hashed.hexdigest()}"


def _is_compiled(file: Path) -> bool:
    # Python writes them under other names first.
    return file.suffix == ".pyc" or file.parent.name == "__pycache__"


def _files(folder: Path) -> dict[str, Path]:
    """Returns the files by their paths in CODE_DIR, in order."""
    files = (file for file in folder.rglob("*") if file.is_file() and not _is_compiled(file))
    return dict(sorted((str(PLACE / file.relative_to(folder)), file) for file in files))
