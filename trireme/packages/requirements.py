"""Requirements of a run: packages of an index, and what the repository lists or has itself."""

import os
import re
import sys
import tomllib
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path, PurePosixPath
from typing import Any

from packaging.requirements import InvalidRequirement, Requirement
from packaging.specifiers import InvalidSpecifier, SpecifierSet
from packaging.utils import canonicalize_name

from trireme.credentials.withheld import is_withheld
from trireme.errors import InputError, first_line
from trireme.packages import project
from trireme.packages.of_the_code import ACCEPTED, ARCHIVES, FILES, OfTheCode, named

LONGEST = 2_000  # characters of a requirement

PYTHON = ".".join(map(str, sys.version_info[:2]))

VERSION = ".".join(map(str, sys.version_info[:3]))

_CREDENTIALS = re.compile(r"https?://[^/@\s]+@|://[^/@\s:]*:[^/@\s]+@")
_VARIABLE = re.compile(r"://(?:[^/@\s:$]*:)?(?:\$\{\w+\}:?)+@")
_NAME_OF_VARIABLE = re.compile(r"\$\{(\w+)\}")
_GIT = re.compile(r"\bgit\+|\bgit\s*=")
_VALUE = r"(?:[\w.-]+=)?\$\{\w+\}"
_VARIABLES = re.compile(rf"\?{_VALUE}(?:&{_VALUE})*(?![^\s#;])")
_FURTHER = re.compile(r"\s*(?:-r|--requirement)[=\s]*([^\s#]+)")
# A name and its extras, and not those of a URL or a path, which no index is asked for.
_ASKED = re.compile(r"\s*([A-Za-z0-9][\w.-]*+)\s*+(?:\[[^\[\]]*\]\s*+)?+(?![@/:\\])(.?)")
# Not all that ends in .py or .yaml: discord.py and ruamel.yaml are packages.
_PROJECT_FILE = re.compile(
    r"Pipfile|Makefile|Dockerfile|README|LICENSE"
    r"|(?i:setup\.py|(?:conda|env)[\w.-]*\.yaml|.*\.(?:txt|in|toml|lock|cfg|ini|yml|ipynb))"
)


def check(requirements: list[Any]) -> None:
    """Refuses what is neither a requirement nor could be in the repository."""
    for requirement in requirements:
        if not isinstance(requirement, str):
            raise InputError(f"requirements {requirement!r}: must be a list of texts")
        if len(requirement) > LONGEST:
            raise InputError(
                f"requirements {requirement[:40]!r}...: must have at most {LONGEST:,} characters"
            )
        refuse_credentials(requirement)
        if named(requirement):
            continue
        try:
            Requirement(requirement)
        except (InvalidRequirement, RecursionError) as error:
            raise InputError(
                f"requirements {requirement!r}: is neither a requirement nor in the repository "
                f"({first_line(error)}); {ACCEPTED}"
            ) from None
        _refuse_project_file(f"requirements {requirement!r}", requirement, ACCEPTED)
    _refuse_extras_of_several(requirements)


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


def variables_in(requirements: Iterable[str]) -> set[str]:
    """Returns the names of the variables that requirements ask for, as ${TOKEN} does."""
    return {name for requirement in requirements for name in _NAME_OF_VARIABLE.findall(requirement)}


def use_git(requirements: Sequence[str], code: Path) -> bool:
    """Whether git brings any of these, or of what the files among them list."""
    paths = (
        code / reference.file for requirement in requirements if (reference := named(requirement))
    )
    existing = (file for file in paths if file.is_file() and file.name.endswith(FILES))
    listed = (
        line
        for file in existing
        for line in (lines(file) if file.suffix in (".txt", ".in") else [file.read_text()])
    )
    return any(_GIT.search(text) for text in (*requirements, *listed))


def files(requirements: Iterable[str]) -> list[str]:
    """Returns the files of the repository that say what is required."""
    return list(
        dict.fromkeys(
            reference.file for requirement in requirements if (reference := named(requirement))
        )
    )


def lists(requirements: Iterable[str]) -> list[OfTheCode]:
    """Returns the files of the repository that list packages, with what of them is meant."""
    references = (reference for requirement in requirements if (reference := named(requirement)))
    return [reference for reference in references if not reference.is_package]


def packages(requirements: Iterable[str]) -> list[str]:
    """Returns the other requirements as lines of a file, those in the repository by paths."""
    references = {requirement: named(requirement) for requirement in requirements}
    references = {
        requirement: reference
        for requirement, reference in references.items()
        if not reference or reference.is_package
    }
    return [
        f"./{requirement}" if reference and requirement[0] != "." else requirement
        for requirement, reference in references.items()
    ]


def lines(file: Path) -> Iterator[str]:
    """Yields the lines of a requirements file, and of those that it names, each of them once."""
    files = [file.resolve()]
    for path in files:
        for line in re.sub(r"\\\n", " ", path.read_text()).splitlines():
            if match := _FURTHER.match(line):
                further = (path.parent / match[1]).resolve()  # which may name itself
                files += [further] if further not in files and further.is_file() else []
            else:
                yield line


def check_files(requirements: Sequence[str], code: Path, python: str = VERSION) -> None:
    """Refuses files of the repository that are not there or cannot be used, see ``check_file``."""
    for requirement in requirements:
        if named(requirement):
            check_file(requirement, code, python, requirements)


def check_names(requirements: Iterable[str], code: Path) -> None:
    """Refuses a mere name that is that of a file in a folder."""
    names = {path.name for path in code.iterdir() if path.is_file()}
    for requirement in requirements:
        name, then = _name_and_rest(requirement)
        if name in names and then in ("", ";") and not named(requirement):
            raise _is_file(f"requirements {requirement!r}", ACCEPTED, f"{name}>=0")


def check_file(
    requirement: str, code: Path, python: str = VERSION, beside: Sequence[str] = ()
) -> None:
    """Refuses a file that is not there or cannot be read, or is for another Python.

    Args:
        beside: What else is required.
    """
    reference = named(requirement) or OfTheCode(requirement)
    path = code / reference.file
    if not path.is_file():
        missing = "" if reference.path == reference.file else f": {reference.file}"
        raise InputError(f"requirements {requirement!r}{missing} does not exist in the repository")
    if path.name.endswith(ARCHIVES):
        return
    if path.name == "uv.lock":
        described, listed = _described(requirement, path), []
    elif path.name == "pyproject.toml":
        described = _described(requirement, path)
        listed = list(project.required(described, reference))
    else:
        described = {}
        with _reading(requirement):
            listed = list(lines(path))
    _check_python(requirement, described, python)
    if path.name == "uv.lock":
        path = path.with_name("pyproject.toml")
        if not path.is_file():
            raise InputError(f"requirements {requirement!r} needs the pyproject.toml beside it")
        described = _described(requirement, path)
    project.check_parts(requirement, reference, described)
    variables = variables_in(listed) - variables_in(beside)
    if secret := sorted(name for name in variables if is_withheld(name, os.environ.get(name, ""))):
        raise InputError(
            f"requirements {requirement!r}: asks for ${{{secret[0]}}} of your environment, which "
            "goes to no server that a repository names; give that requirement itself in "
            "requirements, or its index in the Secret that requirements_secret names"
        )
    for line in listed:
        _refuse_project_file(
            f"requirements {requirement!r}: {line.strip()!r}", line, "-r FILE names one"
        )
    if reference.group and listed:
        _refuse_itself(requirement, reference, listed, described, beside)


@contextmanager
def _reading(requirement: str) -> Iterator[None]:
    try:
        yield
    except (OSError, ValueError) as error:
        raise InputError(
            f"requirements {requirement!r} cannot be read: {first_line(error)}"
        ) from None
    except RecursionError:
        raise InputError(
            f"requirements {requirement!r} cannot be read: it is nested too deep"
        ) from None


def _described(requirement: str, file: Path) -> dict[str, Any]:
    with _reading(requirement):
        return tomllib.loads(file.read_text())


def _check_python(requirement: str, described: dict[str, Any], python: str) -> None:
    of_project = project.table(described, "project").get("requires-python", "")
    specifier = str(described.get("requires-python") or of_project)
    if len(specifier) > LONGEST:
        raise InputError(
            f"requirements {requirement!r}: its requires-python has more than {LONGEST:,} "
            "characters"
        )
    try:
        if python not in SpecifierSet(specifier):
            raise InputError(
                f"requirements {requirement!r} is for Python {specifier}, and the run has {python}"
            )
    except InvalidSpecifier as error:
        raise InputError(f"requirements {requirement!r}: {error}") from None


def _name_and_rest(requirement: str) -> tuple[str, str]:
    """Returns the name that an index is asked for, if it is, and what comes after the name."""
    match = _ASKED.match(requirement)
    return (match[1], match[2]) if match else ("", "")


def _refuse_project_file(field: str, requirement: str, advice: str) -> None:
    """Refuses what is called as files are: a stranger may have a package of that name."""
    name, _ = _name_and_rest(requirement)
    if _PROJECT_FILE.fullmatch(name):
        raise _is_file(field, advice, canonicalize_name(name))


def _is_file(field: str, advice: str, package: str) -> InputError:
    return InputError(
        f"{field}: is the name of a file, which no index is asked for; {advice}; if a package of "
        f"that name is meant, it is {package!r}"
    )


def _refuse_extras_of_several(requirements: Iterable[str]) -> None:
    """Refuses extras of one of several files, which uv would take of the others, too."""
    projects = [
        reference
        for reference in lists(requirements)
        if reference.path.endswith(".toml") and not reference.group
    ]
    several = list(dict.fromkeys(reference.file for reference in projects))
    if len(several) > 1 and any(reference.extras for reference in projects):
        raise InputError(
            f"requirements: with extras only one of {' and '.join(several)} can be given; give "
            "the packages instead, as in './FOLDER[EXTRA]'"
        )


def _refuse_itself(
    requirement: str,
    reference: OfTheCode,
    listed: list[str],
    described: dict[str, Any],
    beside: Sequence[str],
) -> None:
    """Refuses a group with its own project, for which an index would be asked."""
    project_name = canonicalize_name(str(project.table(described, "project").get("name", "")))
    packages = [other.file for other in map(named, beside) if other and other.is_package]
    folder = "/".join([".", *PurePosixPath(reference.file).parent.parts])
    for line in listed:
        if (
            canonicalize_name(_name_and_rest(line)[0]) == project_name
            and reference.file not in packages
        ):
            raise InputError(
                f"requirements {requirement!r}: {line!r} is the project itself, which no index is "
                f"asked for; give {folder!r} besides"
            )
