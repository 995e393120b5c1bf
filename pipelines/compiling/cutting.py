"""A part of a compiled pipeline: one of its steps, and what that step needs."""

from dataclasses import replace
from itertools import pairwise
from typing import Any

from trireme.components.errors import InputError
from trireme.components.packages.use import AGAIN
from trireme.pipelines.compiling.steps import PathTask, containers, set_variables, steps_of
from trireme.pipelines.pipeline import Pipeline

SUFFIX = "-reproduction"
"""What the name of a pipeline gets: a version of its own name would be what its schedules run."""


def up_to_training(pipeline: Pipeline, commit: str) -> Pipeline:
    """Returns a pipeline that trains as another does, and does nothing with the model.

    Its last step closes the run's record, and tells no webhook.

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
    name = f"{pipeline.name}{SUFFIX}"

    def cut(graph: Any) -> None:
        spec = graph.pipeline_spec
        spec.pipeline_info.name = name
        if commit:
            for path in steps_of(spec, "checkout"):
                _give(spec, path, "revision", commit)
        last = [path for path in steps_of(spec, "finish") if len(path) == 1]
        for path in last:
            _give(spec, path, "webhook_secret", "")
        _keep(spec.root.dag, [paths[0][0], *(path[0] for path in last)])
        component = spec.root
        for step, inner in pairwise(paths[0]):
            component = spec.components[component.dag.tasks[step.name].component_ref.name]
            _keep(component.dag, [inner])

    return replace(pipeline.changed(cut), name=name)


def with_packages_of(pipeline: Pipeline, training: str) -> Pipeline:
    """Returns a pipeline that installs the packages of a training again, by its id in MLflow."""

    def change(graph: Any) -> None:
        checkouts = steps_of(graph.pipeline_spec, "checkout")
        for path, container in containers(graph.pipeline_spec):
            if path in checkouts:
                set_variables(container, {AGAIN: training})

    return pipeline.changed(change)


def _give(spec: Any, path: list[PathTask], name: str, text: str) -> None:
    """Gives a step a constant as its input."""
    component = spec.root
    for task in path[:-1]:
        component = spec.components[component.dag.tasks[task.name].component_ref.name]
    given = component.dag.tasks[path[-1].name].inputs.parameters[name]
    given.runtime_value.constant.string_value = text


def _keep(dag: Any, wanted: list[PathTask]) -> None:
    """Removes all tasks but some and those that they depend on."""
    needed, left = set(), [task.name for task in wanted]
    while left:
        name = left.pop()
        if name not in needed:
            needed.add(name)
            left.extend(dag.tasks[name].dependent_tasks)
    for name in [*dag.tasks]:
        if name not in needed:
            del dag.tasks[name]
    dag.ClearField("outputs")
