"""Mend what kfp's compiler has wired wrongly, where only one meaning is possible.

- A condition whose text holds a quote, a backslash or a line break, or that compares a text with
  another value; see ``conditions``.
- A loop in an exit handler or a condition whose item is in a text: the group around the loop is
  given the item, which is not there yet, and not the list.
- A text with a value whose type has brackets, as ``List[int]``: kfp leaves its own mark there.
- A list that is looped over and read by the loop's body, too: Kubeflow's driver takes it from the
  turns, so that the loop gets one of its own.

kfp calls what it hands down ``pipelinechannel--PARAMETER`` or ``pipelinechannel--TASK-OUTPUT``
(names of parameters have no dashes), so that a group that lacks such an input can be given it.
"""

import copy
import re
from collections import Counter
from collections.abc import Callable, Iterator
from typing import Any

from trireme.errors import InputError
from trireme.graph.conditions import inputs_of, mended
from trireme.graph.placeholders import parameters_in

CHANNEL = "pipelinechannel--"

# kfp's compiler knows it by a pattern that lacks brackets (kfp.dsl.pipeline_channel of 2.17).
_MARK = re.compile(r"{{channel:task=(?P<task>[^;{}]*);name=(?P<name>[^;{}]+);type=[^;]*;}}")

_KINDS = (("parameters", "Parameter"), ("artifacts", "Artifact"))


def mend(document: dict[str, Any]) -> dict[str, Any]:
    """Returns kfp's ``PipelineSpec`` as JSON with what is mended in it.

    What cannot be mended stays, for ``checking`` to refuse.

    Raises:
        InputError: A condition cannot be read.
    """
    document = copy.deepcopy(document)
    for key, task, _ in _tasks(document):
        if condition := task.get("triggerPolicy", {}).get("condition"):
            task["triggerPolicy"]["condition"] = mended(condition, key)
    wiring = _Wiring(document)
    for key, task, group in [*_tasks(document)]:
        wiring.fill(key, task, group)
    wiring.mend()
    for _, task, _ in [*_tasks(document)]:
        _give_own_list(document, task)
    return document


def _tasks(document: dict[str, Any]) -> Iterator[tuple[str, dict[str, Any], dict[str, Any]]]:
    """Yields each task's name, the task, and the component that it is in."""
    for component in (document["root"], *document.get("components", {}).values()):
        for key, task in component.get("dag", {}).get("tasks", {}).items():
            yield key, task, component


def _give_own_list(document: dict[str, Any], task: dict[str, Any]) -> None:
    """Gives a loop a list of its own where its body reads what it goes over."""
    items = _items(task)
    body = document["components"][task["componentRef"]["name"]]
    sources = (
        source
        for _, inner, group in _tasks(document)
        if group is body
        for source in inner.get("inputs", {}).get("parameters", {}).values()
    )
    if not items or not any(source.get("componentInputParameter") == items for source in sources):
        return
    own_list = f"{items}-items"
    parameters = task["inputs"]["parameters"]
    parameters[own_list] = copy.deepcopy(parameters[items])
    definitions = body["inputDefinitions"]["parameters"]
    definitions[own_list] = copy.deepcopy(definitions[items])
    task["parameterIterator"]["items"]["inputParameter"] = own_list


class _Wiring:
    """What the tasks of a pipeline are given, which ``mend`` changes."""

    def __init__(self, document: dict[str, Any]) -> None:
        self._document = document
        self._components: dict[str, Any] = document.get("components", {})
        every = [*_tasks(document)]
        self._used = Counter(task["componentRef"]["name"] for _, task, _ in every)
        self._callers = {task["componentRef"]["name"]: (task, group) for _, task, group in every}

    def mend(self) -> None:
        """Finds what each input means that refers to nothing, or takes it away."""
        while sum(self._mend(*reference) for reference in self._dangling()):
            pass

    def fill(self, key: str, task: dict[str, Any], group: dict[str, Any]) -> None:
        """Writes what is meant where a constant of a task still holds kfp's own marks.

        Raises:
            InputError: One of them means nothing that the task could be given.
        """
        parameters = task.get("inputs", {}).get("parameters", {})
        names: dict[str, None] = {}

        def replaced(mark: re.Match[str]) -> str:
            name = CHANNEL + "-".join(filter(None, (mark["task"], mark["name"])))
            names[name] = None
            return f"{{{{$.inputs.parameters['{name}']}}}}"

        for source in parameters.values():
            value = source.get("runtimeValue", {})
            if "constant" in value:
                value["constant"] = _with_texts(value["constant"], replaced)
        for name in names:
            origin = self._look_up(group, *_KINDS[0], name)
            if not origin:
                channel = name.removeprefix(CHANNEL)
                raise InputError(f"task {key}: a text of it asks for {channel}, which is not there")
            parameters[name] = origin[0]
            _come_after(task, origin[0], _KINDS[0][1])

    def _dangling(self) -> list[tuple[dict[str, Any], dict[str, Any], str, str, str]]:
        """Returns the group, the task, and the input, of each input that refers to nothing."""
        return [
            (group, task, kind, word, name)
            for _, task, group in _tasks(self._document)
            for kind, word in _KINDS
            for name, source in task.get("inputs", {}).get(kind, {}).items()
            if not self._is_there(group, kind, word, source)
        ]

    def _is_there(
        self, group: dict[str, Any], kind: str, word: str, source: dict[str, Any]
    ) -> bool:
        if name := source.get(f"componentInput{word}"):
            return name in _definitions(group, "input", kind)
        if output := source.get(f"taskOutput{word}"):
            task = group["dag"]["tasks"].get(output["producerTask"])
            return task is None or output[f"output{word}Key"] in self._outputs(task, kind)
        return True

    def _mend(
        self, group: dict[str, Any], task: dict[str, Any], kind: str, word: str, name: str
    ) -> bool:
        """Mends an input; returns whether anything has changed."""
        inputs = task["inputs"][kind]
        if name.startswith(CHANNEL) and (origin := self._look_up(group, kind, word, name)):
            inputs[name] = origin[0]
            _come_after(task, origin[0], word)
            return True
        reference = task["componentRef"]["name"]
        component = self._components[reference]
        is_group = "dag" in component and self._used[reference] == 1
        is_needed = name in inputs_of(task.get("triggerPolicy", {}).get("condition", ""))
        is_needed |= name in parameters_in([*_constants(task)]) or _items(task) == name
        if is_needed or not (is_group or name not in _definitions(component, "input", kind)):
            return False
        _take(task, "inputs", kind, name)
        if is_group and _item(task) != name:
            _take(component, "inputDefinitions", kind, name)
        return True

    def _look_up(
        self, group: dict[str, Any], kind: str, word: str, name: str
    ) -> tuple[dict[str, Any], dict[str, Any]] | None:
        """Returns where a group has what kfp calls so, and its definition; brings it if need be."""
        inputs = _definitions(group, "input", kind)
        channel = name.removeprefix(CHANNEL)
        for candidate in (name, channel):
            if candidate in inputs:
                return {f"componentInput{word}": candidate}, _type(inputs[candidate])
        for key, task in group["dag"]["tasks"].items():
            for output, definition in self._outputs(task, kind).items():
                if f"{key}-{output}" == channel:
                    output_reference = {"producerTask": key, f"output{word}Key": output}
                    return {f"taskOutput{word}": output_reference}, _type(definition)
        base, has_member, member = name.rpartition("-subvar-")
        if has_member and (origin := self._look_up(group, kind, word, base)):
            selector = f'parseJson(string_value)["{member}"]'
            return origin[0] | {"parameterExpressionSelector": selector}, {
                "parameterType": "STRING"
            }
        return self._bring(group, kind, word, name)

    def _bring(
        self, group: dict[str, Any], kind: str, word: str, name: str
    ) -> tuple[dict[str, Any], dict[str, Any]] | None:
        """Gives a group an input from what is around it."""
        reference = next(
            (key for key, component in self._components.items() if component is group), ""
        )
        if self._used[reference] != 1:  # the pipeline itself, or one that is used twice
            return None
        task, around = self._callers[reference]
        origin = self._look_up(around, kind, word, name)
        if not origin:
            return None
        task.setdefault("inputs", {}).setdefault(kind, {})[name] = origin[0]
        _come_after(task, origin[0], word)
        group.setdefault("inputDefinitions", {}).setdefault(kind, {})[name] = origin[1]
        return {f"componentInput{word}": name}, origin[1]

    def _outputs(self, task: dict[str, Any], kind: str) -> dict[str, Any]:
        return _definitions(self._components[task["componentRef"]["name"]], "output", kind)


def _with_texts(value: Any, replaced: Callable[[re.Match[str]], str]) -> Any:
    """Returns a JSON value with the marks in its texts replaced."""
    if isinstance(value, str):
        return _MARK.sub(replaced, value)
    if isinstance(value, list):
        return [_with_texts(item, replaced) for item in value]
    if isinstance(value, dict):
        return {key: _with_texts(item, replaced) for key, item in value.items()}
    return value


def _definitions(component: dict[str, Any], side: str, kind: str) -> dict[str, Any]:
    definitions: dict[str, Any] = component.get(f"{side}Definitions", {}).get(kind, {})
    return definitions


def _take(holder: dict[str, Any], side: str, kind: str, name: str) -> None:
    """Takes an input away, and what is empty then: kfp writes nothing for that."""
    holder.get(side, {}).get(kind, {}).pop(name, None)
    if side in holder and not holder[side].get(kind):
        holder[side].pop(kind, None)
    if not holder.get(side):
        holder.pop(side, None)


def _type(definition: dict[str, Any]) -> dict[str, Any]:
    fields = ("parameterType", "artifactType", "isArtifactList")
    return {key: definition[key] for key in fields if key in definition}


def _come_after(task: dict[str, Any], source: dict[str, Any], word: str) -> None:
    if producer := source.get(f"taskOutput{word}", {}).get("producerTask"):
        task["dependentTasks"] = sorted({*task.get("dependentTasks", ()), producer})


def _iterator(task: dict[str, Any]) -> dict[str, Any]:
    return task.get("parameterIterator") or task.get("artifactIterator") or {}


def _item(task: dict[str, Any]) -> str:
    return str(_iterator(task).get("itemInput", ""))


def _items(task: dict[str, Any]) -> str:
    items = _iterator(task).get("items", {})
    return str(items.get("inputParameter") or items.get("inputArtifact") or "")


def _constants(task: dict[str, Any]) -> Iterator[Any]:
    for source in task.get("inputs", {}).get("parameters", {}).values():
        yield source.get("runtimeValue", {}).get("constant")
