"""How many steps of a loop run at once, which kfp fixes when a pipeline is compiled."""

from typing import Any

from trireme.pipelines.pipeline import Pipeline

AT_ONCE = "at_once"
"""The input of a step which lists as many items as run at once, as a sweep's ``plan`` does."""


def limited(pipeline: Pipeline, parallelism: int | None) -> Pipeline:
    """Returns a pipeline whose loops run another number of steps at once; None: as it says."""

    def limit(graph: Any) -> None:
        spec = graph.pipeline_spec
        for component in (spec.root, *spec.components.values()):
            for task in component.dag.tasks.values():
                if not task.WhichOneof("iterator"):
                    continue
                task.iterator_policy.parallelism_limit = parallelism
                given, of = task.inputs.parameters, task.parameter_iterator.items.input_parameter
                if of not in given:  # but a list that is written down
                    continue
                lister = component.dag.tasks.get(given[of].task_output_parameter.producer_task)
                if lister and AT_ONCE in lister.inputs.parameters:
                    value = lister.inputs.parameters[AT_ONCE].runtime_value
                    value.constant.number_value = parallelism

    return pipeline if parallelism is None else pipeline.changed(limit)
