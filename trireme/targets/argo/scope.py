"""The values that a task's inputs have, as expressions in the template that the task is in."""

import ast
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from trireme.errors import InputError
from trireme.graph import model
from trireme.graph.model import ABSENT, InputOf, OutputOf, StatusOf
from trireme.graph.placeholders import keyed, pieces
from trireme.targets.argo.expressions import (
    Constant,
    Output,
    Value,
    member,
    native,
    quoted,
    to_value,
)
from trireme.targets.argo.placeholders import everywhere
from trireme.targets.argo.refusals import NotOnArgo

_TEXT = "type(#) == 'string' ? # : toJson(#)"


@dataclass
class Scope:
    """What a template of tasks can refer to: their Argo names, and their outputs so far."""

    inputs: dict[str, Value]
    names: dict[str, str]
    outputs: dict[tuple[str, str], Output] = field(default_factory=dict)

    def given(self, task: model.Task) -> dict[str, Value]:
        """Returns the values of a task's inputs."""
        definitions = task.component.input_parameters
        guarded = task.runs_after_failure
        values: dict[str, Value] = {}
        later = {}
        for key, argument in task.inputs.items():
            if isinstance(argument.source, model.Constant):
                later[key] = argument.source.value
                continue
            value = self.reference(argument.source, task.name, guarded=guarded)
            defined = definitions.get(key)
            has_default = defined is not None and defined.default is not ABSENT
            if guarded and defined and has_default and isinstance(argument.source, OutputOf):
                default = Constant(value=defined.default)
                value = Value(f"({value.native} ?? {default.native})")
            if argument.member:
                selected = member(as_json(value.native), argument.member)
                is_text = defined is not None and defined.type == "STRING"
                value = Value(as_text(selected) if is_text else selected)
            values[key] = value
        # Constants may refer to the other inputs.
        return values | {key: filled(value, values, task.name) for key, value in later.items()}

    def reference(self, source: model.Source, task: str, *, guarded: bool = False) -> Value:
        """Returns the value of a source; guarded, it is null where a task has left none."""
        try:
            if isinstance(source, InputOf):
                return self.inputs[source.name]
            if isinstance(source, OutputOf):
                return self.outputs[source.task, source.key](guarded)
            if isinstance(source, StatusOf):
                return _final_status(source.task, self.names[source.task])
        except KeyError as error:
            raise InputError(f"task {task}: refers to {error}, which does not exist") from None
        return filled(source.value, {}, task)


def _final_status(task: str, name: str) -> Value:
    """Returns kfp's ``PipelineTaskFinalStatus`` of a task; Argo knows no message."""
    state = f"{member('tasks', name)}.status == 'Succeeded' ? 'SUCCEEDED' : 'FAILED'"
    return to_value(
        {
            "state": Value(state),
            "pipelineJobResourceName": Value("workflow.name"),
            "pipelineTaskName": task,
            "error": {},
        }
    )


def filled(constant: Any, inputs: Mapping[str, Value], task: str) -> Value:
    """Returns the value of a constant, the placeholders in it filled."""
    return to_value(_parts(constant, inputs, task))


def _parts(constant: Any, inputs: Mapping[str, Value], task: str) -> Any:
    if isinstance(constant, str):
        return _text(constant, inputs, task)
    if isinstance(constant, dict):
        return {key: _parts(value, inputs, task) for key, value in constant.items()}
    if isinstance(constant, list):
        return [_parts(item, inputs, task) for item in constant]
    return constant


def _text(text: str, inputs: Mapping[str, Value], task: str) -> Any:
    parts: list[Value | str] = []
    for is_placeholder, piece in pieces(text):
        filling = _filling(piece, inputs, task) if is_placeholder else piece
        if parts and isinstance(filling, str) and isinstance(parts[-1], str):
            parts[-1] += filling
        else:
            parts.append(filling)
    if all(isinstance(part, str) for part in parts):
        return "".join(map(str, parts))
    if len(parts) == 1:
        return parts[0]
    return Value(f"join(map({native(parts)}, {_TEXT}), '')")


def _filling(inside: str, inputs: Mapping[str, Value], task: str) -> Value | str:
    if value := everywhere(inside, task):
        return value.value if isinstance(value, Constant) else value
    reference = keyed(inside)
    if reference and reference[:2] == ("inputs", "parameters") and reference.key in inputs:
        return inputs[reference.key]
    raise NotOnArgo(f"task {task}", f"the placeholder {{{{${inside}}}}} in a constant")


def as_json(value: str) -> str:
    """Returns an expression for a value that may be the JSON of it."""
    return f"map([{value}], type(#) == 'string' ? fromJSON(#) : #)[0]"


def as_text(value: str) -> str:
    """Returns an expression for a value as a parameter of strings gets it."""
    return f"map([{value}], {_TEXT})[0]"


_TOKEN = re.compile(
    r"\s*(?:"
    r"inputs\.parameter_values\['(?P<input>[^']+)'\]"
    r"|(?P<string>'(?:[^'\\]|\\.)*'|\"(?:[^\"\\]|\\.)*\")"
    r"|(?P<operator>&&|\|\||==|!=|<=|>=|<|>)"
    r"|(?P<same>!|\(|\)|-?\d+(?:\.\d+)?|int\b|float\b|double\b|string\b"
    r"|true\b|false\b)"
    r")\s*"
)


def condition(cel: str, inputs: Mapping[str, Value], task: str) -> str:
    """Returns an expression that evaluates to whether a task is to run."""
    # The SDK writes a small part of CEL, which the two languages share but for how inputs are
    # named:
    # https://github.com/kubeflow/pipelines/blob/master/sdk/python/kfp/compiler/pipeline_spec_builder.py
    tokens = []
    position = 0
    while position < len(cel):
        token = _TOKEN.match(cel, position)
        if token is None:
            raise NotOnArgo(f"task {task}", f"the condition {cel!r}")
        position = token.end()
        if token["input"]:
            tokens.append(inputs[token["input"]].native)
        elif token["string"]:
            tokens.append(quoted(ast.literal_eval(token["string"])))
        elif token["operator"]:
            tokens.append(f" {token['operator']} ")
        else:
            tokens.append({"double": "float"}.get(token["same"], token["same"]))
    return "".join(tokens)
