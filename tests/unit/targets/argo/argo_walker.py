"""Walks a WorkflowTemplate's templates as Argo's controller does, running containers as processes.

It follows the documented semantics - substitution of tags, in passes, in a template's JSON;
``depends`` and ``when``; loops and what comes together; outputs; exit hooks; retries - and the
kubelet's expansion of ``$(…)``. Memoization is left out, and one thing runs after the other.

https://argo-workflows.readthedocs.io/en/latest/variables/
https://argo-workflows.readthedocs.io/en/latest/enhanced-depends-logic/
"""

import contextlib
import json
import os
import re
import subprocess
import sys
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from argo_expressions import SPRIG, ExpressionError, evaluate, to_json, used, words

WORKSPACE, OUTPUTS = "/kfp-workspace", "/kfp/outputs"
GO_ESCAPES = {"\n": "\\n", "\t": "\\t", "\r": "\\r", '"': '\\"', "\\": "\\\\"}


LATE = ("item", "retries")
"""What Argo 3.7.15 and 4.0.6 wait for wherever an expression has the word; later ones do not."""


class WorkflowError(Exception):
    """Argo would end the workflow with an error."""


@dataclass
class Node:
    """What has come of a task: its phase, and its outputs where it has any."""

    phase: str
    outputs: dict[str, str] = field(default_factory=dict)
    exit_code: int = 0
    rounds: list["Node"] | None = None


@dataclass
class Walker:
    """A workflow that is made from a WorkflowTemplate."""

    manifest: dict[str, Any]
    directory: Path
    given: dict[str, str] = field(default_factory=dict)
    pods: list[dict[str, Any]] = field(default_factory=list)

    def run(self) -> Node:
        spec = self.manifest["spec"]
        self.templates = {template["name"]: template for template in spec["templates"]}
        parameters = [dict(each) for each in spec.get("arguments", {}).get("parameters", [])]
        for each in parameters:
            each["value"] = self.given.get(each["name"], each.get("value"))
            if each["value"] is None:
                raise WorkflowError(f"{each['name']} has no value")
            if "enum" in each and each["value"] not in each["enum"]:
                raise WorkflowError(f"{each['value']} is none of {each['enum']}")
        self.names = {
            "workflow.name": "flow-abc12",
            "workflow.uid": "6f1c2a4e-0000-4000-8000-000000000000",
            "workflow.creationTimestamp.RFC3339": "2026-01-01T00:00:00Z",
            **{f"workflow.parameters.{each['name']}": each["value"] for each in parameters},
        }
        # What is not a template is substituted in once, at the start.
        replaced({**spec, "arguments": {"parameters": parameters}, "templates": None}, self.names)
        self.workspace = self.directory / "workspace"
        self.workspace.mkdir(parents=True)
        return self.execute(spec["entrypoint"], {}, "main")

    def execute(self, name: str, arguments: dict[str, str], node_name: str) -> Node:
        template = json.loads(json.dumps(self.templates[name]))
        inputs = template.get("inputs", {}).get("parameters", [])
        for each in inputs:
            each["value"] = arguments.get(each["name"], each.get("value"))
            if each["value"] is None:
                raise WorkflowError(f"{name}: the input {each['name']} was not supplied")
        names = dict(self.names)
        if "dag" not in template:
            names["pod.name"] = f"flow-abc12-{name}-{len(self.pods)}"
        template = replaced(template, names)
        values = {
            each["name"]: each["value"] for each in template.get("inputs", {}).get("parameters", [])
        }
        names |= {f"inputs.parameters.{key}": value for key, value in values.items()}
        template = replaced(template, names)
        if "dag" in template:
            return self.dag(template, values, node_name)
        retries = template.get("retryStrategy", {})
        left = int(retries.get("limit", 0))
        node = self.pod(template)
        while node.phase == "Failed" and left and is_tried_again(node, retries):
            left -= 1
            node = self.pod(template)
        return node

    def dag(self, template: dict[str, Any], values: dict[str, str], node_name: str) -> Node:
        scope = {f"inputs.parameters.{key}": value for key, value in values.items()}
        tasks = {task["name"]: task for task in template["dag"]["tasks"]}
        nodes: dict[str, Node] = {}
        while len(nodes) < len(tasks):
            ready = [
                task
                for name, task in tasks.items()
                if name not in nodes and upstream(task) <= nodes.keys()
            ]
            for task in ready:
                seen = scope | results({each: nodes[each] for each in ancestors(task, tasks)})
                node = nodes[task["name"]] = self.task(task, nodes, seen, node_name)
                hook = task.get("hooks", {}).get("exit")
                if hook and node.phase not in ("Skipped", "Omitted"):
                    seen |= results({task["name"]: node})
                    given = replaced(hook.get("arguments", {}), self.names | seen)
                    self.execute(hook["template"], arguments_of(given), f"{node_name}.onExit")
        targets = template["dag"].get("target", "").split() or [
            name for name in tasks if not any(name in upstream(each) for each in tasks.values())
        ]
        if any(branch_failed(target, tasks, nodes) for target in targets):
            return Node("Failed")
        outputs = {}
        for each in template.get("outputs", {}).get("parameters", []):
            names = nested(scope | results(nodes))
            value = evaluate(each["valueFrom"]["expression"], names)
            if not isinstance(value, str):
                raise WorkflowError(f"{each['name']}: {value!r} is no text")
            outputs[each["name"]] = value
        return Node("Succeeded", outputs)

    def task(
        self, task: dict[str, Any], nodes: dict[str, Node], scope: dict[str, str], within: str
    ) -> Node:
        if task.get("depends") and not depends(task["depends"], nodes):
            return Node("Omitted")
        names = self.names | scope
        task = {key: value for key, value in task.items() if key != "hooks"}
        if "when" in task and not is_true(replaced(task["when"], names, strict=("tasks",))):
            return Node("Skipped")
        task = replaced(task, names, strict=("tasks",))
        name = f"{within}.{task['name']}"
        if "withItems" not in task and "withParam" not in task:
            return self.execute(task["template"], arguments_of(task.get("arguments", {})), name)
        items = members(task["withParam"] if "withParam" in task else to_json(task["withItems"]))
        if not items:
            return Node("Skipped")
        rounds = []
        for index, item in enumerate(items.values()):
            of_item = {f"item.{key}": text_of(value) for key, value in members(item).items()}
            one = replaced(task, names | of_item | {"item": item}, strict=("",))
            rounds.append(
                self.execute(one["template"], arguments_of(one["arguments"]), f"{name}({index})")
            )
        failed = any(each.phase == "Failed" for each in rounds)
        return Node("Failed" if failed else "Succeeded", rounds=rounds)

    def pod(self, template: dict[str, Any]) -> Node:
        container = template["container"]
        root = self.directory / f"pod-{len(self.pods)}"
        (root / "outputs").mkdir(parents=True)
        places = {WORKSPACE: str(self.workspace), OUTPUTS: str(root / "outputs")}
        variables: dict[str, str] = {}
        for each in container.get("env", []):
            variables[each["name"]] = expanded(each.get("value", ""), variables)
        words = [
            expanded(word, variables)
            for word in [*container.get("command", []), *container.get("args", [])]
        ]
        for mount in container.get("volumeMounts", []):
            if "subPath" in mount:
                mapped(Path(mount["mountPath"]), places).mkdir(parents=True, exist_ok=True)
        self.pods.append({"template": template, "words": words, "env": variables})
        for path, place in places.items():
            words = [word.replace(path, place) for word in words]
        path = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
        process = subprocess.run(
            words, env=os.environ | {"PATH": path} | variables, capture_output=True, check=False
        )
        (root / "log").write_bytes(process.stdout + process.stderr)
        if process.returncode:
            code = process.returncode
            return Node("Failed", exit_code=code if code > 0 else 128 - code)
        outputs = {}
        for each in template.get("outputs", {}).get("parameters", []):
            source = each["valueFrom"]
            file = mapped(Path(source["path"]), places)
            if not file.exists() and "default" not in source:
                raise WorkflowError(f"{source['path']} is not there: {process.stderr.decode()}")
            value = file.read_text() if file.exists() else source["default"]
            for path, place in places.items():
                value = value.replace(place, path)
            outputs[each["name"]] = value.removesuffix("\n")
        return Node("Succeeded", outputs)


def is_tried_again(node: Node, retries: dict[str, Any]) -> bool:
    """Whether a pod that has failed, as ``processNodeRetries`` of v4.1.2 sees it, is made again."""
    code = str(node.exit_code)
    message = f"main: Error (exit code {code})"
    last = {"status": node.phase, "exitCode": code, "message": message}
    return bool(evaluate(retries.get("expression", "true"), {"lastRetry": last}))


def replaced(content: Any, names: dict[str, str], strict: Iterable[str] | None = None) -> Any:
    """Returns a template with what is known put in the place of its tags.

    Args:
        content: The template.
        names: What is known, by Argo's names.
        strict: Beginnings of names that have to be known; where there are none, a tag that is not
            stays as it is.
    """
    text = json.dumps(content, ensure_ascii=False)
    made, position = [], 0
    while (start := text.find("{{", position)) >= 0:
        end = text.find("}}", start + 2)
        if end < 0:
            raise WorkflowError(f"no end of the tag in {text[start:]!r}")
        made.append(text[position:start])
        made.append(put_in(text[start + 2 : end], names, strict))
        position = end + 2
    try:
        return json.loads("".join([*made, text[position:]]))
    except ValueError as error:
        raise WorkflowError(f"the result is no JSON: {error}") from None


def put_in(tag: str, names: dict[str, str], strict: Iterable[str] | None) -> str:
    if not tag.startswith("="):
        if tag.strip() in names:
            return go_quoted(names[tag.strip()])
        if any(tag.strip().startswith(each) for each in strict or ()):
            raise WorkflowError(f"{tag} is not known")
        return f"{{{{{tag}}}}}"
    expression = json.loads(f'"{tag[1:]}"')
    known = nested(names)
    if strict is None and any(word in words(expression) and word not in known for word in LATE):
        return f"{{{{{tag}}}}}"
    unknown = used(expression) - known.keys() - {"let", "items", "true", "false", "nil"}
    try:
        value = evaluate(expression, known)
    except ExpressionError as error:
        if strict is None or unknown - {"tasks"}:
            return f"{{{{{tag}}}}}"
        raise WorkflowError(f"{expression}: {error}") from None
    if value is None:
        raise WorkflowError(f"{expression} is nil")
    if isinstance(value, str):
        return json.dumps(value, ensure_ascii=False)[1:-1]
    return go_quoted(json.dumps(value))


def go_quoted(value: str) -> str:
    """Returns a text as Go's strconv.Quote writes it, which is not always JSON."""
    return "".join(
        GO_ESCAPES.get(letter) or (letter if letter.isprintable() else f"\\x{ord(letter):02x}")
        for letter in value
    )


def nested(names: dict[str, str]) -> dict[str, Any]:
    """Returns names with dots as maps in maps; the longer of two that conflict counts."""
    made: dict[str, Any] = {"sprig": SPRIG}
    for name in sorted(names):
        *way, last = name.split(".")
        place = made
        for each in way:
            if not isinstance(place.get(each), dict):
                place[each] = {}
            place = place[each]
        place[last] = names[name]
    return made


def results(nodes: dict[str, Node]) -> dict[str, str]:
    """Returns what can be said of tasks that have ended."""
    known = {}
    for name, node in nodes.items():
        known[f"tasks.{name}.status"] = node.phase
        outputs = node.outputs
        if node.rounds is not None:
            outputs = {}
            for each in node.rounds:
                for key in each.outputs:
                    outputs.setdefault(key, [])  # type: ignore[arg-type]
                    outputs[key].append(each.outputs[key])  # type: ignore[attr-defined]
            outputs = {key: aggregated(values) for key, values in outputs.items()}  # type: ignore
        known |= {f"tasks.{name}.outputs.parameters.{key}": value for key, value in outputs.items()}
    return known


def aggregated(values: Any) -> str:
    """Returns the list of texts, or where all are JSON's maps or lists, of those."""
    with contextlib.suppress(ValueError):
        decoded = [json.loads(value) for value in values]
        if all(isinstance(each, dict | list) for each in decoded):
            return json.dumps(decoded)
    return json.dumps(values)


def expanded(text: str, variables: dict[str, str]) -> str:
    """Returns a text as the kubelet expands it."""

    def one(match: re.Match[str]) -> str:
        if match[0] == "$$":
            return "$"
        return variables.get(match[1], match[0])

    return re.sub(r"\$\$|\$\(([^)]*)\)", one, text)


def mapped(path: Path, places: dict[str, str]) -> Path:
    for inside, place in places.items():
        if path.is_relative_to(inside):
            return place / path.relative_to(inside)
    return path


def arguments_of(arguments: dict[str, Any]) -> dict[str, str]:
    return {each["name"]: each["value"] for each in arguments.get("parameters", [])}


def upstream(task: dict[str, Any]) -> set[str]:
    return set(re.findall(r"([-\w]+)\.[A-Z]\w+", task.get("depends") or ""))


def ancestors(task: dict[str, Any], tasks: dict[str, dict[str, Any]]) -> set[str]:
    near = upstream(task)
    return near | {far for name in near for far in ancestors(tasks[name], tasks)}


def depends(expression: str, nodes: dict[str, Node]) -> bool:
    def one(match: re.Match[str]) -> str:
        return str(nodes[match[1]].phase == match[2])

    python = re.sub(r"([-\w]+)\.([A-Z]\w+)", one, expression)
    return bool(eval(python.replace("&&", "and").replace("||", "or")))


def branch_failed(name: str, tasks: dict[str, dict[str, Any]], nodes: dict[str, Node]) -> bool:
    """Whether a task has failed; one that did not run counts as what it comes after."""
    if nodes[name].phase in ("Skipped", "Omitted"):
        return any(branch_failed(each, tasks, nodes) for each in upstream(tasks[name]))
    return nodes[name].phase == "Failed"


def is_true(text: str) -> bool:
    if text not in ("true", "false"):
        raise WorkflowError(f"when {text!r} is neither true nor false")
    return text == "true"


def members(text: str) -> dict[str, str]:
    """Returns the members of a list or an object, as JSON that is written as there."""
    decode = json.JSONDecoder().raw_decode
    content = json.loads(text)
    made: dict[str, str] = {}
    position = 1
    for key in content if isinstance(content, dict) else range(len(content)):
        if isinstance(content, dict):
            position = text.index(":", decode(text, position)[1]) + 1
        end = decode(text, position)[1]
        made[str(key)] = text[position:end]
        position = end + 1  # as nothing is between them but a comma
    return made


def text_of(item: str) -> str:
    """Returns JSON as an item's ``String`` of v4.1.2 does: of a text, what is between its quotes.

    https://github.com/argoproj/argo-workflows/blob/v4.1.2/pkg/apis/workflow/v1alpha1/item.go
    """
    text = item[1:-1] if item.startswith('"') else item
    return text.replace("\\u003c", "<").replace("\\u003e", ">").replace("\\u0026", "&")
