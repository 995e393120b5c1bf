"""Make another graph of one: ``changed``, and what is changed of pipelines in several places."""

import copy
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from typing import Any

from trireme.graph.graph import KUBERNETES, Graph
from trireme.graph.model import StepPath
from trireme.graph.reading import of_json


@dataclass
class Draft:
    """A copy of a graph that may be changed.

    Attributes:
        graph: What it was made of.
        document: kfp's ``PipelineSpec`` as JSON.
        platforms: kfp's ``PlatformSpec`` as JSON.
    """

    graph: Graph
    document: dict[str, Any]
    platforms: dict[str, Any]

    def task(self, path: StepPath) -> dict[str, Any]:
        """Returns a task, kfp's ``PipelineTaskSpec``."""
        task: dict[str, Any] = self.tasks(path[:-1])[path[-1].name]
        return task

    def tasks(self, path: StepPath) -> dict[str, Any]:
        """Returns the tasks of a group, by name; of the pipeline for an empty path."""
        return self.group(path)["dag"]["tasks"]

    def keep(self, path: StepPath, names: Collection[str]) -> None:
        """Removes all tasks of a group but some and those that they depend on."""
        group, needed, waiting = self.group(path), set(), [*names]
        tasks = group["dag"]["tasks"]
        while waiting:
            name = waiting.pop()
            if name not in needed:
                needed.add(name)
                waiting.extend(tasks[name].get("dependentTasks", ()))
        group["dag"] = {"tasks": {name: tasks[name] for name in tasks if name in needed}}
        group.pop("outputDefinitions", None)

    def give(self, path: StepPath, name: str, value: Any) -> None:
        """Gives a task a constant as its input."""
        parameters = self.task(path).setdefault("inputs", {}).setdefault("parameters", {})
        parameters[name] = {"runtimeValue": {"constant": value}}

    def limit_loops(self, limit: int, lister: str) -> None:
        """Has each loop run so many turns at once, and tells the step that makes its list.

        Args:
            lister: The input by which such a step is told, if it has it.
        """
        for component in (self.document["root"], *self.document.get("components", {}).values()):
            tasks = component.get("dag", {}).get("tasks", {})
            for task in tasks.values():
                iterator = task.get("parameterIterator") or task.get("artifactIterator")
                if not iterator:
                    continue
                task["iteratorPolicy"] = {"parallelismLimit": limit}
                items = iterator["items"].get(
                    "inputParameter", ""
                )  # else a list that is written down
                source = task.get("inputs", {}).get("parameters", {}).get(items, {})
                made_by = source.get("taskOutputParameter", {}).get("producerTask", "")
                parameters = tasks.get(made_by, {}).get("inputs", {}).get("parameters", {})
                if lister in parameters:
                    parameters[lister] = {"runtimeValue": {"constant": float(limit)}}

    def container(self, label: str) -> dict[str, Any]:
        """Returns the container of a step, kfp's ``PipelineContainerSpec``, by its executor."""
        container: dict[str, Any] = self.document["deploymentSpec"]["executors"][label]["container"]
        return container

    def pod(self, label: str) -> dict[str, Any]:
        """Returns what is configured of a step's pod, kfp's ``KubernetesExecutorConfig``."""
        configured = self.platforms.get(KUBERNETES, {}).get("deploymentSpec", {})
        return dict(configured.get("executors", {}).get(label, {}))

    def set_pod(self, label: str, pod: dict[str, Any]) -> None:
        """Configures a step's pod so, instead."""
        kubernetes = self.platforms.setdefault(KUBERNETES, {})
        executors = kubernetes.setdefault("deploymentSpec", {}).setdefault("executors", {})
        executors[label] = pod

    @property
    def labels(self) -> dict[str, str]:
        """The executors of all steps that are containers, by the steps' names."""
        return {path[-1].name: step.label for path, step in self.graph.steps}

    @property
    def workspace(self) -> dict[str, Any] | None:
        """How the volume of a run is configured; None where it has none."""
        configured = self.platforms.get(KUBERNETES, {}).get("pipelineConfig", {})
        return configured.get("workspace")

    def group(self, path: StepPath) -> dict[str, Any]:
        """Returns the component of a group, kfp's ``ComponentSpec``; of the pipeline its root."""
        component: dict[str, Any] = self.document["root"]
        for step in path:
            name = component["dag"]["tasks"][step.name]["componentRef"]["name"]
            component = self.document["components"][name]
        return component


def changed(graph: Graph, change: Callable[[Draft], None]) -> Graph:
    """Returns a graph that a function has changed a copy of."""
    draft = Draft(graph, copy.deepcopy(graph.document), copy.deepcopy(graph.platforms))
    change(draft)
    return of_json(draft.document, draft.platforms, [*graph.order])


def set_variables(
    container: dict[str, Any], variables: Mapping[str, str], instead_of: Collection[str] = ()
) -> None:
    """Gives the container of a step variables, in place of those of their names and some more."""
    remaining = [
        entry
        for entry in container.get("env", ())
        if entry["name"] not in variables and entry["name"] not in instead_of
    ]
    added = [{"name": name, "value": value} for name, value in variables.items()]
    container["env"] = [*remaining, *added]


def with_texts(graph: Graph, texts: Mapping[str, str]) -> Graph:
    """Returns a graph in which other texts stand wherever one of some is a whole value."""

    def replaced(value: Any) -> Any:
        if isinstance(value, dict):
            return {key: replaced(inner) for key, inner in value.items()}
        if isinstance(value, list):
            return [replaced(inner) for inner in value]
        return texts.get(value, value) if isinstance(value, str) else value

    def replace(draft: Draft) -> None:
        draft.document = replaced(draft.document)

    return changed(graph, replace)
