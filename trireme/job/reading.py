"""Read the description of a training job from YAML, and say in words what is wrong with it."""

import difflib
import json
import re
from typing import Any, ClassVar

import yaml
from pydantic import BaseModel, ValidationError

from trireme.errors import InputError
from trireme.strict_model import dotted, model_of
from trireme.text import yaml_text

SECRET = ("env", "secret_env", "tracking", "dataset")
"""Fields whose values are never shown: some put a password there."""

SHOWN = 80  # characters of a wrong value


def from_yaml(text: str) -> dict[str, Any]:
    """Returns the mapping that a YAML text holds.

    Only true, false, null and plain whole numbers are anything but text: a version 1.10, a time
    12:30, a date or the word no stay as they are written (YAML 1.2 rather than 1.1).
    """
    fields = yaml_text.parse(text, "the job", Loader)
    if fields is None:
        return {}
    if not isinstance(fields, dict) or not all(isinstance(name, str) for name in fields):
        raise InputError("the job must map the names of fields to values")
    if "apiVersion" in fields:
        raise InputError(
            f"this is the manifest of a {fields.get('kind', 'Kubernetes object')}, which kubectl "
            "takes; describe the job by the fields of 'trireme job schema' instead"
        )
    return fields


def merged(fields: dict[str, Any], more: dict[str, Any]) -> dict[str, Any]:
    """Returns the fields of a job together with further ones, which win.

    Of two mappings each adds to the other, at any depth.
    """
    both = dict(fields)
    for name, value in more.items():
        before = both.get(name)
        if isinstance(before, dict) and isinstance(value, dict):
            value = merged(before, value)
        both[name] = value
    return both


def as_json(fields: dict[str, Any]) -> str:
    """Returns fields as JSON, whose types the description is strict about."""
    try:
        return json.dumps(fields, allow_nan=False)
    except (TypeError, ValueError, RecursionError) as error:
        raise InputError(f"job: must hold only JSON values: {error}") from None


def in_words(error: ValidationError, model: type[BaseModel]) -> str:
    """Says in one sentence what is wrong with the first wrong field."""
    errors = error.errors(include_url=False)
    # A name that is mistyped is also one that is missing.
    first = next((entry for entry in errors if entry["type"] == "extra_forbidden"), errors[0])
    path, reason = first["loc"], first["msg"].removeprefix("Value error, ")
    field = dotted(part for part in path if part != "[key]")
    if first["type"] == "extra_forbidden":
        return f"{field}: there is no such field; {_known_fields(model, path)}"
    if first["type"] == "missing":
        return f"{field}: is missing"
    if not field:
        return reason  # a rule over several fields, which names them itself
    for phrase in ("Input should", "String should"):
        reason = reason.replace(phrase, "must").replace("a valid array", "a list")
    if isinstance(first["input"], dict) or (path[0] in SECRET and path[-1] != "[key]"):
        return f"{field}: {reason}"
    shown = repr(first["input"])
    return f"{field} {shown if len(shown) <= SHOWN else shown[:SHOWN] + '...'}: {reason}"


def _known_fields(model: type[BaseModel], path: tuple[int | str, ...]) -> str:
    names = list(model_of(model, path).model_fields)
    close = difflib.get_close_matches(str(path[-1]), names, n=1)
    if close:
        return f"did you mean {close[0]}?"
    return f"there are {', '.join(names)}" if len(names) < 20 else "'trireme job schema' lists them"


_CONSTRUCTORS = yaml.SafeLoader.yaml_constructors
_TAG = "tag:yaml.org,2002:"


class Loader(yaml_text.Loader):
    """Makes text, lists and mappings, and what is added below; see ``from_yaml``."""

    yaml_constructors: ClassVar[dict[str | None, Any]] = {
        tag: _CONSTRUCTORS[tag] for tag in (f"{_TAG}str", f"{_TAG}seq", f"{_TAG}map", None)
    }


def _from_json(loader: yaml.SafeLoader, node: yaml.Node) -> Any:
    return json.loads(str(node.value))


Loader.yaml_implicit_resolvers = {}
for _kind, _pattern, _first in (
    ("bool", "true|false", "tf"),
    ("int", "0|-?[1-9][0-9]*", "-0123456789"),
    ("null", "null|~|", ["n", "~", ""]),
    ("merge", "<<", "<"),
):
    Loader.add_implicit_resolver(f"{_TAG}{_kind}", re.compile(rf"(?:{_pattern})\Z"), list(_first))
    if _kind in ("bool", "int"):
        Loader.add_constructor(f"{_TAG}{_kind}", _from_json)
Loader.add_constructor(f"{_TAG}null", lambda loader, node: None)
