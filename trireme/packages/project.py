"""Requirements of a pyproject.toml: its project, an extra of it, a dependency group."""

from collections.abc import Iterable, Iterator
from typing import Any

from packaging.utils import canonicalize_name

from trireme.errors import InputError
from trireme.packages.of_the_code import OfTheCode


def table(described: dict[str, Any], name: str) -> dict[str, Any]:
    """Returns a table of it; empty where there is none."""
    found = described.get(name)
    return found if isinstance(found, dict) else {}


def required(described: dict[str, Any], meant: OfTheCode) -> Iterator[str]:
    """Yields the requirements that are meant."""
    if not meant.group:
        project = table(described, "project")
        extras = _lists(project, "optional-dependencies")
        for listed in (
            project.get("dependencies"),
            *(extras.get(canonicalize_name(extra)) for extra in meant.extras),
        ):
            yield from filter(_is_text, listed if isinstance(listed, list) else [])
        return
    groups, names = _lists(described, "dependency-groups"), [canonicalize_name(meant.group)]
    for name in names:
        for each in groups.get(name, []):
            if isinstance(each, dict):
                further = canonicalize_name(str(each.get("include-group")))
                names += [further] if further not in names else []
            elif _is_text(each):
                yield each


def check_parts(requirement: str, meant: OfTheCode, described: dict[str, Any]) -> None:
    """Refuses extras and a group that are not in it."""
    project = table(described, "project")
    extras = _lists(project, "optional-dependencies")
    groups = _lists(described, "dependency-groups")
    # Otherwise the package's builder tells.
    is_told = bool(project) and "optional-dependencies" not in str(project.get("dynamic"))
    for extra in meant.extras if is_told else ():
        other = f"{meant.file}:{extra}" if canonicalize_name(extra) in groups else ""
        _refuse_missing(requirement, "extra", extra, extras, other)
    if meant.group:
        other = f"{meant.file}[{meant.group}]" if canonicalize_name(meant.group) in extras else ""
        _refuse_missing(requirement, "dependency group", meant.group, groups, other)


def _refuse_missing(
    requirement: str, what: str, name: str, there: Iterable[str], other: str
) -> None:
    if canonicalize_name(name) not in there:
        known = f"there is {', '.join(there)}" if there else "there is none"
        raise InputError(
            f"requirements {requirement!r}: there is no {what} {name!r}; "
            + (f"give {other!r}" if other else known)
        )


def _lists(described: dict[str, Any], name: str) -> dict[str, list[Any]]:
    """Returns the lists in a table, by their names as they are compared."""
    found = table(described, name).items()
    return {canonicalize_name(part): listed for part, listed in found if isinstance(listed, list)}


def _is_text(one: Any) -> bool:
    return isinstance(one, str)
