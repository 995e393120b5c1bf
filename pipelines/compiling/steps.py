"""The steps that a compiled pipeline has."""

from collections.abc import Collection, Iterator, Mapping
from typing import Any, NamedTuple

from google.protobuf import json_format
from kfp.local import graph_utils
from kfp.pipeline_spec.pipeline_spec_pb2 import PipelineTaskSpec

MOST = 10_000  # steps and groups of them


class PathTask(NamedTuple):
    """A task on the path to a step, of the pipeline or of one that is a group of tasks."""

    name: str
    is_loop: bool


def check(spec: Any) -> None:
    """Refuses a graph that lacks what it names, holds itself, or has more steps than can be run."""
    if _size(spec, spec.root, {}) > MOST:
        raise ValueError(f"it has more than {MOST:,} steps")


def _size(spec: Any, component: Any, sizes: dict[str, int]) -> int:
    executors = spec.deployment_spec.fields["executors"].struct_value.fields
    if not component.HasField("dag"):
        if component.executor_label not in executors:
            raise ValueError(f"it has no executor {component.executor_label!r}")
        return 1
    total = 1
    for task in component.dag.tasks.values():
        name = task.component_ref.name
        if name not in spec.components:
            raise ValueError(f"it has no component {name!r}")
        if name not in sizes:
            sizes[name] = 0  # until it is known
            sizes[name] = _size(spec, spec.components[name], sizes)
        elif not sizes[name]:
            raise ValueError(f"the component {name!r} holds itself")
        total += sizes[name]
    return total


def step_names(spec: Any) -> list[str]:
    """Returns the names of all steps, nested ones included, in the order kfp.local runs them."""
    return list(step_paths(spec))


def step_paths(spec: Any) -> dict[str, list[PathTask]]:
    """Returns the path to each step, by the steps' names, in the order kfp.local runs them."""
    return {path[-1].name: path for path, _ in _steps(spec, spec.root, [])}


def images(spec: Any) -> list[tuple[str, str]]:
    """Returns the names of all steps that are containers, with their images."""
    return [(path[-1].name, container["image"]) for path, container in containers(spec)]


def steps_of(spec: Any, component: str) -> list[list[PathTask]]:
    """Returns the paths to the steps that one of Trireme's components has become."""
    line = f'with step("{component}", workspace'
    return [
        path
        for path, container in containers(spec)
        if any(line in word for word in container.fields["command"].list_value)
    ]


def containers(spec: Any) -> Iterator[tuple[list[PathTask], Any]]:
    """Yields the path to each step that is a container, and that; an importer is none."""
    executors = spec.deployment_spec["executors"]
    for path, component in _steps(spec, spec.root, []):
        executor = executors[component.executor_label]
        if "container" in executor:
            yield path, executor["container"]


def set_variables(
    container: Any, variables: Mapping[str, str], instead_of: Collection[str] = ()
) -> None:
    """Gives the container of a step variables, in place of those of their names and some more."""
    before = json_format.MessageToDict(container).get("env", [])
    kept = [each for each in before if each["name"] not in {*variables, *instead_of}]
    own = [{"name": name, "value": value} for name, value in variables.items()]
    container["env"] = [*kept, *own]


def variables(graph: Any) -> set[str]:
    """Returns the names of the variables that any of a pipeline's steps has."""
    steps = (json_format.MessageToDict(one) for _, one in containers(graph.pipeline_spec))
    platform = json_format.MessageToDict(graph.platform_spec.platforms["kubernetes"])
    pods = platform.get("deploymentSpec", {}).get("executors", {}).values()
    sources = (
        source
        for pod in pods
        for kind in ("secretAsEnv", "configMapAsEnv")
        for source in pod.get(kind, [])
    )
    return {each["name"] for step in steps for each in step.get("env", [])} | {
        pair["envVar"] for source in sources for pair in source.get("keyToEnv", [])
    }


def executors(spec: Any) -> dict[str, str]:
    """Returns the names of the executors of all steps that are containers, by the steps' names."""
    known = spec.deployment_spec["executors"]
    return {
        path[-1].name: component.executor_label
        for path, component in _steps(spec, spec.root, [])
        if "container" in known[component.executor_label]
    }


def after_failures(spec: Any) -> set[str]:
    """Returns the names of tasks that run even after a failure, such as exit handlers."""
    always = PipelineTaskSpec.TriggerPolicy.ALL_UPSTREAM_TASKS_COMPLETED
    return {
        name
        for component in (spec.root, *spec.components.values())
        for name, task in component.dag.tasks.items()
        if task.trigger_policy.strategy == always
    }


def _steps(spec: Any, component: Any, path: list[PathTask]) -> Iterator[tuple[list[PathTask], Any]]:
    """Yields the path to each step below a component, and the step's own component."""
    tasks = component.dag.tasks
    for name in reversed(graph_utils.topological_sort_tasks(tasks)):
        task = tasks[name]
        is_loop = task.HasField("parameter_iterator") or task.HasField("artifact_iterator")
        inner = spec.components[task.component_ref.name]
        here = [*path, PathTask(name, is_loop)]
        if inner.HasField("dag"):
            yield from _steps(spec, inner, here)
        else:
            yield here, inner
