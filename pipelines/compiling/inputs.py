"""What is given to a step of a compiled pipeline, as far as that is known before a run."""

from collections.abc import Mapping
from typing import Any

from google.protobuf import json_format

from trireme.components.json_values import whole
from trireme.pipelines.compiling.steps import PathTask

_UNKNOWN = object()


def inputs_of(spec: Any, path: list[PathTask], arguments: Mapping[str, Any]) -> dict[str, Any]:
    """Returns the inputs of a step that are constants or parameters of the pipeline.

    Args:
        arguments: A value for every parameter of the pipeline.
    """
    scope, component = dict(arguments), spec.root
    for step in path:
        task = component.dag.tasks[step.name]
        found = {name: _value(given, scope) for name, given in task.inputs.parameters.items()}
        scope = {name: value for name, value in found.items() if value is not _UNKNOWN}
        component = spec.components[task.component_ref.name]
    return {name: whole(value) for name, value in scope.items()}


def _value(given: Any, scope: Mapping[str, Any]) -> Any:
    if given.HasField("component_input_parameter"):
        return scope.get(given.component_input_parameter, _UNKNOWN)
    if given.HasField("runtime_value"):
        constant = json_format.MessageToDict(given.runtime_value.constant)
        return _UNKNOWN if "{{$" in str(constant) else constant
    return _UNKNOWN  # what another step gives
