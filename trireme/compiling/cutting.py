"""A part of a compiled pipeline: one of its steps, and what that step needs."""

from dataclasses import replace

from trireme.errors import InputError
from trireme.graph.changing import Draft, set_variables
from trireme.packages.use import AGAIN
from trireme.pipeline.pipeline import Pipeline

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
    graph = pipeline.graph
    paths = graph.paths_of("train")
    if len(paths) != 1 or any(task.is_loop for task in paths[0]):
        raise InputError(
            f"{pipeline.name}: cannot be reproduced; that needs exactly one step train, outside "
            "of loops"
        )
    name = f"{pipeline.name}{SUFFIX}"

    def cut(draft: Draft) -> None:
        draft.document["pipelineInfo"]["name"] = name
        if commit:
            for path in graph.paths_of("checkout"):
                draft.give(path, "revision", commit)
        last = [path for path in graph.paths_of("finish") if len(path) == 1]
        for path in last:
            draft.give(path, "webhook_secret", "")
            draft.task(path)["dependentTasks"] = [paths[0][0].name]
        for depth, task in enumerate(paths[0]):
            names = [path[0].name for path in last] if depth == 0 else []
            draft.keep(paths[0][:depth], [task.name, *names])

    return replace(pipeline.changed(cut), name=name)


def with_packages_of(pipeline: Pipeline, training: str) -> Pipeline:
    """Returns a pipeline that installs the packages of a training again, by its id in MLflow."""

    def change(draft: Draft) -> None:
        for _, step in draft.graph.steps:
            if step.is_of("checkout"):
                set_variables(draft.container(step.label), {AGAIN: training})

    return pipeline.changed(change)
