"""Names of the templates of a pipeline, and of its tasks."""

import hashlib
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from hera.workflows import models

from trireme.graph import model
from trireme.graph.graph import Graph
from trireme.graph.model import ABSENT
from trireme.targets.argo.expressions import Value, encoded, shown
from trireme.targets.argo.placeholders import DIRECTORY, IN_LOOP
from trireme.targets.argo.refusals import NotOnArgo
from trireme.text.json_values import whole

LOST = (
    "!(lastRetry.message contains 'deadline') && (lastRetry.status == 'Error' || "
    "lastRetry.exitCode == '143' || !(lastRetry.message startsWith 'main: '))"
)
"""Whether what ended a step's pod was no failure of the step: it was deleted, or could not start;
its program was ended by SIGTERM; or the kubelet says why the pod was, as of an eviction.

A failure is "main: Error (exit code 3)", or a time limit, for which there is SIGTERM, too. Nothing
is being retried once a run is stopped.
https://github.com/argoproj/argo-workflows/blob/v4.1.2/workflow/controller/operator.go
"""

TRIES = 2  # further ones for a lost pod, as the manifests of Kubeflow Pipelines 2.17 have it

LONGEST = 128  # letters of the name of a task or a template
_CHANNEL = "pipelinechannel--"
_NAME = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?")
_ENDED = ("Succeeded", "Failed", "Errored", "Skipped", "Omitted")


@dataclass
class Templates:
    """The templates of a pipeline."""

    graph: Graph
    made: list[models.Template] = field(default_factory=list)
    names: set[str] = field(default_factory=set)

    def name(self, wanted: str, within: str = "") -> str:
        """Returns a name that no other template has."""
        name = shortened(wanted if wanted not in self.names else f"{within}-{wanted}")
        while name in self.names:
            name = shortened(f"{name}-2")
        self.names.add(name)
        return name


@dataclass(frozen=True)
class Call:
    """The call of a task's template.

    Attributes:
        name: What the task is called in Argo.
        directory: Its directory among the artifacts; may hold the tag for loops.
    """

    name: str
    template: str
    task: model.Task
    directory: str
    given: dict[str, Value]

    @property
    def key(self) -> str:
        """What kfp calls the task."""
        return self.task.name

    @property
    def component(self) -> model.Component:
        """What the task is of."""
        return self.task.component


def call_arguments(values: Mapping[str, Value]) -> list[models.Parameter]:
    """Returns values as arguments of a call."""
    return [models.Parameter(name=name, value=value.tag) for name, value in values.items()]


def inputs_of(parameters: list[models.Parameter]) -> models.Inputs | None:
    """Returns the inputs of a template; None where there are none."""
    return models.Inputs(parameters=parameters) if parameters else None


def outputs_of(expressions: Mapping[str, str]) -> models.Outputs | None:
    """Returns the outputs of a template, each with its expression; None where there are none."""
    parameters = [
        models.Parameter(name=name, value_from=models.ValueFrom(expression=expression))
        for name, expression in expressions.items()
    ]
    return models.Outputs(parameters=parameters) if parameters else None


def declared(
    name: str, spec: model.Parameter | model.Artifact | None, *, has_default: bool
) -> models.Parameter:
    """Returns an input of a template."""
    about = shown(spec.description) if spec and spec.description else None
    default = spec.default if isinstance(spec, model.Parameter) else ABSENT
    value = encoded(None if default is ABSENT else default) if has_default else None
    return models.Parameter(name=name, value=value, description=about)


def directory_input(directory: str) -> list[models.Parameter]:
    """Returns the input that tells a template in a loop where its artifacts are."""
    return [models.Parameter(name=DIRECTORY)] if IN_LOOP in directory else []


def short_names(names: Iterable[str]) -> dict[str, str]:
    """Returns names of inputs or outputs without what kfp puts before those it makes up."""
    short = {key: key.removeprefix(_CHANNEL) for key in names}
    shorts = list(short.values())
    return {key: name if shorts.count(name) == 1 else key for key, name in short.items()}


def task_names(tasks: Mapping[str, model.Task]) -> dict[str, str]:
    """Returns what tasks are called in Argo: what a person has called them, where Argo takes it."""
    names = {key: task.title for key, task in tasks.items()}
    titles = list(names.values())
    return {
        key: shortened(
            name
            if _NAME.fullmatch(name)
            and titles.count(name) == 1
            and name not in tasks.keys() - {key}
            else key
        )
        for key, name in names.items()
    }


def shortened(name: str) -> str:
    """Returns the name of a task or a template as Argo takes it: its end may become a hash."""
    if len(name) <= LONGEST:
        return name
    digest = hashlib.sha256(name.encode()).hexdigest()[:8]
    return f"{name[: LONGEST - 9].rstrip('-')}-{digest}"


def depends(upstream: list[str], *, ended: bool) -> str | None:
    """Returns the condition under which a task runs after others have succeeded, or just ended."""
    if not ended:
        return " && ".join(f"{name}.Succeeded" for name in upstream) or None
    ends = (" || ".join(f"{name}.{state}" for state in _ENDED) for name in upstream)
    return " && ".join(f"({alternatives})" for alternatives in ends) or None


def absent_inputs(call: Call) -> set[str]:
    """Returns the inputs of a task that may be null at run time."""
    return {
        key
        for key, spec in call.component.inputs.items()
        if (
            call.given[key].maybe_absent
            if key in call.given
            else isinstance(spec, model.Artifact) or spec.default is ABSENT
        )
    }


def inner_directory(directory: str) -> str:
    """Returns the directory of what is in a task; in a loop, Argo is told it."""
    return IN_LOOP if IN_LOOP in directory else directory


def refine(template: models.Template, call: Call) -> None:
    """Adds to a template what is said of the task, whatever it is."""
    if call.task.title not in (call.name, call.key):
        template.annotations = {"workflows.argoproj.io/title": shown(call.task.title)}
    strategy: dict[str, Any] = {}
    if retry := call.task.retry:
        if retry.factor != int(retry.factor):
            refused = f"the backoff_factor {retry.factor}, which is not whole,"
            raise NotOnArgo(f"task {call.key}", refused)
        strategy = {"limit": str(retry.times)}
        if retry.delay or retry.within:
            backoff = {
                "duration": f"{whole(retry.delay)}s",
                "factor": str(int(retry.factor)),
                "maxDuration": f"{whole(retry.within)}s" if retry.within else "",
            }
            strategy["backoff"] = {key: value for key, value in backoff.items() if value}
    elif template.container:
        strategy = {"limit": str(TRIES), "expression": LOST}
    if strategy:
        template.retry_strategy = models.RetryStrategy.model_validate(
            strategy | {"retryPolicy": "Always"}
        )
