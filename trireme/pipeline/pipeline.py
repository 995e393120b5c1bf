"""A pipeline, whoever wrote it: its graph, its parameters, and what is refused before it runs."""

import difflib
import json
import secrets
import shlex
import time
from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from trireme.errors import InputError
from trireme.graph.model import ABSENT
from trireme.graph.model import Parameter as Declared
from trireme.pipeline import saved
from trireme.pipeline.logins import Connect
from trireme.pipeline.values import check as check_values
from trireme.text import json_values, yaml_text

if TYPE_CHECKING:
    from trireme.code.bundle import Bundle
    from trireme.graph.changing import Draft
    from trireme.graph.graph import Graph
    from trireme.pipelines.training import Trainings

TYPES: dict[str, tuple[type | tuple[type, ...], str]] = {
    "STRING": (str, "text"),
    "NUMBER_INTEGER": (int, "whole number"),
    "NUMBER_DOUBLE": ((int, float), "number"),
    "BOOLEAN": (bool, "true or false"),
    "LIST": (list, "JSON list"),
    "STRUCT": (dict, "JSON object"),
}
"""Python types and words for kfp's parameter types."""

AS_WORDS = ("args", "requirements")
"""Lists of texts that may be written as the words of a command line are."""

SIZE_LIMIT = 100_000  # bytes; kfp hands them over as one argument, which Linux keeps to 128 KiB

Check = Callable[[dict[str, Any], Collection[str] | None], None]


@dataclass(frozen=True)
class Parameter:
    """A parameter of a pipeline, its type one of ``TYPES``; one that is needed has no default."""

    name: str
    type: str
    default: Any
    description: str
    is_needed: bool = False

    @property
    def type_in_words(self) -> str:
        """The type as a person would say it."""
        return TYPES[self.type][1]

    def parse(self, text: str) -> Any:
        """Returns the value that a person wrote on the command line, refused if of another type."""
        if self.type == "STRING":
            return text
        if self.type == "BOOLEAN" and text in ("True", "False"):  # as Python has them
            return text == "True"
        if self.name in AS_WORDS and not text.lstrip().startswith("["):
            return self._words(text)
        try:
            value = json_values.read(text)
        except json_values.GivenTwiceError as error:
            raise InputError(f"parameter {self.name}: {error}") from None
        except (ValueError, RecursionError):
            raise self._wrong(text) from None
        return self.accept(value)

    def _words(self, text: str) -> list[str]:
        try:
            return shlex.split(text)
        except ValueError as error:
            raise InputError(f"parameter {self.name}: {text!r}: {error}") from None

    def accept(self, value: Any) -> Any:
        """Returns a value, refused if of another type."""
        if getattr(value, "ndim", None) == 0:  # a number of NumPy's
            value = value.item()
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
        article = "" if self.type == "BOOLEAN" else "a "
        return InputError(f"parameter {self.name}: {shown!r} is not {article}{self.type_in_words}")


@dataclass(frozen=True)
class Pipeline:
    """A pipeline that can be compiled and run.

    Attributes:
        name: Its name, as kfp has it.
        graph: What kfp has compiled.
        check: Refuses parameter values that could not work, with an InputError; for a run on a
            cluster its second argument are the claims that the pods have mounted.
        trainings: Returns the trainings that parameter values describe, where that is known
            before a run.
        planned: Returns what else a plan says of parameter values, by what it is called.
        source: The folder that it was loaded from, whose commit names what is uploaded; None
            for what comes with Trireme.
        claims: Where all of its pods have claims mounted, by the claims' names.
        bundle: Code of this machine that a run of it on a cluster takes along.
        at_once: How many of its steps run at the same time on this machine; None: as many as
            there are CPUs.
    """

    name: str
    graph: "Graph"
    check: Check = lambda values, claims: None
    trainings: "Callable[[dict[str, Any]], Trainings] | None" = None
    planned: "Callable[[dict[str, Any]], dict[str, str]] | None" = None
    source: Path | None = None
    claims: dict[str, Path] = field(default_factory=dict)
    bundle: "Bundle | None" = None
    at_once: int | None = None

    @property
    def display_name(self) -> str:
        """Its name for a person."""
        return self.graph.display_name or self.name

    @cached_property
    def parameters(self) -> dict[str, Parameter]:
        """The pipeline's parameters by name, in the order they are written in."""
        return {parameter.name: parameter for parameter in self._parameters()}

    def name_of_a_run(self) -> str:
        """Returns a name for a run of it, which no other run has, of at most 63 letters."""
        # UIs show how names begin: with what all runs of a pipeline share, they would look alike.
        stamp = f"{time.strftime('%Y%m%d-%H%M%S')}-{secrets.token_hex(2)}"
        return f"{stamp}-{self.name[:42].rstrip('-._')}"

    def changed(self, change: "Callable[[Draft], None]") -> "Pipeline":
        """Returns the same pipeline with another graph: what a function makes of a copy of it."""
        from trireme.graph.changing import changed

        return replace(self, graph=changed(self.graph, change))

    def given(
        self,
        pairs: list[str],
        file: Path | None,
        job: dict[str, Any] | None = None,
        connect: Connect | None = None,
    ) -> dict[str, Any]:
        """Returns the values that a person has given.

        Args:
            pairs: ``name=value`` as on the command line; these win over the file.
            file: A YAML file that maps names to values.
            job: Fields of the training job, which the parameter of that name gets besides.
            connect: See ``saved.expanded``.
        """
        content = _read(file)
        values, written = self.accept(content, connect), {}
        for pair in pairs:
            name, equals, text = pair.partition("=")
            if not equals:
                raise InputError(f"-p {pair!r}: must be name=value")
            is_short = name in saved.SHORT and name not in self.parameters
            names_one = saved.is_name(text) or saved.is_name(content.get(name))
            if is_short or (name == saved.BASE_MODEL and names_one):
                # Of another configuration, in the file, nothing is left.
                values = {k: v for k, v in values.items() if not k.startswith(f"{name}_")}
                written[name] = text
            else:
                written[name] = self._parameter(name).parse(text)
        values |= self.accept(written, connect)
        return self.with_job(values, job) if job else values

    def with_job(self, values: dict[str, Any], job: dict[str, Any]) -> dict[str, Any]:
        """Returns values whose ``job`` has further fields."""
        from trireme.job.reading import merged

        if job and "job" not in self.parameters:
            option = next(iter(job)).replace("_", "-")
            raise InputError(f"--{option}: {self.name} has no parameter job, which takes it")
        if job:
            values |= {"job": merged(values.get("job") or {}, job)}
        if "env" in job and (evaluation := values.get("evaluation")):  # a program of one's own, too
            variables = evaluation.get("env") or {}
            values |= {"evaluation": evaluation | {"env": job["env"] | variables}}
        return values

    def accept(self, values: dict[str, Any], connect: Connect | None = None) -> dict[str, Any]:
        """Returns values by name, refused if a parameter is unknown or of another type.

        What ``code`` and ``dataset`` name in trireme.yaml is among them.

        Args:
            connect: See ``saved.expanded``.
        """
        values = saved.expanded(values, self.parameters, connect)
        return {name: self._parameter(name).accept(value) for name, value in values.items()}

    def complete(
        self, given: dict[str, Any], claims: Collection[str] | None = None
    ) -> dict[str, Any]:
        """Returns a value for every parameter from some of them, checked.

        Args:
            given: Values of the right types, by name.
            claims: For a run on a cluster, the claims that its pods have mounted; what only this
                machine could tell is not checked then.
        """
        lacking = [parameter.name for parameter in self.parameters.values() if parameter.is_needed]
        if lacking := [name for name in lacking if name not in given]:
            raise InputError(f"{self.name} needs {', '.join(f'-p {name}=' for name in lacking)}")
        defaults = {name: parameter.default for name, parameter in self.parameters.items()}
        values = {name: value for name, value in (defaults | given).items() if value is not None}
        check_values(values)
        _check_size(values)
        self.check(values, claims)
        return values

    def _parameters(self) -> Iterator[Parameter]:
        inputs = self.graph.root.inputs
        for name in dict.fromkeys((*self.graph.order, *inputs)):
            declared = inputs[name]
            if not isinstance(declared, Declared):
                raise InputError(
                    f"{self.name}: the input {name} is an artifact, which a command cannot give; "
                    "import it in a step"
                )
            has_default = declared.default is not ABSENT
            yield Parameter(
                name=name,
                type=declared.type,
                default=declared.default if has_default else None,
                description=" ".join(declared.description.split()),
                is_needed=not (declared.is_optional or has_default),
            )

    def _parameter(self, name: str) -> Parameter:
        if name in self.parameters:
            return self.parameters[name]
        close = difflib.get_close_matches(name, self.parameters, n=1)
        if close:
            hint = f"did you mean {close[0]}?"
        else:
            hint = f"it has {', '.join(self.parameters) or 'none'}"
        raise InputError(f"{self.name} has no parameter {name!r}; {hint}")


def _check_size(values: dict[str, Any]) -> None:
    """Refuses what could not be handed to a step as it is."""
    text = json.dumps(values, ensure_ascii=False)
    size = len(text.encode())
    if size > SIZE_LIMIT:
        raise InputError(f"the parameters have {size:,} bytes; the limit is {SIZE_LIMIT:,}")
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
