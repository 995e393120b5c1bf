"""Values on their way from task to task, as Kubeflow's driver hands them on.

https://github.com/kubeflow/pipelines/blob/2.17.0/backend/src/v2/driver/resolve.go
"""

import json
from collections.abc import Callable, Mapping
from typing import Any

from trireme.errors import InputError
from trireme.graph.model import ABSENT, Artifact, Parameter
from trireme.graph.placeholders import keyed, pieces
from trireme.text.json_values import whole

_KINDS: dict[str, tuple[type | tuple[type, ...], str]] = {
    "NUMBER_INTEGER": ((int, float), "number"),
    "NUMBER_DOUBLE": ((int, float), "number"),
    "BOOLEAN": (bool, "true or false"),
    "LIST": (list, "list"),
    "STRUCT": (dict, "object"),
    "TASK_FINAL_STATUS": (dict, "object"),
    "TASK_CONFIG": (dict, "object"),
}


def accepted(value: Any, definition: Parameter | Artifact | None, where: str) -> Any:
    """Returns a value as an input takes it: any becomes text where text is wanted.

    Raises:
        InputError: It is of another type, or none of the choices.
    """
    if not isinstance(definition, Parameter):
        return value
    if definition.type == "STRING":
        value = value if isinstance(value, str) else text_of(value)
    elif definition.type in _KINDS:
        kind, words = _KINDS[definition.type]
        if not isinstance(value, kind) or isinstance(value, bool) != (kind is bool):
            raise InputError(f"{where}: {_shown(value)} is not a {words}")
        if definition.type == "NUMBER_INTEGER":
            value = whole(value)
    if definition.choices and value not in definition.choices:
        choices = ", ".join(map(text_of, definition.choices))
        raise InputError(f"{where}: {_shown(value)} is not one of {choices}")
    return value


def text_of(value: Any) -> str:
    """Returns a value in a text: whole numbers without a point, others and the rest as JSON."""
    if isinstance(value, str):
        return value
    return json.dumps(whole(value), ensure_ascii=False, separators=(",", ":"))


def member_of(value: Any, name: str, where: str) -> Any:
    """Returns a member of an object, or of the JSON of one.

    Raises:
        InputError: There is no such member.
    """
    members = _decoded(value)
    if not isinstance(members, dict) or name not in members:
        raise InputError(f"{where}: {_shown(value)} has no member {name!r}")
    return members[name]


def filled(constant: Any, value_of: Callable[[str], Any]) -> Any:
    """Returns a constant whose placeholders are filled, in texts at any depth.

    Args:
        value_of: Returns what the inside of a placeholder stands for.
    """
    if isinstance(constant, str):
        parts = pieces(constant)
        if len(parts) == 1 and parts[0][0]:
            return value_of(parts[0][1])
        return "".join(text_of(value_of(piece)) if is_one else piece for is_one, piece in parts)
    if isinstance(constant, Mapping):
        return {
            text_of(filled(key, value_of)): filled(item, value_of) for key, item in constant.items()
        }
    if isinstance(constant, list):
        return [filled(item, value_of) for item in constant]
    return constant


def items_of(value: Any, where: str) -> list[Any]:
    """Returns what a loop goes over: a list, or the JSON of one.

    Raises:
        InputError: It is something else.
    """
    items = _decoded(value)
    if not isinstance(items, list):
        raise InputError(f"{where}: {_shown(value)} is not a list, which a loop goes over")
    return items


def input_named(inside: str, inputs: Mapping[str, Any]) -> Any:
    """Returns the input value that a placeholder asks for; ABSENT where it asks for another."""
    reference = keyed(inside)
    if reference and reference[:2] == ("inputs", "parameters"):
        return inputs.get(reference.key, ABSENT)
    return ABSENT


def _decoded(value: Any) -> Any:
    """Returns what a text is the JSON of, None if it is none; any other value as it is."""
    if not isinstance(value, str):
        return value
    try:
        return json.loads(value)
    except ValueError:
        return None


def _shown(value: Any) -> str:
    text = json.dumps(value, ensure_ascii=False)
    return text if len(text) <= 100 else f"{text[:100]}..."
