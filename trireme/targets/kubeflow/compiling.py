"""Pipelines for Kubeflow: what kfp compiled, refused where Kubeflow Pipelines cannot run it.

https://github.com/kubeflow/pipelines/blob/2.17.0/backend/src/v2/compiler/argocompiler/dag.go
https://github.com/kubeflow/pipelines/blob/2.17.0/backend/src/v2/driver/resolve.go
"""

from pathlib import Path

from trireme.compiling import ir
from trireme.errors import InputError
from trireme.graph.graph import Graph
from trireme.graph.model import Importer, groups
from trireme.pipeline.pipeline import Pipeline


def write(pipeline: Pipeline, directory: Path) -> Path:
    """Writes a pipeline's intermediate representation; returns the file, named after it.

    Raises:
        InputError: Kubeflow Pipelines 2.17 could not run it; names the task.
    """
    check(pipeline.graph)
    return ir.write(pipeline, directory)


def check(graph: Graph) -> None:
    """Refuses what Kubeflow Pipelines 2.17 does not know, which it says when a run is made."""
    for group in groups(graph.root):
        if all(task.runs_after_failure for task in group.tasks.values()):
            raise _refusal(group.name, "a group of nothing but what runs after failures")
        for task in group.tasks.values():
            if task.loop and task.loop.is_of_artifacts:
                raise _refusal(f"task {task.name}", "a loop over artifacts")
            if task.loop and any(one.member for one in task.inputs.values()):
                # Its driver takes the field for each turn once more, of the field.
                raise _refusal(f"task {task.name}", "a loop given a field of another's item")
            if task.condition and isinstance(task.component, Importer):
                raise _refusal(f"task {task.name}", "a condition on an import")


def _refusal(where: str, what: str) -> InputError:
    return InputError(f"{where}: {what} cannot run on Kubeflow Pipelines 2.17")
