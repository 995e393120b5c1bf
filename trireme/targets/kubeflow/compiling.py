"""Pipelines for Kubeflow: what kfp compiled, refused where Kubeflow Pipelines cannot run it.

A pipeline that ends by ``finishing`` has no exit handler there, see ``graph.flattening``: its last
step ends a run that has succeeded, and one that has failed is ended by the step that failed.

https://github.com/kubeflow/pipelines/blob/2.17.0/backend/src/v2/compiler/argocompiler/dag.go
https://github.com/kubeflow/pipelines/blob/2.17.0/backend/src/v2/driver/resolve.go
"""

from dataclasses import replace
from pathlib import Path

from trireme.compiling import ir
from trireme.credentials import secrets
from trireme.errors import InputError
from trireme.graph.changing import Draft, changed, set_variables
from trireme.graph.flattening import Flattened, flattened, hand_down
from trireme.graph.graph import Graph
from trireme.graph.mending import CHANNEL
from trireme.graph.model import Constant, Importer, groups
from trireme.last_words import ENDS_RUN
from trireme.pipeline.pipeline import Pipeline

WEBHOOK = f"{CHANNEL}webhook_secret"
"""What groups of a pipeline get the name of the webhook's Secret as."""


def write(pipeline: Pipeline, directory: Path) -> Path:
    """Writes a pipeline's intermediate representation; returns the file, named after it.

    Raises:
        InputError: Kubeflow Pipelines 2.17 could not run it; names the task.
    """
    check(pipeline.graph)
    if made := flattened(pipeline.graph):
        graph = changed(made.graph, lambda draft: _have_steps_end_runs(draft, made))
        pipeline = replace(pipeline, graph=graph)
    return ir.write(pipeline, directory)


def _have_steps_end_runs(draft: Draft, made: Flattened) -> None:
    """Gives steps what they need to end their run where they fail."""
    last = made.graph.root.tasks[made.last[-1].name]
    given = last.inputs["pipeline"].source
    pipeline = str(given.value) if isinstance(given, Constant) else made.graph.name
    webhook = None
    if last.inputs["webhook_secret"].source != Constant(""):
        volumes = draft.pod(last.component.label).get("secretAsVolume", ())
        mount = str(secrets.MOUNTS / "webhook")
        webhook = next((one for one in volumes if one["mountPath"] == mount), None)
    steps = {path: step for path, step in made.graph.steps if path != made.last}
    for path, step in steps.items():
        set_variables(draft.container(step.label), {ENDS_RUN: pipeline})
        if webhook:
            name = hand_down(draft, path, WEBHOOK, webhook["secretNameParameter"])
            pod = draft.pod(step.label)
            volume = webhook | {"secretNameParameter": name}
            pod["secretAsVolume"] = [*pod.get("secretAsVolume", ()), volume]
            draft.set_pod(step.label, pod)


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
