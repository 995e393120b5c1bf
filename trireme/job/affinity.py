"""Check a pod's affinity against the types of Kubernetes' own Python client."""

import re
from typing import Any

_OF = re.compile(r"(list\[|dict\(str, )?(\w+)[])]?")
_PLAIN = {"str": str, "int": int, "bool": bool}


def checked(affinity: dict[str, Any]) -> dict[str, Any]:
    """Returns an affinity, unless the API server would refuse it or take only part of it."""
    _check("V1Affinity", affinity, "")
    return affinity


def _check(kind: str, value: Any, path: str) -> None:
    match = _OF.fullmatch(kind)
    assert match
    holder, item = match.groups()
    if holder == "list[":
        for index, part in enumerate(_of_type(list, value, path)):
            _check(item, part, f"{path}.{index}")
    elif holder:
        for name, part in _of_type(dict, value, path).items():
            _check(item, part, f"{path}.{name}")
    elif item in _PLAIN:
        _of_type(_PLAIN[item], value, path)
    else:
        _check_fields(item, _of_type(dict, value, path), path)


def _check_fields(kind: str, fields: dict[str, Any], path: str) -> None:
    from kubernetes import client  # takes half a second, which few jobs need to spend

    model = getattr(client, kind)
    types = {field: model.openapi_types[name] for name, field in model.attribute_map.items()}
    for field, value in fields.items():
        if field not in types:
            raise ValueError(
                f"{_inside(path, field)}: there is no such field; there are {', '.join(types)}"
            )
        _check(types[field], value, _inside(path, field))
    arguments = {name: fields.get(field) for name, field in model.attribute_map.items()}
    try:
        model(**arguments)
    except ValueError as error:  # of the client, which has a name of its own for the field
        names = (field for name, field in model.attribute_map.items() if f"`{name}`" in str(error))
        raise ValueError(f"{_inside(path, next(names))}: is missing") from None


def _inside(path: str, field: str) -> str:
    return f"{path}.{field}" if path else field


def _of_type(expected: type, value: Any, path: str) -> Any:
    if type(value) is not expected:
        words = {list: "a list", dict: "an object", str: "text", int: "a whole number"}
        raise ValueError(f"{path} {value!r}: must be {words.get(expected, 'true or false')}")
    return value
