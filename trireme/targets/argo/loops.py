"""Loops: a template whose one task is called once for each item, and what comes together of it."""

from collections.abc import Mapping
from typing import Any

from hera.workflows import models

from trireme.graph.model import Artifact, Constant
from trireme.kubernetes.step_pods import ROUND
from trireme.targets.argo.expressions import Value, encoded, json_value, output, parameter, to_json
from trireme.targets.argo.placeholders import DIRECTORY
from trireme.targets.argo.scope import as_json, as_text
from trireme.targets.argo.templates import (
    Call,
    call_arguments,
    directory_input,
    inner_directory,
    inputs_of,
    outputs_of,
)

_ITEM = """fromJSON('"' + item.value + '"')"""
"""The JSON of an item: of a text Argo hands on what is between the quotes of its own JSON.

The member is not called ``item``: in an expression with that word anywhere Argo 3.7.4 to 3.7.15
and 4.0.0 to 4.0.6 wait for an item, and there is none yet where ``withParam`` is made.
"""

_NO_PAIRS = r"replace('\\\\', '\\u005c')"
"""Writes a backslash in JSON so that none comes before another escape.

In an item Argo writes ``<`` for what looks like its escape, ``\\u003c``, even where the backslash
is itself escaped.
"""


def template(
    call: Call, body: str, inputs: Mapping[str, str], outputs: Mapping[str, str]
) -> tuple[models.Template, dict[str, Value]]:
    """Returns the template of a loop over the template ``body``, and what it is given."""
    loop = call.task.loop
    assert loop
    defined = call.component.input_parameters.get(loop.item)
    kind = defined.type if defined else None
    passed = {key: value for key, value in call.given.items() if key in inputs and key != loop.item}
    values = {inputs[key]: value for key, value in passed.items()}
    arguments = {name: parameter(name) for name in values}
    turn: dict[str, Any] = {"name": ROUND, "template": body}
    if isinstance(loop.items, Constant):
        turn["withItems"] = [
            {"index": index, "value": encoded(_as(item, kind)).replace(r"\\", r"\u005c")}
            for index, item in enumerate(loop.items.value)
        ]
    else:
        key = loop.items.name
        if inputs.get(key) not in values:
            values[key] = call.given[key]
            arguments.pop(key, None)
        items = parameter(inputs.get(key, key)).native
        listed = call.component.input_parameters.get(key)
        if listed and listed.type == "STRING":  # of a field nobody knows the type
            items = as_json(items)
        turn["withParam"] = _items(items, kind, loop.is_of_artifacts)
    arguments[inputs[loop.item]] = json_value(_ITEM)
    directory = inner_directory(call.directory)
    of_round = models.Parameter(name=DIRECTORY, value=f"{directory}/{{{{item.index}}}}")
    turn["arguments"] = models.Arguments(parameters=[*call_arguments(arguments), of_round])
    names = [models.Parameter(name=name) for name in values]
    loop_template = models.Template(
        name=call.template,
        inputs=inputs_of(names + directory_input(directory)),
        outputs=_collected(call, outputs),
        parallelism=loop.limit or None,
        dag=models.DAGTemplate.model_validate({"tasks": [turn]}),
    )
    return loop_template, values


def _as(item: Any, kind: str | None) -> Any:
    if isinstance(item, float) and kind == "NUMBER_INTEGER":
        return int(item)
    return encoded(item) if kind == "STRING" and not isinstance(item, str) else item


def _items(items: str, kind: str | None, is_artifact: bool) -> str:
    """Returns the argument that has Argo loop over a list: of indices and of items as JSON."""
    item = "items[#]"
    if is_artifact:
        item = f"[{item}]"
    elif kind == "STRING":
        item = as_text(item)
    pair = f"({{index: #, value: {to_json(item)} }})"
    every = to_json(f"map(0..len(items) - 1, {pair})")
    listing = f"let items = {items}; {every} | {_NO_PAIRS}"
    return f"{{{{={listing}}}}}"


def _collected(call: Call, outputs: Mapping[str, str]) -> models.Outputs | None:
    """Returns the loop's outputs: of each of its body's, the list of what the turns have left."""
    expressions = {}
    for key, definition in call.component.outputs.items():
        # What Argo brings together are texts, or where all are JSON's maps or lists, those.
        text = f"{output(ROUND, outputs[key], guarded=True)} ?? '[]'"
        item = "type(#) == 'string' ? fromJSON(#) : #"
        native = f"filter(map(fromJSON({text}), {item}), # != nil)"
        if isinstance(definition, Artifact):
            native = f"reduce({native}, concat(#acc, #), [])"
        expressions[outputs[key]] = to_json(native)
    return outputs_of(expressions)
