"""Refuse a graph that lacks what it names; each sentence says where, before anything is made."""

from typing import Any

from trireme.errors import InputError
from trireme.graph.conditions import inputs_of
from trireme.graph.graph import Graph
from trireme.graph.model import (
    ABSENT,
    Component,
    Constant,
    Group,
    Importer,
    Input,
    InputOf,
    OutputOf,
    Parameter,
    StatusOf,
    Task,
    groups,
)
from trireme.graph.placeholders import parameters_in

MOST = 10_000  # steps and groups of them
LONGEST = 200  # bytes of a name, which files are called by, with a little more: they may have 255

WHOLE = 2**53
"""Up to which a double holds every whole number: kfp keeps parameters as
``google.protobuf.Value``, whose numbers are doubles, here as on Kubeflow Pipelines."""

_GIVEN_BY_ENGINES = ("TASK_FINAL_STATUS", "TASK_CONFIG")


def check_size(document: dict[str, Any]) -> None:
    """Refuses what lacks a component, holds itself, or has more steps than can be run.

    Args:
        document: kfp's ``PipelineSpec`` as JSON.

    Raises:
        ValueError: In words that follow on "is not a pipeline that kfp compiled".
    """
    if _size(document, document["root"], {}) > MOST:
        raise ValueError(f"it has more than {MOST:,} steps")


def _size(document: dict[str, Any], component: dict[str, Any], sizes: dict[str, int]) -> int:
    if "dag" not in component:
        label = component.get("executorLabel", "")
        if label not in document["deploymentSpec"]["executors"]:
            raise ValueError(f"it has no executor {label!r}")
        return 1
    total = 1
    for task in component["dag"].get("tasks", {}).values():
        name = task.get("componentRef", {}).get("name", "")
        if name not in document.get("components", {}):
            raise ValueError(f"it has no component {name!r}")
        if name not in sizes:
            sizes[name] = 0  # until it is known
            sizes[name] = _size(document, document["components"][name], sizes)
        elif not sizes[name]:
            raise ValueError(f"the component {name!r} holds itself")
        total += sizes[name]
    return total


def check(graph: Graph) -> None:
    """Refuses tasks and outputs that refer to what is not there, and what nobody is given.

    Raises:
        InputError: One sentence that names the task.
    """
    _check_name(graph.name, "the pipeline")
    if not graph.root.tasks:
        raise InputError(f"{graph.name} has no steps")
    _check_defaults(graph.root, f"{graph.name}: its parameter")
    for group in {id(group): group for group in groups(graph.root)}.values():
        group.in_order  # noqa: B018 - refuses a circle
        for task in group.tasks.values():
            _check_task(group, task)
        for name, sources in group.given.items():
            for source in sources:
                _check_source(group, source, f"{group.name}: its output {name}")


def _check_task(group: Group, task: Task) -> None:
    where = f"task {task.name}"
    _check_name(task.name, "a task")
    for name in task.component.outputs:
        _check_name(name, f"an output of task {task.name}")
    if task.loop and task.loop.limit < 0:
        raise InputError(f"{where}: its loop runs {task.loop.limit} turns at once")
    for name in task.after:
        if name not in group.tasks:
            raise InputError(f"{where}: it comes after {name}, which is not there")
    for task_input in task.inputs.values():
        _check_source(group, task_input.source, f"{where}: its input {_shown(task_input.name)}")
        if isinstance(task_input.source, Constant):
            _check_texts(task, task_input)
            _check_numbers(task_input.source.value, f"{where}: its input {_shown(task_input.name)}")
    _check_defaults(task.component, f"{where}: its input")
    if task.loop and isinstance(task.loop.items, Constant):
        _check_numbers(task.loop.items.value, f"{where}: an item of its loop")
    if isinstance(task.component, Importer):
        _check_numbers(task.component.metadata, f"{where}: metadata of what it imports")
    available = {*task.inputs, *([task.loop.item] if task.loop else [])}
    if isinstance(task.component, Group) and not task.component.tasks:
        raise InputError(
            f"{where}: kfp's compiler has put its tasks into a group of the same name, in a "
            "pipeline that is a step here; make this part a pipeline of its own, and a step, too"
        )
    for name, definition in task.component.inputs.items():
        needed = not definition.is_optional and name not in available
        if isinstance(definition, Parameter):
            needed &= definition.default is ABSENT and definition.type not in _GIVEN_BY_ENGINES
        if needed:
            raise InputError(f"{where}: nobody gives it its input {_shown(name)}")
    for name in sorted(inputs_of(task.condition) - available):
        raise InputError(
            f"{where}: its condition asks for the input {_shown(name)}, which it has not"
        )
    if task.loop and isinstance(task.loop.items, InputOf) and task.loop.items.name not in available:
        raise InputError(
            f"{where}: it loops over the input {_shown(task.loop.items.name)}, which it has not"
        )
    imported = task.component.uri if isinstance(task.component, Importer) else None
    if isinstance(imported, InputOf) and imported.name not in available:
        raise InputError(f"{where}: it imports the input {_shown(imported.name)}, which it has not")


def _check_name(name: str, subject: str) -> None:
    """Refuses a name that could not be that of a file, or would be one elsewhere."""
    if len(name.encode(errors="replace")) > LONGEST:
        raise InputError(f"{subject} has a name of more than {LONGEST} bytes: {name[:40]!r}...")
    if (
        not name
        or name.startswith(".")
        or "/" in name
        or not name.isprintable()
        or name == "executor_output.json"
    ):
        raise InputError(f"{subject} is called {name!r}, which cannot be the name of a folder")


def _check_source(group: Group, source: Any, where: str) -> None:
    if isinstance(source, InputOf) and source.name not in group.inputs:
        raise InputError(f"{where} refers to {_shown(source.name)}, which is not there")
    if isinstance(source, OutputOf | StatusOf) and source.task not in group.tasks:
        raise InputError(f"{where} refers to the task {source.task}, which is not there")
    if (
        isinstance(source, OutputOf)
        and source.key not in group.tasks[source.task].component.outputs
    ):
        raise InputError(
            f"{where} refers to the output {_shown(source.key)} of {source.task}, which is not "
            "there"
        )


def _check_texts(task: Task, task_input: Input) -> None:
    """Refuses a constant with a placeholder of an input that the task is not given."""
    assert isinstance(task_input.source, Constant)
    for name in parameters_in(task_input.source.value):
        if name not in task.inputs and not (task.loop and task.loop.item == name):
            raise InputError(
                f"task {task.name}: its input {_shown(task_input.name)} has {_shown(name)} in its "
                "text, which it has not"
            )


def _check_defaults(component: Component, where: str) -> None:
    for name, parameter in component.input_parameters.items():
        _check_numbers([parameter.default, *parameter.choices], f"{where} {_shown(name)}")


def _check_numbers(value: Any, where: str) -> None:
    """Refuses whole numbers that kfp's compiler may have rounded, at any depth."""
    if isinstance(value, dict):
        value = [*value.values()]
    if isinstance(value, list | tuple):
        for item in value:
            _check_numbers(item, where)
    elif isinstance(value, int) and abs(value) >= WHOLE:
        raise InputError(
            f"{where} is {value}, or was until kfp's compiler rounded it; whole numbers are exact "
            f"below {WHOLE}, so hand it over as a text"
        )


def _shown(name: str) -> str:
    """Returns a name as its author wrote it; kfp puts a word before those that it makes up."""
    return name.removeprefix("pipelinechannel--")
