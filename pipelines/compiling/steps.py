"""The steps that a compiled pipeline has."""

from collections.abc import Iterator
from typing import Any, NamedTuple

from kfp.local import graph_utils


class Part(NamedTuple):
    """A part of the way to a step: a task, of the pipeline or of one that is a group of tasks."""

    task: str
    is_loop: bool


def step_names(spec: Any) -> list[str]:
    """Returns the names of all steps, nested ones included, in the order kfp.local runs them."""
    return list(ways(spec))


def ways(spec: Any) -> dict[str, list[Part]]:
    """Returns the way to each step, by the steps' names, in the order kfp.local runs them."""
    return {way[-1].task: way for way, _ in _steps(spec, spec.root, [])}


def images(spec: Any) -> list[tuple[str, str]]:
    """Returns the names of all steps, as ``step_names`` does, with their images."""
    executors = spec.deployment_spec["executors"]
    return [
        (way[-1].task, executors[component.executor_label]["container"]["image"])
        for way, component in _steps(spec, spec.root, [])
    ]


def _steps(spec: Any, component: Any, way: list[Part]) -> Iterator[tuple[list[Part], Any]]:
    """Yields the way to each step below a component, and the step's own component."""
    tasks = component.dag.tasks
    for name in reversed(graph_utils.topological_sort_tasks(tasks)):
        task = tasks[name]
        is_loop = task.HasField("parameter_iterator") or task.HasField("artifact_iterator")
        inner = spec.components[task.component_ref.name]
        here = [*way, Part(name, is_loop)]
        if inner.HasField("dag"):
            yield from _steps(spec, inner, here)
        else:
            yield here, inner
