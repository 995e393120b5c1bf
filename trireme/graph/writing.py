"""Write a graph as the YAML that kfp writes, which Kubeflow Pipelines is given."""

import json
from pathlib import Path
from typing import Any

import yaml

from trireme.errors import InputError
from trireme.files.whole_file import linked, write_whole
from trireme.graph import reading
from trireme.graph.graph import Graph

_TYPES = {
    "STRING": "str",
    "NUMBER_INTEGER": "int",
    "NUMBER_DOUBLE": "float",
    "BOOLEAN": "bool",
    "LIST": "list",
    "STRUCT": "dict",
    "TASK_FINAL_STATUS": "PipelineTaskFinalStatus",
    "TASK_CONFIG": "TaskConfig",
}

_INDENT = "\n#              "


def text(graph: Graph) -> str:
    """Returns the YAML of a graph, below the comment in which kfp tells people of it.

    Raises:
        InputError: What was written does not read as the same graph.
    """
    documents = [graph.document, *([{"platforms": graph.platforms}] if graph.platforms else [])]
    written = _comment(graph) + yaml.dump_all(documents, sort_keys=True)
    again = reading.of_yaml(written)
    if (again.document, again.platforms) != (graph.document, graph.platforms):
        raise InputError(f"{graph.name}: cannot be written as YAML")
    return written


def write(graph: Graph, file: Path) -> None:
    """Writes a graph to a file, whose folder is there."""
    write_whole(linked(file), text(graph))


def _comment(graph: Graph) -> str:
    lines = ["# PIPELINE DEFINITION", f"# Name: {graph.name}"]
    if graph.description:
        lines.append(f"# Description: {_INDENT.join(graph.description.splitlines())}")
    for heading, side in (("Inputs", "inputDefinitions"), ("Outputs", "outputDefinitions")):
        if definitions := graph.document["root"].get(side):
            lines.append(f"# {heading}:")
            lines += _lines(definitions)
    return "".join(f"{line}\n" for line in lines)


def _lines(definitions: dict[str, Any]) -> list[str]:
    types = {}
    for name, spec in definitions.get("parameters", {}).items():
        default = f" [Default: {_shown(spec['defaultValue'])}]" if "defaultValue" in spec else ""
        types[name] = f"{_TYPES.get(spec.get('parameterType', ''), '')}{default}"
    for name, spec in definitions.get("artifacts", {}).items():
        types[name] = spec.get("artifactType", {}).get("schemaTitle", "")
    return [f"#    {name}: {types[name]}" for name in sorted(types)]


def _shown(default: Any) -> str:
    """Returns a default value on one line, whatever is in it."""
    shown = f"'{default}'" if isinstance(default, str) else str(default)
    return shown if shown.isprintable() else json.dumps(default)
