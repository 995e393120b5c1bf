"""Check a pod's affinity against the types of Kubernetes' own Python client."""

import re
from typing import Any

_OF = re.compile(r"(list\[|dict\(str, )?(\w+)[])]?")
_PLAIN = {"str": str, "int": int, "bool": bool}


def checked(affinity: dict[str, Any]) -> dict[str, Any]:
    """Returns an affinity, unless the API server would refuse it or take only part of it."""
    _check("V1Affinity", affinity, "")
    return affinity


def _check(kind: str, value: Any, place: str) -> None:
    match = _OF.fullmatch(kind)
    assert match
    holder, item = match.groups()
    if holder == "list[":
        for index, part in enumerate(_of_type(list, value, place)):
            _check(item, part, f"{place}.{index}")
    elif holder:
        for name, part in _of_type(dict, value, place).items():
            _check(item, part, f"{place}.{name}")
    elif item in _PLAIN:
        _of_type(_PLAIN[item], value, place)
    else:
        _check_fields(item, _of_type(dict, value, place), place)


def _check_fields(kind: str, fields: dict[str, Any], place: str) -> None:
    from kubernetes import client  # takes half a second, which few jobs need to spend

    model = getattr(client, kind)
    types = {field: model.openapi_types[name] for name, field in model.attribute_map.items()}
    for field, value in fields.items():
        if field not in types:
            raise ValueError(
                f"{_inside(place, field)}: there is no such field; there are {', '.join(types)}"
            )
        _check(types[field], value, _inside(place, field))
    given = {name: fields.get(field) for name, field in model.attribute_map.items()}
    try:
        model(**given)
    except ValueError as error:  # of the client, which has a name of its own for the field
        names = (field for name, field in model.attribute_map.items() if f"`{name}`" in str(error))
        raise ValueError(f"{_inside(place, next(names))}: is missing") from None


def _inside(place: str, field: str) -> str:
    return f"{place}.{field}" if place else field


def _of_type(expected: type, value: Any, place: str) -> Any:
    if type(value) is not expected:
        words = {list: "a list", dict: "an object", str: "text", int: "a whole number"}
        raise ValueError(f"{place} {value!r}: must be {words.get(expected, 'true or false')}")
    return value
