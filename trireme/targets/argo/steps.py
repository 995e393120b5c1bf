"""A task that is a container: its inputs, its outputs, and its command.

On Kubeflow a driver makes the executor input and fills the command's placeholders at run time; here
Argo's own substitution does both, in the texts that this makes.
"""

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

from trireme.graph import model
from trireme.graph.model import ABSENT, EXECUTOR_INPUT, Parameter
from trireme.graph.placeholders import Keyed, keyed, pieces, words
from trireme.graph.reading import source_of
from trireme.targets.argo.expressions import (
    Constant,
    Output,
    Value,
    constant,
    document,
    executor_artifact,
    executor_output,
    file_output,
    name_value,
    parameter,
    quoted,
    to_value,
    word,
    word_tag,
)
from trireme.targets.argo.placeholders import ARTIFACTS, DIRECTORY, IN_LOOP, everywhere
from trireme.targets.argo.refusals import NotOnArgo
from trireme.targets.argo.scope import Scope
from trireme.targets.argo.templates import Call, inner_directory

FILE = "executor_output.json"
"""What kfp's executor leaves."""

_NO_TEXT = Parameter("", "")

OUTPUTS = "/kfp/outputs"
"""Where a step without artifacts writes its outputs."""


@dataclass
class Container:
    """A task that is a container, what its template needs besides, and its task config."""

    call: Call
    step: model.Step
    scope: Scope
    has_workspace: bool
    more: dict[str, Value] = field(default_factory=dict)
    task_config: dict[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.name, self.given = self.call.key, self.call.given
        self.directory = inner_directory(self.call.directory)
        self.parameters = self.step.input_parameters
        self.artifacts = self.step.input_artifacts
        self.output_parameters = self.step.output_parameters
        self.output_artifacts = self.step.output_artifacts
        self.has_executor = any(EXECUTOR_INPUT in argument for argument in self.step.command_line)
        source = "\n".join(self.step.command_line)
        # A function may write to a file that it is given as an OutputPath; any other returns.
        self.writes_files = "OutputPath" in source or "def " not in source
        self.root = f"{ARTIFACTS}/{self.directory}" if self.output_artifacts else OUTPUTS

    def arguments(self) -> dict[str, Value]:
        """Returns what the template is given, by the names of its inputs; to be called after it."""
        return {
            key: value for key, value in self.given.items() if key in self.input_names()
        } | self.more

    def outputs(self, task: str) -> Iterator[tuple[str, Output]]:
        """Yields the name of each output, and where it is to be had."""
        for key, declared in self.output_parameters.items():
            if self.has_executor:
                files = self.writes_files
                yield key, executor_output(task, key, may_be_file=files, kind=declared.type)
            else:
                yield key, file_output(task, key, declared.type)
        for key, artifact in self.output_artifacts.items():
            if self.has_executor:
                yield key, executor_artifact(task, key, artifact.schema)
            else:
                yield key, constant(to_value([self.artifact(key, artifact.schema)]))

    def input_names(self) -> list[str]:
        """Returns the names of the template's inputs."""
        parameters = [key for key, declared in self.parameters.items() if not _is_config(declared)]
        return [*parameters, *self.artifacts, *self.more]

    def words(self, line: Sequence[str]) -> list[str]:
        """Returns a command line with its placeholders filled, or Argo told to."""
        every = (text for structured in line for text in words(structured, self._is_given))
        return [
            "".join(
                self._in_word(piece) if is_placeholder else word(piece)
                for is_placeholder, piece in pieces(text)
            )
            for text in every
        ]

    def _is_given(self, key: str) -> bool:
        value = self.given.get(key)
        if value is None:
            return key in self.parameters and self.parameters[key].default is not ABSENT
        if value.maybe_absent:
            raise NotOnArgo(
                f"task {self.name}", f"a command that depends on whether {key} is given at run time"
            )
        return not (isinstance(value, Constant) and value.value is None)

    def _in_word(self, inside: str) -> str:
        """Returns what stands in a command line for a placeholder."""
        if inside == "":
            return self.executor_input()
        reference = keyed(inside)
        if reference and reference.side == "inputs" and reference.kind == "parameters":
            value = self._own(reference.key)
            if self.parameters.get(reference.key, _NO_TEXT).type != "STRING":
                return word_tag(value.json)
            value_given = self.given.get(reference.key)
            never_absent = value_given is not None and not value_given.maybe_absent
            return word_tag(value.native if never_absent else f"({value.native} ?? 'null')")
        value = self.placeholder(inside)
        if isinstance(value, Constant):
            return value.value if isinstance(value.value, str) else json.dumps(value.value)
        is_text = not reference or reference.attribute in ("uri", "path")
        return word_tag(value.native if is_text else value.json)

    def text(self, text: str) -> Any:
        """Returns a text of the pod's specification; a Value, if it is known at run time only."""
        values = [
            self.placeholder(piece) if is_placeholder else piece
            for is_placeholder, piece in pieces(text)
        ]
        if len(values) > 1:
            raise NotOnArgo(f"task {self.name}", f"the value {text!r} of its pod's specification")
        value = values[0]
        return Value(f"string({value.native})") if isinstance(value, Value) else value

    def placeholder(self, inside: str) -> Value:
        """Returns the value, in the template, that a placeholder stands for."""
        if value := everywhere(inside, self.name):
            return value
        if inside in (".outputs.output_file", ".outputMetadataUri"):
            return to_value(self.path(FILE))
        reference = keyed(inside)
        if reference and reference.side == "inputs" and reference.kind == "parameters":
            return self._own(reference.key)
        if reference and reference.side == "inputs":
            return self._input_artifact(reference)
        if reference and reference.kind == "parameters" and reference.attribute == "output_file":
            return to_value(self.path(reference.key))
        if reference and reference.key in self.output_artifacts:
            return self._output_artifact(reference)
        raise NotOnArgo(f"task {self.name}", f"the placeholder {{{{${inside}}}}}")

    def _input_artifact(self, reference: Keyed) -> Value:
        first = f"{parameter(reference.key).native}[0]"
        if not reference.attribute:
            return Value(first)
        native = f"{first}.{'uri' if reference.attribute == 'path' else reference.attribute}"
        return Value(f"{native}['{reference.item}']" if reference.item else native)

    def _output_artifact(self, reference: Keyed) -> Value:
        artifact = self.artifact(reference.key, self.output_artifacts[reference.key].schema)
        if reference.attribute in ("uri", "path"):
            return to_value(artifact["uri"])
        return to_value(artifact["metadata"] if reference.attribute else artifact)

    def _own(self, key: str) -> Value:
        """Returns an input of the task, which becomes one of the template if it is not yet."""
        if key not in self.parameters:
            self.more[key] = self.given[key]
        return parameter(key)

    def refer(self, source: dict[str, Any]) -> Value:
        """Returns what a reference in the pod's specification stands for."""
        value = self.scope.reference(source_of(source), self.name)
        if isinstance(value, Constant):
            return value
        key = next(iter(source.values()))
        name = key if isinstance(key, str) else f"{key['producerTask']}-{key['outputParameterKey']}"
        while name in self.parameters and self.given.get(name) != value:
            name += "-of-the-pod"
        if name not in self.parameters:
            self.more[name] = value
        return parameter(name)

    def path(self, name: str) -> str | Value:
        """Returns the path of a file that the step leaves; a Value, if it is in a loop."""
        path = f"{self.root}/{name}"
        if IN_LOOP not in path:
            return path
        before, after = path.split(IN_LOOP)
        middle = parameter(DIRECTORY).text
        return name_value(f"{quoted(before)} + {middle} + {quoted(after)}")

    def artifact(self, key: str, schema: dict[str, Any]) -> dict[str, Any]:
        """Returns kfp's ``RuntimeArtifact`` of an output, as it is before the step runs."""
        return {"name": key, "type": schema, "uri": self.path(key), "metadata": {}}

    def executor_input(self) -> str:
        """Returns kfp's ``ExecutorInput``, the JSON in which Argo puts the values."""
        inputs = {
            "parameterValues": {
                key: self.task_config if _is_config(declared) else parameter(key)
                for key, declared in self.parameters.items()
            },
            "artifacts": {key: {"artifacts": parameter(key)} for key in self.artifacts},
        }
        outputs = {
            "parameters": {key: {"outputFile": self.path(key)} for key in self.output_parameters},
            "artifacts": {
                key: {"artifacts": [self.artifact(key, artifact.schema)]}
                for key, artifact in self.output_artifacts.items()
            },
            "outputFile": self.path(FILE),
        }
        return document({"inputs": inputs, "outputs": outputs})


def _is_config(declared: Parameter) -> bool:
    return declared.type == "TASK_CONFIG"
