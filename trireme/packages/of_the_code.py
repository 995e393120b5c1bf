"""Requirements that name something of the repository: a file of packages, or a package."""

import re
from pathlib import PurePosixPath
from typing import NamedTuple

from packaging.utils import InvalidName, canonicalize_name

from trireme.errors import InputError

FILES = (".txt", ".in", ".toml", ".lock")
"""How files that list packages end; pyproject.toml and uv.lock are those of these kinds."""

ARCHIVES = (".whl", ".zip", ".tar.gz", ".tgz")
"""How files end that are a package."""

ACCEPTED = (
    "accepted are requirements such as 'accelerate>=1.2' and, of the repository, .txt and .in "
    "files, pyproject.toml and uv.lock, an extra or a dependency group of these "
    "(pyproject.toml[EXTRA], pyproject.toml:GROUP), and packages (.[EXTRA], ./FOLDER, ./FILE.whl)"
)

_NAMED = {".toml": "pyproject.toml", ".lock": "uv.lock"}
# Extras as of a package, and a group as pip and uv take it with --group.
_PARTS = re.compile(r"(.*?)(?:\[([^\[\]]*)\]|:([^:/\[\]]*))?", re.DOTALL)


class OfTheCode(NamedTuple):
    """What a requirement names of the repository.

    Attributes:
        path: A file that lists packages, or the folder or the archive of a package.
        extras: What is meant besides.
        group: What is meant instead; empty for none.
    """

    path: str
    extras: tuple[str, ...] = ()
    group: str = ""

    @property
    def is_package(self) -> bool:
        """Whether it is a package, and no list of some."""
        return not self.path.endswith(FILES)

    @property
    def file(self) -> str:
        """The file that says what it requires; an archive itself."""
        is_folder = not self.path.endswith((*FILES, *ARCHIVES))
        return str(PurePosixPath(self.path, "pyproject.toml" if is_folder else ""))

    @property
    def has_groups(self) -> bool:
        """Whether it is a file that may have extras and groups."""
        return PurePosixPath(self.path).name in _NAMED.values()


def named(requirement: str) -> OfTheCode | None:
    """Returns what a requirement names of the repository; None for a package of an index.

    Raises:
        InputError: It could not be there.
    """
    match = _PARTS.fullmatch(requirement)
    if not match or "://" in requirement:
        return None
    path, extras, group = match.groups()
    if not (path.endswith((*FILES, *ARCHIVES)) or path == "." or path.startswith("./")):
        return None
    parts = [part.strip() for part in extras.split(",")] if extras is not None else []
    reference = OfTheCode(path, tuple(parts), group or "")
    if why := _why_not(reference, [*parts, *([] if group is None else [group])]):
        raise InputError(f"requirements {requirement!r}: {why}; {ACCEPTED}")
    return reference


def _why_not(reference: OfTheCode, parts: list[str]) -> str:
    path = PurePosixPath(reference.path)
    if (
        path.is_absolute()
        or ".." in path.parts
        or "\0" in reference.path
        or reference.path.startswith("-")
    ):
        return "must be the path of a file in the repository"
    expected = _NAMED.get(path.suffix)
    if expected and path.name != expected:
        return f"of {path.suffix} files only {expected} is taken"
    if parts and not (reference.has_groups or reference.is_package):
        return f"{path.suffix} files have neither extras nor groups"
    if reference.group and not reference.has_groups:
        return "a group is one of a file"
    return "" if all(map(_is_name, parts)) else "what is named of it is no name"


def _is_name(part: str) -> bool:
    try:
        return bool(canonicalize_name(part, validate=True))
    except InvalidName:
        return False
