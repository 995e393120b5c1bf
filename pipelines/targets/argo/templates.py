"""What the templates of a pipeline have in common: their names, and what tasks are called."""

import hashlib
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from hera.workflows import models

from trireme.pipelines.targets.argo.expressions import Value, encoded, shown
from trireme.pipelines.targets.argo.placeholders import DIRECTORY, IN_LOOP
from trireme.pipelines.targets.argo.reading import Compiled, NotOnArgo, plain, whole

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

    compiled: Compiled
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
class Task:
    """A task of a component.

    Attributes:
        key: What kfp calls it.
        name: What it is called in Argo.
        directory: Its directory among the artifacts; may hold the tag for loops.
    """

    key: str
    name: str
    template: str
    spec: dict[str, Any]
    component: dict[str, Any]
    directory: str
    given: dict[str, Value]


def call_arguments(given: Mapping[str, Value]) -> list[models.Parameter]:
    """Returns values as arguments of a call."""
    return [models.Parameter(name=name, value=value.tag) for name, value in given.items()]


def inputs_of(parameters: list[models.Parameter]) -> models.Inputs | None:
    """Returns the inputs of a template; None where there are none."""
    return models.Inputs(parameters=parameters) if parameters else None


def outputs_of(expressions: Mapping[str, str]) -> models.Outputs | None:
    """Returns the outputs of a template, each with its expression; None where there are none."""
    made = [
        models.Parameter(name=name, value_from=models.ValueFrom(expression=expression))
        for name, expression in expressions.items()
    ]
    return models.Outputs(parameters=made) if made else None


def declared(name: str, spec: dict[str, Any], *, has_default: bool) -> models.Parameter:
    """Returns an input of a template."""
    about = shown(spec["description"]) if "description" in spec else None
    default = plain(spec.get("defaultValue"), spec.get("parameterType", ""))
    value = encoded(default) if has_default else None
    return models.Parameter(name=name, value=value, description=about)


def directory_input(directory: str) -> list[models.Parameter]:
    """Returns the input that tells a template in a loop where its artifacts are."""
    return [models.Parameter(name=DIRECTORY)] if IN_LOOP in directory else []


def both(definitions: dict[str, Any]) -> dict[str, Any]:
    """Returns the parameters and the artifacts among inputs or outputs, by name."""
    return {**definitions.get("parameters", {}), **definitions.get("artifacts", {})}


def short_names(definitions: dict[str, Any]) -> dict[str, str]:
    """Returns names of inputs or outputs without what kfp puts before those it makes up."""
    short = {key: key.removeprefix(_CHANNEL) for key in both(definitions)}
    taken = list(short.values())
    return {key: name if taken.count(name) == 1 else key for key, name in short.items()}


def task_names(tasks: dict[str, dict[str, Any]]) -> dict[str, str]:
    """Returns what tasks are called in Argo: what a person has called them, where Argo takes it."""
    made = {key: task.get("taskInfo", {}).get("name", key) for key, task in tasks.items()}
    taken = list(made.values())
    return {
        key: shortened(
            name
            if _NAME.fullmatch(name) and taken.count(name) == 1 and name not in tasks.keys() - {key}
            else key
        )
        for key, name in made.items()
    }


def shortened(name: str) -> str:
    """Returns the name of a task or a template as Argo takes it: its end may become a hash."""
    if len(name) <= LONGEST:
        return name
    digest = hashlib.sha256(name.encode()).hexdigest()[:8]
    return f"{name[: LONGEST - 9].rstrip('-')}-{digest}"


def dependencies(task: dict[str, Any]) -> set[str]:
    """Returns the tasks that one comes after."""
    sources = both(task.get("inputs", {})).values()
    parts = [part for source in sources for part in source.values() if isinstance(part, dict)]
    used = {part["producerTask"] for part in parts if "producerTask" in part}
    return used | set(task.get("dependentTasks", []))


def depends(upstream: list[str], *, ended: bool) -> str | None:
    """Returns the condition under which a task runs after others have succeeded, or just ended."""
    if not ended:
        return " && ".join(f"{name}.Succeeded" for name in upstream) or None
    ends = (" || ".join(f"{name}.{state}" for state in _ENDED) for name in upstream)
    return " && ".join(f"({each})" for each in ends) or None


def absent_inputs(task: Task) -> set[str]:
    """Returns the inputs of a task that may be null at run time."""
    return {
        key
        for key, spec in both(task.component.get("inputDefinitions", {})).items()
        if (task.given[key].maybe_absent if key in task.given else "defaultValue" not in spec)
    }


def inner_directory(directory: str) -> str:
    """Returns the directory of what is in a task; in a loop, Argo is told it."""
    return IN_LOOP if IN_LOOP in directory else directory


def refine(template: models.Template, task: Task) -> None:
    """Adds to a template what is said of the task, whatever it is."""
    title = task.spec.get("taskInfo", {}).get("name", task.key)
    if title not in (task.name, task.key):
        template.annotations = {"workflows.argoproj.io/title": shown(title)}
    retries = task.spec.get("retryPolicy", {})
    strategy: dict[str, Any] = {}
    if (factor := retries.get("backoffFactor")) and factor != int(factor):
        raise NotOnArgo(f"task {task.key}", f"the backoff_factor {factor}, which is not whole,")
    if retries.get("maxRetryCount"):
        backoff = {
            "duration": retries.get("backoffDuration"),
            "factor": str(whole(retries["backoffFactor"])) if "backoffFactor" in retries else None,
            "maxDuration": retries.get("backoffMaxDuration"),
        }
        backoff = {key: value for key, value in backoff.items() if value}
        strategy = {"limit": str(retries["maxRetryCount"])}
        strategy |= {"backoff": backoff} if backoff else {}
    elif template.container:
        strategy = {"limit": str(TRIES), "expression": LOST}
    if strategy:
        template.retry_strategy = models.RetryStrategy.model_validate(
            strategy | {"retryPolicy": "Always"}
        )
