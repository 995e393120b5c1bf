"""What a run may require: packages by name, and files of the repository that list them."""

import re
import sys
import tomllib
from pathlib import Path, PurePosixPath
from typing import Any

from packaging.requirements import InvalidRequirement, Requirement
from packaging.specifiers import InvalidSpecifier, SpecifierSet

from trireme.components.errors import InputError, first_line

FILES = (".txt", ".in", ".toml", ".lock")
"""How the files end; pyproject.toml and uv.lock are those of these kinds."""

LONGEST = 2_000  # characters of a requirement

PYTHON = ".".join(map(str, sys.version_info[:2]))

VERSION = ".".join(map(str, sys.version_info[:3]))

_CREDENTIALS = re.compile(r"https?://[^/@\s]+@|://[^/@\s:]*:[^/@\s]+@")
_VARIABLE = re.compile(r"://(?:[^/@\s:$]*:)?(?:\$\{\w+\}:?)+@")
_VALUE = r"(?:[\w.-]+=)?\$\{\w+\}"
_VARIABLES = re.compile(rf"\?{_VALUE}(?:&{_VALUE})*(?![^\s#;])")
_NAMED = {".toml": "pyproject.toml", ".lock": "uv.lock"}


def check(requirements: list[Any]) -> None:
    """Refuses what is neither a requirement nor could be a file of the repository."""
    for one in requirements:
        if not isinstance(one, str):
            raise InputError(f"requirements {one!r}: must be a list of texts")
        if len(one) > LONGEST:
            raise InputError(
                f"requirements {one[:40]!r}...: must have at most {LONGEST:,} characters"
            )
        refuse_credentials(one)
        if is_file(one):
            _check_path(one)
            continue
        try:
            Requirement(one)
        except InvalidRequirement as error:
            raise InputError(
                f"requirements {one!r}: is neither a requirement, such as 'accelerate>=1.2', nor "
                f"a file of the repository ({', '.join(FILES)}): {first_line(error)}"
            ) from None


def refuse_credentials(requirement: str) -> None:
    """Refuses a URL with a password; a variable in its place, as in ${TOKEN}, stays that.

    So does the value of a query, which may be a token whatever it is called.
    """
    plain = _VARIABLES.sub("", _VARIABLE.sub("://", requirement))
    if _CREDENTIALS.search(plain) or without_queries(plain) != plain:
        raise InputError(
            "requirements hold a password or token, which would end up in records; give the "
            "URL without it, and the index in the Secret that requirements_secret names"
        )


def without_queries(text: str) -> str:
    """Returns a text whose URLs lack what comes after a question mark, where tokens are."""
    return "".join(
        re.sub(r"\?[^#`'\")]*", "", word) if "://" in word else word
        for word in re.split(r"(\s+)", text)
    )


def is_file(requirement: str) -> bool:
    """Tells whether a requirement names a file of the repository."""
    return requirement.endswith(FILES)


def files(requirements: list[str]) -> list[str]:
    """Returns those requirements that are files of the repository."""
    return [one for one in requirements if is_file(one)]


def check_file(file: str, code: Path, python: str = VERSION) -> None:
    """Refuses a file that is not there or cannot be read, or is for another Python."""
    path = code / file
    if not path.is_file():
        raise InputError(f"requirements {file!r} does not exist in the repository")
    try:
        text = path.read_text()
        described = tomllib.loads(text) if path.name in _NAMED.values() else {}
    except (OSError, ValueError) as error:
        raise InputError(f"requirements {file!r} cannot be read: {first_line(error)}") from None
    except RecursionError:
        raise InputError(f"requirements {file!r} cannot be read: it is nested too deep") from None
    wanted = str(described.get("requires-python") or _project(described))
    if len(wanted) > LONGEST:
        raise InputError(
            f"requirements {file!r}: its requires-python has more than {LONGEST:,} characters"
        )
    try:
        if python not in SpecifierSet(wanted):
            raise InputError(
                f"requirements {file!r} is for Python {wanted}, and the run has {python}"
            )
    except InvalidSpecifier as error:
        raise InputError(f"requirements {file!r}: {error}") from None
    if path.name == "uv.lock" and not path.with_name("pyproject.toml").is_file():
        raise InputError(f"requirements {file!r} needs the pyproject.toml beside it")


def _project(described: dict[str, Any]) -> str:
    project = described.get("project")
    return str(project.get("requires-python", "")) if isinstance(project, dict) else ""


def _check_path(file: str) -> None:
    path = PurePosixPath(file)
    if path.is_absolute() or ".." in path.parts or "\0" in file or file.startswith("-"):
        raise InputError(f"requirements {file!r}: must be the path of a file in the repository")
    wanted = _NAMED.get(path.suffix, path.name)
    if path.name != wanted:
        raise InputError(f"requirements {file!r}: of {path.suffix} files only {wanted} is taken")
