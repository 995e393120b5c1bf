"""How many steps of a loop run at once, which kfp fixes when a pipeline is compiled."""

import copy
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

from trireme.pipelines.catalog import Pipeline


def limited(pipeline: Pipeline, parallelism: int | None) -> Pipeline:
    """Returns a pipeline whose loops run another number of steps at once.

    Args:
        pipeline: The pipeline.
        parallelism: How many; None for as many as the pipeline says.
    """
    if parallelism is None:
        return pipeline
    graph = copy.deepcopy(pipeline.graph)
    for task in _tasks(graph.pipeline_spec):
        if task.WhichOneof("iterator"):
            task.iterator_policy.parallelism_limit = parallelism
    return replace(pipeline, graph=graph)


def _tasks(spec: Any) -> Iterator[Any]:
    for component in (spec.root, *spec.components.values()):
        yield from component.dag.tasks.values()
