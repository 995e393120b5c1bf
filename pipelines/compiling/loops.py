"""How many steps of a loop run at once, which kfp fixes when a pipeline is compiled."""

from typing import Any

from trireme.pipelines.pipeline import Pipeline


def limited(pipeline: Pipeline, parallelism: int | None) -> Pipeline:
    """Returns a pipeline whose loops run another number of steps at once; None: as it says."""

    def limit(graph: Any) -> None:
        spec = graph.pipeline_spec
        for component in (spec.root, *spec.components.values()):
            for task in component.dag.tasks.values():
                if task.WhichOneof("iterator"):
                    task.iterator_policy.parallelism_limit = parallelism

    return pipeline if parallelism is None else pipeline.changed(limit)
