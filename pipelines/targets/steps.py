"""The steps that a compiled pipeline has."""

from collections.abc import Iterator
from typing import Any

from kfp.local import graph_utils


def step_names(spec: Any) -> list[str]:
    """Returns the names of all steps, nested ones included, in the order kfp.local runs them.

    Args:
        spec: The pipeline's ``PipelineSpec``.
    """

    def below(component: Any) -> Iterator[str]:
        tasks = component.dag.tasks
        for name in reversed(graph_utils.topological_sort_tasks(tasks)):
            inner = spec.components[tasks[name].component_ref.name]
            if inner.HasField("dag"):
                yield from below(inner)
            else:
                yield name

    return list(below(spec.root))
