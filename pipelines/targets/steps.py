"""The steps that a compiled pipeline has."""

from collections.abc import Iterator
from typing import Any

from kfp.local import graph_utils


def step_names(spec: Any) -> list[str]:
    """Returns the names of all steps, nested ones included, in the order kfp.local runs them.

    Args:
        spec: The pipeline's ``PipelineSpec``.
    """
    return [name for name, _ in _steps(spec, spec.root)]


def images(spec: Any) -> list[tuple[str, str]]:
    """Returns the names of all steps, as ``step_names`` does, with their images.

    Args:
        spec: The pipeline's ``PipelineSpec``.
    """
    executors = spec.deployment_spec["executors"]
    return [
        (name, executors[component.executor_label]["container"]["image"])
        for name, component in _steps(spec, spec.root)
    ]


def _steps(spec: Any, component: Any) -> Iterator[tuple[str, Any]]:
    tasks = component.dag.tasks
    for name in reversed(graph_utils.topological_sort_tasks(tasks)):
        inner = spec.components[tasks[name].component_ref.name]
        if inner.HasField("dag"):
            yield from _steps(spec, inner)
        else:
            yield name, inner
