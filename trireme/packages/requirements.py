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
    for one in requirements:
        if not isinstance(one, str):
            raise InputError(f"requirements {one!r}: must be a list of texts")
        if len(one) > LONGEST:
            raise InputError(
                f"requirements {one[:40]!r}...: must have at most {LONGEST:,} characters"
            )
        refuse_credentials(one)
        if named(one):
            continue
        try:
            Requirement(one)
        except (InvalidRequirement, RecursionError) as error:
            raise InputError(
                f"requirements {one!r}: is neither a requirement nor in the repository "
                f"({first_line(error)}); {ACCEPTED}"
            ) from None
        _refuse_project_file(f"requirements {one!r}", one, ACCEPTED)
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
    return {name for one in requirements for name in _NAME_OF_VARIABLE.findall(one)}


def use_git(requirements: Sequence[str], code: Path) -> bool:
    """Whether git brings any of these, or of what the files among them list."""
    found = (code / meant.file for one in requirements if (meant := named(one)))
    there = (file for file in found if file.is_file() and file.name.endswith(FILES))
    listed = (
        line
        for file in there
        for line in (lines(file) if file.suffix in (".txt", ".in") else [file.read_text()])
    )
    return any(_GIT.search(text) for text in (*requirements, *listed))


def files(requirements: Iterable[str]) -> list[str]:
    """Returns the files of the repository that say what is required."""
    return list(dict.fromkeys(meant.file for one in requirements if (meant := named(one))))


def lists(requirements: Iterable[str]) -> list[OfTheCode]:
    """Returns the files of the repository that list packages, with what of them is meant."""
    found = (meant for one in requirements if (meant := named(one)))
    return [meant for meant in found if not meant.is_package]


def packages(requirements: Iterable[str]) -> list[str]:
    """Returns the other requirements as lines of a file, those in the repository by paths."""
    found = {one: named(one) for one in requirements}
    found = {one: meant for one, meant in found.items() if not meant or meant.is_package}
    return [f"./{one}" if meant and one[0] != "." else one for one, meant in found.items()]


def lines(file: Path) -> Iterator[str]:
    """Yields the lines of a requirements file, and of those that it names, each of them once."""
    files = [file.resolve()]
    for each in files:
        for line in re.sub(r"\\\n", " ", each.read_text()).splitlines():
            if found := _FURTHER.match(line):
                further = (each.parent / found[1]).resolve()  # which may name itself
                files += [further] if further not in files and further.is_file() else []
            else:
                yield line


def check_files(requirements: Sequence[str], code: Path, python: str = VERSION) -> None:
    """Refuses files of the repository that are not there or cannot be used, see ``check_file``."""
    for one in requirements:
        if named(one):
            check_file(one, code, python, requirements)


def check_names(requirements: Iterable[str], code: Path) -> None:
    """Refuses a mere name that is that of a file in a folder."""
    there = {path.name for path in code.iterdir() if path.is_file()}
    for one in requirements:
        name, then = _asked(one)
        if name in there and then in ("", ";") and not named(one):
            raise _is_file(f"requirements {one!r}", ACCEPTED, f"{name}>=0")


def check_file(one: str, code: Path, python: str = VERSION, beside: Sequence[str] = ()) -> None:
    """Refuses a file that is not there or cannot be read, or is for another Python.

    Args:
        beside: What else is required.
    """
    meant = named(one) or OfTheCode(one)
    path = code / meant.file
    if not path.is_file():
        missing = "" if meant.path == meant.file else f": {meant.file}"
        raise InputError(f"requirements {one!r}{missing} does not exist in the repository")
    if path.name.endswith(ARCHIVES):
        return
    if path.name == "uv.lock":
        described, listed = _described(one, path), []
    elif path.name == "pyproject.toml":
        described = _described(one, path)
        listed = list(project.required(described, meant))
    else:
        described = {}
        with _reading(one):
            listed = list(lines(path))
    _check_python(one, described, python)
    if path.name == "uv.lock":
        path = path.with_name("pyproject.toml")
        if not path.is_file():
            raise InputError(f"requirements {one!r} needs the pyproject.toml beside it")
        described = _described(one, path)
    project.check_parts(one, meant, described)
    asked = variables_in(listed) - variables_in(beside)
    if secret := sorted(name for name in asked if is_withheld(name, os.environ.get(name, ""))):
        raise InputError(
            f"requirements {one!r}: asks for ${{{secret[0]}}} of your environment, which goes to "
            "no server that a repository names; give that requirement itself in requirements, or "
            "its index in the Secret that requirements_secret names"
        )
    for each in listed:
        _refuse_project_file(f"requirements {one!r}: {each.strip()!r}", each, "-r FILE names one")
    if meant.group and listed:
        _refuse_itself(one, meant, listed, described, beside)


@contextmanager
def _reading(one: str) -> Iterator[None]:
    try:
        yield
    except (OSError, ValueError) as error:
        raise InputError(f"requirements {one!r} cannot be read: {first_line(error)}") from None
    except RecursionError:
        raise InputError(f"requirements {one!r} cannot be read: it is nested too deep") from None


def _described(one: str, file: Path) -> dict[str, Any]:
    with _reading(one):
        return tomllib.loads(file.read_text())


def _check_python(one: str, described: dict[str, Any], python: str) -> None:
    of_project = project.table(described, "project").get("requires-python", "")
    wanted = str(described.get("requires-python") or of_project)
    if len(wanted) > LONGEST:
        raise InputError(
            f"requirements {one!r}: its requires-python has more than {LONGEST:,} characters"
        )
    try:
        if python not in SpecifierSet(wanted):
            raise InputError(
                f"requirements {one!r} is for Python {wanted}, and the run has {python}"
            )
    except InvalidSpecifier as error:
        raise InputError(f"requirements {one!r}: {error}") from None


def _asked(requirement: str) -> tuple[str, str]:
    """Returns the name that an index is asked for, if it is, and what comes after the name."""
    found = _ASKED.match(requirement)
    return (found[1], found[2]) if found else ("", "")


def _refuse_project_file(what: str, requirement: str, advice: str) -> None:
    """Refuses what is called as files are: a stranger may have a package of that name."""
    name, _ = _asked(requirement)
    if _PROJECT_FILE.fullmatch(name):
        raise _is_file(what, advice, canonicalize_name(name))


def _is_file(what: str, advice: str, package: str) -> InputError:
    return InputError(
        f"{what}: is the name of a file, which no index is asked for; {advice}; if a package of "
        f"that name is meant, it is {package!r}"
    )


def _refuse_extras_of_several(requirements: Iterable[str]) -> None:
    """Refuses extras of one of several files, which uv would take of the others, too."""
    found = [
        meant for meant in lists(requirements) if meant.path.endswith(".toml") and not meant.group
    ]
    several = list(dict.fromkeys(meant.file for meant in found))
    if len(several) > 1 and any(meant.extras for meant in found):
        raise InputError(
            f"requirements: with extras only one of {' and '.join(several)} can be given; give "
            "the packages instead, as in './FOLDER[EXTRA]'"
        )


def _refuse_itself(
    one: str, meant: OfTheCode, listed: list[str], described: dict[str, Any], beside: Sequence[str]
) -> None:
    """Refuses a group with its own project, for which an index would be asked."""
    own = canonicalize_name(str(project.table(described, "project").get("name", "")))
    packages = [other.file for other in map(named, beside) if other and other.is_package]
    folder = "/".join([".", *PurePosixPath(meant.file).parent.parts])
    for each in listed:
        if canonicalize_name(_asked(each)[0]) == own and meant.file not in packages:
            raise InputError(
                f"requirements {one!r}: {each!r} is the project itself, which no index is asked "
                f"for; give {folder!r} besides"
            )
