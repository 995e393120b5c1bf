"""The pipelines there are, and their parameters."""

import difflib
import importlib
import json
from collections.abc import Callable, Collection
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from trireme.components import yaml_text
from trireme.components.errors import InputError

if TYPE_CHECKING:
    from kfp.dsl.graph_component import GraphComponent

    from trireme.pipelines.training import Trainings

PIPELINES = {
    "pytorch-training": "Train with PyTorch on one or many processes",
    "tensorflow-training": "Train with TensorFlow, by AllReduce or with parameter servers",
    "sweep": "Train many models with different parameters, and keep the best",
    "retraining": "Train again if code, data or parameters have changed, and keep the better model",
}
"""Names and one-line descriptions; ``pipelines/NAME.py`` holds each, with dashes as underscores."""

TYPES: dict[str, tuple[type | tuple[type, ...], str]] = {
    "STRING": (str, "text"),
    "NUMBER_INTEGER": (int, "whole number"),
    "NUMBER_DOUBLE": ((int, float), "number"),
    "BOOLEAN": (bool, "true or false"),
    "LIST": (list, "JSON list"),
    "STRUCT": (dict, "JSON object"),
}
"""Python types and words for kfp's parameter types."""


SIZE_LIMIT = 100_000  # bytes; kfp hands them over as one argument, which Linux keeps to 128 KiB


@dataclass(frozen=True)
class Parameter:
    """A parameter of a pipeline.

    Attributes:
        name: Its name.
        type: kfp's name of its type, a key of ``TYPES``.
        default: Its default value.
        description: What it means.
    """

    name: str
    type: str
    default: Any
    description: str

    @property
    def type_in_words(self) -> str:
        """The type as a person would say it."""
        return TYPES[self.type][1]

    def parse(self, text: str) -> Any:
        """Returns the value that a person wrote on the command line.

        Raises:
            InputError: It is not of the parameter's type.
        """
        if self.type == "STRING":
            return text
        try:
            value = json.loads(text)
        except ValueError:
            raise self._wrong(text) from None
        return self.accept(value)

    def accept(self, value: Any) -> Any:
        """Returns a value, if it is of the parameter's type.

        Raises:
            InputError: It is not.
        """
        expected = TYPES[self.type][0]
        is_flag = isinstance(value, bool)  # which Python also takes for a number
        fits = isinstance(value, expected) and is_flag == (self.type == "BOOLEAN")
        if not fits:
            raise self._wrong(value)
        try:
            return float(value) if self.type == "NUMBER_DOUBLE" else value
        except OverflowError:
            raise self._wrong(value) from None

    def _wrong(self, value: Any) -> InputError:
        shown = value if isinstance(value, str) else json.dumps(value, default=str)
        return InputError(f"parameter {self.name}: {shown!r} is not a {self.type_in_words}")


@dataclass(frozen=True)
class Pipeline:
    """A pipeline of the catalog.

    Attributes:
        name: Its name.
        graph: The kfp pipeline.
        check: Refuses parameter values that could not work, with an InputError; for a run on a
            cluster its second argument are the claims that the pods have mounted.
        trainings: Returns the trainings that parameter values describe.
    """

    name: str
    graph: "GraphComponent"
    check: Callable[[dict[str, Any], Collection[str] | None], None]
    trainings: Callable[[dict[str, Any]], "Trainings"]

    @cached_property
    def parameters(self) -> dict[str, Parameter]:
        """The pipeline's parameters by name, in the order they are written in."""
        from kfp.pipeline_spec.pipeline_spec_pb2 import ParameterType

        inputs = self.graph.pipeline_spec.root.input_definitions.parameters
        return {
            name: Parameter(
                name=name,
                type=ParameterType.ParameterTypeEnum.Name(inputs[name].parameter_type),
                default=self._default(name),
                description=" ".join(inputs[name].description.split()),
            )
            for name in self.graph.component_spec.inputs
        }

    def arguments(
        self, given: list[str], file: Path | None, claims: Collection[str] | None = None
    ) -> dict[str, Any]:
        """Returns a value for every parameter, checked.

        Args:
            given: ``name=value`` as on the command line; these win over the file.
            file: A YAML file that maps names to values.
            claims: For a run on a cluster, the claims that its pods have mounted; what only this
                machine could tell is not checked then.

        Raises:
            InputError: A parameter is unknown, or its value cannot work.
        """
        return self.complete(self.given(given, file), claims)

    def given(self, pairs: list[str], file: Path | None) -> dict[str, Any]:
        """Returns the values that a person has given.

        Args:
            pairs: ``name=value`` as on the command line; these win over the file.
            file: A YAML file that maps names to values.

        Raises:
            InputError: A parameter is unknown, or its value is of another type.
        """
        values = self.accept(_read(file))
        for pair in pairs:
            name, equals, text = pair.partition("=")
            if not equals:
                raise InputError(f"-p {pair!r}: must be name=value")
            values[name] = self._parameter(name).parse(text)
        return values

    def accept(self, values: dict[str, Any]) -> dict[str, Any]:
        """Returns values by name, if the pipeline has such parameters.

        Raises:
            InputError: A parameter is unknown, or its value is of another type.
        """
        return {name: self._parameter(name).accept(value) for name, value in values.items()}

    def complete(
        self, given: dict[str, Any], claims: Collection[str] | None = None
    ) -> dict[str, Any]:
        """Returns a value for every parameter, checked.

        Args:
            given: Some of them; the others are the defaults.
            claims: As for ``arguments``.

        Raises:
            InputError: A value cannot work.
        """
        defaults = {name: parameter.default for name, parameter in self.parameters.items()}
        values = defaults | given
        _check_size(values)
        self.check(values, claims)
        return values

    def _default(self, name: str) -> Any:
        return self.graph.component_spec.inputs[name].default

    def _parameter(self, name: str) -> Parameter:
        if name in self.parameters:
            return self.parameters[name]
        close = difflib.get_close_matches(name, self.parameters, n=1)
        hint = f"did you mean {close[0]}?" if close else f"it has {', '.join(self.parameters)}"
        raise InputError(f"{self.name} has no parameter {name!r}; {hint}")


def load(name: str) -> Pipeline:
    """Returns a pipeline by name.

    Raises:
        InputError: There is no such pipeline.
    """
    if name not in PIPELINES:
        raise InputError(f"there is no pipeline {name!r}; there are {', '.join(PIPELINES)}")
    identifier = name.replace("-", "_")
    module = importlib.import_module(f"trireme.pipelines.{identifier}")
    return Pipeline(name, getattr(module, identifier), module.check, module.trainings)


def _check_size(values: dict[str, Any]) -> None:
    """Refuses what could not be handed to a step as it is."""
    text = json.dumps(values, ensure_ascii=False)
    size = len(text.encode(errors="replace"))
    if size > SIZE_LIMIT:
        raise InputError(f"the parameters hold {size:,} bytes; at most {SIZE_LIMIT:,} are possible")
    if "{{$" in text:
        raise InputError("parameters cannot hold '{{$', which kfp would take for a placeholder")


def _read(file: Path | None) -> dict[str, Any]:
    if file is None:
        return {}
    content = yaml_text.read(file, f"--params {file}")
    if content is None:
        return {}
    if not isinstance(content, dict) or not all(isinstance(name, str) for name in content):
        raise InputError(f"--params {file}: must map parameter names to values")
    return content
