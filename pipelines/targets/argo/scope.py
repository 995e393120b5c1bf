"""The values that a task's inputs have, as expressions in the template that the task is in."""

import ast
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from trireme.components.errors import InputError
from trireme.pipelines.targets.argo.expressions import (
    Constant,
    Output,
    Value,
    member,
    native,
    quoted,
    to_value,
)
from trireme.pipelines.targets.argo.placeholders import everywhere, keyed, pieces
from trireme.pipelines.targets.argo.reading import NotOnArgo, plain

_MEMBER = re.compile(r'parseJson\(string_value\)\["(.+)"\]')
_TEXT = "type(#) == 'string' ? # : toJson(#)"


@dataclass
class Scope:
    """What a template of tasks can refer to: their Argo names, and their outputs so far."""

    inputs: dict[str, Value]
    names: dict[str, str]
    outputs: dict[str, dict[tuple[str, str], Output]] = field(
        default_factory=lambda: {"parameters": {}, "artifacts": {}}
    )

    def given(self, name: str, task: dict[str, Any], component: dict[str, Any]) -> dict[str, Value]:
        """Returns the values of a task's inputs."""
        inputs = task.get("inputs", {})
        known = component.get("inputDefinitions", {}).get("parameters", {})
        guarded = is_last_resort(task)
        values: dict[str, Value] = {}
        later = {}
        for key, source in inputs.get("parameters", {}).items():
            kind = known.get(key, {}).get("parameterType", "")
            if "runtimeValue" in source:
                later[key] = plain(source["runtimeValue"].get("constant"), kind)
                continue
            value = self.reference(source, name, guarded=guarded)
            if guarded and "defaultValue" in known.get(key, {}) and "taskOutputParameter" in source:
                default = Constant(value=plain(known[key]["defaultValue"], kind))
                value = Value(f"({value.native} ?? {default.native})")
            if "parameterExpressionSelector" in source:
                value = _selected(value, source["parameterExpressionSelector"], kind, name)
            values[key] = value
        for key, source in inputs.get("artifacts", {}).items():
            values[key] = self.reference(source, name, guarded=guarded)
        # Constants may refer to the other inputs.
        return values | {key: filled(value, values, name) for key, value in later.items()}

    def reference(self, source: dict[str, Any], task: str, *, guarded: bool = False) -> Value:
        """Returns the value of kfp's reference; guarded, it is null where a task has left none."""
        try:
            return self._referred(source, task, guarded)
        except KeyError as error:
            raise InputError(f"task {task}: refers to {error}, which does not exist") from None

    def _referred(self, source: dict[str, Any], task: str, guarded: bool) -> Value:
        for kind, outputs in (("Parameter", "parameters"), ("Artifact", "artifacts")):
            if f"componentInput{kind}" in source:
                return self.inputs[source[f"componentInput{kind}"]]
            if wanted := source.get(f"taskOutput{kind}"):
                key = wanted["producerTask"], wanted[f"output{kind}Key"]
                return self.outputs[outputs][key](guarded)
        if "taskFinalStatus" in source:
            producer = source["taskFinalStatus"]["producerTask"]
            return _final_status(producer, self.names[producer])
        return filled(source["runtimeValue"].get("constant"), {}, task)


def is_last_resort(task: dict[str, Any]) -> bool:
    """Whether a task runs even where what it comes after has failed."""
    return str(task.get("triggerPolicy", {}).get("strategy", "")) == "ALL_UPSTREAM_TASKS_COMPLETED"


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
        return {key: _parts(each, inputs, task) for key, each in constant.items()}
    if isinstance(constant, list):
        return [_parts(each, inputs, task) for each in constant]
    return constant


def _text(text: str, inputs: Mapping[str, Value], task: str) -> Any:
    made: list[Value | str] = []
    for is_placeholder, piece in pieces(text):
        filling = _filling(piece, inputs, task) if is_placeholder else piece
        if made and isinstance(filling, str) and isinstance(made[-1], str):
            made[-1] += filling
        else:
            made.append(filling)
    if all(isinstance(each, str) for each in made):
        return "".join(map(str, made))
    if len(made) == 1:
        return made[0]
    return Value(f"join(map({native(made)}, {_TEXT}), '')")


def _filling(inside: str, inputs: Mapping[str, Value], task: str) -> Value | str:
    if value := everywhere(inside, task):
        return value.value if isinstance(value, Constant) else value
    reference = keyed(inside)
    if reference and reference[:2] == ("inputs", "parameters") and reference.key in inputs:
        return inputs[reference.key]
    raise NotOnArgo(f"task {task}", f"the placeholder {{{{${inside}}}}} in a constant")


def _selected(value: Value, selector: str, kind: str, task: str) -> Value:
    """Returns a member of a value, as text where a step wants text."""
    match = _MEMBER.fullmatch(selector)
    if match is None:
        raise NotOnArgo(f"task {task}", f"the selection {selector!r}")
    selected = member(value.native, match[1])
    return Value(as_text(selected) if kind == "STRING" else selected)


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
    made = []
    position = 0
    while position < len(cel):
        token = _TOKEN.match(cel, position)
        if token is None:
            raise NotOnArgo(f"task {task}", f"the condition {cel!r}")
        position = token.end()
        if token["input"]:
            made.append(inputs[token["input"]].native)
        elif token["string"]:
            made.append(quoted(ast.literal_eval(token["string"])))
        elif token["operator"]:
            made.append(f" {token['operator']} ")
        else:
            made.append({"double": "float"}.get(token["same"], token["same"]))
    return "".join(made)
