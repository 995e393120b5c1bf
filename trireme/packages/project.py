"""Requirements of a pyproject.toml: its project, an extra of it, a dependency group."""

from collections.abc import Iterable, Iterator
from typing import Any

from packaging.utils import canonicalize_name

from trireme.errors import InputError
from trireme.packages.of_the_code import OfTheCode


def table(described: dict[str, Any], name: str) -> dict[str, Any]:
    """Returns a table of it; empty where there is none."""
    value = described.get(name)
    return value if isinstance(value, dict) else {}


def required(described: dict[str, Any], reference: OfTheCode) -> Iterator[str]:
    """Yields the requirements that are meant."""
    if not reference.group:
        project = table(described, "project")
        extras = _lists(project, "optional-dependencies")
        for listed in (
            project.get("dependencies"),
            *(extras.get(canonicalize_name(extra)) for extra in reference.extras),
        ):
            yield from filter(_is_text, listed if isinstance(listed, list) else [])
        return
    groups, names = _lists(described, "dependency-groups"), [canonicalize_name(reference.group)]
    for name in names:
        for item in groups.get(name, []):
            if isinstance(item, dict):
                further = canonicalize_name(str(item.get("include-group")))
                names += [further] if further not in names else []
            elif _is_text(item):
                yield item


def check_parts(requirement: str, reference: OfTheCode, described: dict[str, Any]) -> None:
    """Refuses extras and a group that are not in it."""
    project = table(described, "project")
    extras = _lists(project, "optional-dependencies")
    groups = _lists(described, "dependency-groups")
    # Otherwise the package's builder tells.
    is_told = bool(project) and "optional-dependencies" not in str(project.get("dynamic"))
    for extra in reference.extras if is_told else ():
        other = f"{reference.file}:{extra}" if canonicalize_name(extra) in groups else ""
        _refuse_missing(requirement, "extra", extra, extras, other)
    if reference.group:
        other = (
            f"{reference.file}[{reference.group}]"
            if canonicalize_name(reference.group) in extras
            else ""
        )
        _refuse_missing(requirement, "dependency group", reference.group, groups, other)


def _refuse_missing(
    requirement: str, kind: str, name: str, existing: Iterable[str], other: str
) -> None:
    if canonicalize_name(name) not in existing:
        hint = f"there is {', '.join(existing)}" if existing else "there is none"
        raise InputError(
            f"requirements {requirement!r}: there is no {kind} {name!r}; "
            + (f"give {other!r}" if other else hint)
        )


def _lists(described: dict[str, Any], name: str) -> dict[str, list[Any]]:
    """Returns the lists in a table, by their names as they are compared."""
    items = table(described, name).items()
    return {canonicalize_name(part): listed for part, listed in items if isinstance(listed, list)}


def _is_text(value: Any) -> bool:
    return isinstance(value, str)
