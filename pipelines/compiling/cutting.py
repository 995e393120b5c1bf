"""A part of a compiled pipeline: one of its steps, and what that step needs."""

from typing import Any

from trireme.components.errors import InputError
from trireme.pipelines.compiling.steps import PathTask, steps_of
from trireme.pipelines.pipeline import Pipeline


def up_to_training(pipeline: Pipeline, commit: str) -> Pipeline:
    """Returns a pipeline that trains as another does, and does nothing with the model.

    Args:
        commit: What its checkout step checks out; empty for what the pipeline says itself.

    Raises:
        InputError: It does not train, or not exactly once.
    """
    paths = steps_of(pipeline.spec, "train")
    if len(paths) != 1 or any(task.is_loop for task in paths[0]):
        raise InputError(
            f"{pipeline.name}: cannot be reproduced; that needs exactly one step train, outside "
            "of loops"
        )

    def cut(graph: Any) -> None:
        spec = graph.pipeline_spec
        if commit:
            for *outer, checkout in steps_of(spec, "checkout"):
                task = _component(spec, outer).dag.tasks[checkout.name]
                task.inputs.parameters["revision"].runtime_value.constant.string_value = commit
        component = spec.root
        for step in paths[0]:
            _keep(component.dag, step.name)
            component = spec.components[component.dag.tasks[step.name].component_ref.name]

    return pipeline.changed(cut)


def _component(spec: Any, path: list[PathTask]) -> Any:
    component = spec.root
    for task in path:
        component = spec.components[component.dag.tasks[task.name].component_ref.name]
    return component


def _keep(dag: Any, wanted: str) -> None:
    """Removes all tasks but one and those that it depends on."""
    needed, left = set(), [wanted]
    while left:
        name = left.pop()
        if name not in needed:
            needed.add(name)
            left.extend(dag.tasks[name].dependent_tasks)
    for name in [*dag.tasks]:
        if name not in needed:
            del dag.tasks[name]
    dag.ClearField("outputs")
