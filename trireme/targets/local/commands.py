"""The command of a step here: kfp's placeholders filled, its inputs and outputs as files."""

import json
import re
import shutil
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from trireme.errors import InputError, TriremeError
from trireme.graph import values
from trireme.graph.model import ABSENT, EXECUTOR_INPUT
from trireme.graph.placeholders import Keyed, keyed, pieces, words
from trireme.targets.local import containers
from trireme.targets.local.engine import Call, Place, Values
from trireme.text.json_values import whole

OUTPUT = "executor_output.json"
"""What kfp's executor leaves in the folder of a step."""

_KFP = re.compile(r"'kfp==[^']*'")
"""What kfp's shell command installs before: the executor, which is here, and may be another one."""

_PROGRAM = '"$program_path/ephemeral_component.py"'
"""What is in kfp's shell command before the source of the step's function."""


def executor_input(call: Call) -> Values:
    """Returns kfp's ``ExecutorInput`` of a step."""
    inputs: Values = {}
    if call.values:
        inputs["parameterValues"] = call.values
    if call.artifacts:
        inputs["artifacts"] = {name: {"artifacts": items} for name, items in call.artifacts.items()}
    outputs: Values = {"outputFile": str(call.directory / OUTPUT)}
    if parameters := call.step.output_parameters:
        outputs["parameters"] = {
            name: {"outputFile": str(call.directory / name)} for name in parameters
        }
    if artifacts := call.step.output_artifacts:
        outputs["artifacts"] = {name: {"artifacts": [_made(call, name)]} for name in artifacts}
    return {"inputs": inputs, "outputs": outputs}


def command_line(call: Call, place: Place, python: str = sys.executable) -> list[str]:
    """Returns the command and the arguments of a step that is a Python function.

    Args:
        python: What runs in place of ``python3``, but for what the step's own source says.
    """
    line: list[str] = []
    is_source = False
    for word in _words(call.step.command, call):
        if not is_source:
            word = _KFP.sub("'kfp'", word).replace("python3", python)
        line.append(word if is_source else filled(word, call, place))
        is_source = _PROGRAM in word
    return line + [filled(word, call, place) for word in _words(call.step.arguments, call)]


def in_a_container(call: Call, place: Place, name: str, variables: dict[str, str]) -> list[str]:
    """Returns what runs a step that only its image could run.

    Args:
        name: What the container is called.
        variables: Those of the step, filled.
    """
    words, arguments = (
        [filled(word, call, place) for word in _words(part, call)]
        for part in (call.step.command, call.step.arguments)
    )
    volumes = [Path(volume) for volume in call.step.volumes if Path(volume).exists()]
    folders = [place.artifacts, place.workspace, *volumes]
    for artifact in (artifact for items in call.artifacts.values() for artifact in items):
        uri = Path(artifact["uri"])
        if uri.is_absolute() and uri.exists() and place.artifacts not in uri.parents:
            folders.append(uri)
    image = filled(call.step.image, call, place)
    if not image or image.startswith("-"):
        raise InputError(f"task {call.task}: {image!r} is no image")
    passed = call.step.from_the_cluster - variables.keys()
    return containers.command(
        name, image, words, arguments, variables, passed, list(dict.fromkeys(folders))
    )


def filled(text: str, call: Call, place: Place) -> str:
    """Returns a text of a step's container with its placeholders filled."""
    return "".join(
        _filling(piece, call, place) if is_placeholder else piece
        for is_placeholder, piece in pieces(text)
    )


def outputs(call: Call) -> Values:
    """Returns what a step has left.

    Raises:
        TriremeError: It cannot be read.
    """
    output: Values = {}
    file = call.directory / OUTPUT
    try:
        if file.exists() and (text := file.read_text()):
            output = json.loads(text)
        result = {name: _left(call, name, output) for name in call.step.output_parameters}
        artifacts = output.get("artifacts", {})
        for name, artifact in call.step.output_artifacts.items():
            left = artifacts.get(name, {}).get("artifacts") or [_made(call, name)]
            result[name] = [{**_at_its_uri(item), "type": artifact.schema} for item in left]
    except (OSError, ValueError, AttributeError, TypeError, KeyError) as error:
        raise TriremeError(f"step {call.task}: its outputs cannot be read: {error}") from None
    return {name: value for name, value in result.items() if value is not ABSENT}


def prepare(call: Call) -> None:
    """Makes the folder of a step's outputs, without what an earlier try has left."""
    call.directory.mkdir(parents=True, exist_ok=True)
    for name in (OUTPUT, *call.step.outputs):
        left = call.directory / name
        shutil.rmtree(left) if left.is_dir() and not left.is_symlink() else left.unlink(True)


def _at_its_uri(artifact: Values) -> Values:
    """Returns an artifact that a step has left, which is copied where it was left elsewhere."""
    elsewhere, uri = artifact.pop("custom_path", ""), Path(artifact["uri"])
    if elsewhere and Path(elsewhere).exists() and not uri.exists():
        copy = shutil.copytree if Path(elsewhere).is_dir() else shutil.copyfile
        copy(elsewhere, uri)
    return artifact


def _left(call: Call, name: str, output: Values) -> Any:
    """Returns an output that is a value: what the executor says, or what is in a file."""
    definition = call.step.output_parameters[name]
    parameters = output.get("parameterValues", {})
    if name in parameters:
        value = parameters[name]
    elif (file := call.directory / name).exists():
        value = file.read_text()
        if definition.type != "STRING":
            value = json.loads(value.strip().lower() if definition.type == "BOOLEAN" else value)
    else:
        return ABSENT
    return whole(value) if definition.type in ("NUMBER_INTEGER", "LIST", "STRUCT") else value


def _words(command: Sequence[str], call: Call) -> list[str]:
    """Returns the words of a command line, in which kfp may leave some out."""

    def is_given(name: str) -> bool:
        definition = call.step.input_parameters.get(name)
        has_default = definition is not None and definition.default not in (ABSENT, None)
        return name in call.values or name in call.artifacts or has_default

    return [word for structured in command for word in words(structured, is_given)]


def _filling(inside: str, call: Call, place: Place) -> str:
    if f"{{{{${inside}}}}}" == EXECUTOR_INPUT:
        return json.dumps(executor_input(call))
    value = place.placeholder(inside, call.task)
    if value is ABSENT and inside in (".outputs.output_file", ".outputMetadataUri"):
        value = str(call.directory / OUTPUT)
    if value is ABSENT and (reference := keyed(inside)):
        value = _referred(reference, call)
    if value is ABSENT:
        raise InputError(f"task {call.task}: there is no value for {{{{${inside}}}}}")
    return values.text_of(value)


def _referred(reference: Keyed, call: Call) -> Any:
    """Returns the input or output that a placeholder asks for; ABSENT if there is none."""
    key, attribute = reference.key, reference.attribute
    if reference.side == "inputs" and reference.kind == "parameters":
        if key in call.values:
            return call.values[key]
        definition = call.step.input_parameters.get(key)
        return definition.default if definition else ABSENT
    if reference.kind == "parameters":
        is_known = key in call.step.output_parameters
        return str(call.directory / key) if is_known else ABSENT
    artifact: Values = {}
    if reference.side == "inputs":
        artifact = next(iter(call.artifacts.get(key, [])), {})
    elif key in call.step.output_artifacts:
        artifact = _made(call, key)
    if not artifact or not attribute:
        return artifact or ABSENT
    value = artifact["uri" if attribute == "path" else attribute]
    return value.get(reference.item, ABSENT) if reference.item else value


def _made(call: Call, name: str) -> Values:
    """Returns an output artifact as it is before the step runs."""
    schema = call.step.output_artifacts[name].schema
    return {"name": name, "type": schema, "uri": str(call.directory / name), "metadata": {}}
