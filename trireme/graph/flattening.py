"""Take the exit handler of ``finishing`` apart: its steps come first, and its last step comes last.

Kubeflow's UI opens a run on the tasks of the pipeline itself, so that an exit handler shows two
boxes. What is made here of it is an ordinary pipeline: the handler's tasks are the pipeline's own,
and ``finish`` is a task that depends on them. It runs if all of them have succeeded; a step that
fails has to do its work. One that is not in Trireme's frame cannot, and with it the handler stays.

Kubeflow Pipelines 2.17 starts a task when all that it depends on has succeeded, and what a
condition has left out has not:
https://github.com/kubeflow/pipelines/blob/2.17.0/backend/src/v2/compiler/argocompiler/dag.go
A group that is left out in which nothing but tasks are left out has succeeded. So a condition that
``finish`` comes after moves from its group to the first tasks in it.
"""

import copy
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from trireme.graph.changing import Draft, changed
from trireme.graph.conditions import inputs_of
from trireme.graph.graph import KUBERNETES, Graph
from trireme.graph.model import Group, Step, StepPath
from trireme.graph.reading import AFTER_FAILURE

LAST = "finish"
"""The component that ends a run."""

STATUS = {"state": "SUCCEEDED", "pipelineTaskName": "", "pipelineJobResourceName": "", "error": {}}
"""kfp's ``PipelineTaskFinalStatus`` of what has succeeded."""

_KINDS = (("parameters", "Parameter"), ("artifacts", "Artifact"))


@dataclass(frozen=True)
class Flattened:
    """A pipeline without the exit handler of Trireme's.

    Attributes:
        graph: The pipeline.
        last: The path to its last task, which ends the run if all others have succeeded.
    """

    graph: Graph
    last: StepPath


class _NotApartError(Exception):
    """The handler has a form that kfp's compiler gives to none, and stays as it is."""


def flattened(graph: Graph) -> Flattened | None:
    """Returns a pipeline without the exit handler of ``finishing``; None where it has to keep it.

    It has one, at the top; handlers with a last task of somebody's own are left as they are.
    """
    handlers = [*_handlers(graph)]
    if len(handlers) != 1:
        return None
    (handler, last) = handlers[0]
    steps = (task.component for path, task in graph.leaves if path[0].name != last)
    if not all(isinstance(step, Step) and step.keeps_journal for step in steps):
        return None
    try:
        made = changed(graph, lambda draft: _Handler(draft, handler, last).take_apart())
    except _NotApartError:
        return None
    (path,) = (path for path in made.paths.values() if [one.name for one in path] == [last])
    return Flattened(made, path)


def _handlers(graph: Graph) -> Iterator[tuple[str, str]]:
    """Yields the names of exit handlers of Trireme's, each with that of its last task."""
    tasks = graph.root.tasks
    for task in tasks.values():
        is_last = isinstance(task.component, Step) and task.component.is_of(LAST)
        if not (task.runs_after_failure and is_last and len(task.after) == 1):
            continue
        handler = tasks[task.after[0]]
        is_plain = not (handler.loop or handler.condition or handler.retry)
        if isinstance(handler.component, Group) and is_plain and not handler.runs_after_failure:
            yield handler.name, task.name


class _Handler:
    """An exit handler in a draft, which ``take_apart`` changes."""

    def __init__(self, draft: Draft, handler: str, last: str) -> None:
        self._document, self._platforms = draft.document, draft.platforms
        self._components: dict[str, Any] = draft.document.get("components", {})
        self._tasks: dict[str, Any] = draft.document["root"]["dag"]["tasks"]
        self._name, self._last = handler, self._tasks[last]
        self._handler = self._tasks[handler]
        self._group = self._of(self._handler)
        self._within: dict[str, Any] = self._group["dag"]["tasks"]

    def take_apart(self) -> None:
        """Makes the tasks of the handler the pipeline's own, and the last an ordinary one.

        Raises:
            _NotApartError: That cannot be.
        """
        others = (one for one in self._tasks.values() if one is not self._last)
        if (
            self._within.keys() & self._tasks.keys()
            or self._times(self._handler) > 1
            or self._group["dag"].get("outputs")  # which kfp lets nobody take
            or any(self._name in _after(one) for one in others)
        ):
            raise _NotApartError
        self._rewire_pods()
        for task in self._within.values():
            self._rewire(task)
        ends = [*self._ends()]
        del self._tasks[self._name]
        del self._components[self._handler["componentRef"]["name"]]
        self._tasks |= self._within
        self._make_ordinary(ends)
        for name, task in self._within.items():
            if name in ends and self._is_conditional(task):
                self._move_condition(task)
        for task in self._within.values():
            self._show_artifacts(task)

    def _of(self, task: dict[str, Any]) -> dict[str, Any]:
        """Returns the component of a task."""
        found: dict[str, Any] = self._components[task["componentRef"]["name"]]
        return found

    def _times(self, task: dict[str, Any]) -> int:
        """Returns how many tasks are of a task's component."""
        every = (self._document["root"], *self._components.values())
        tasks = (one for each in every for one in each.get("dag", {}).get("tasks", {}).values())
        return sum(one["componentRef"] == task["componentRef"] for one in tasks)

    def _outer(self, source: dict[str, Any]) -> dict[str, Any]:
        """Returns what an input in the handler is given, as the pipeline has it."""
        for kind, word in _KINDS:
            if name := source.get(f"componentInput{word}"):
                given = self._handler.get("inputs", {}).get(kind, {}).get(name)
                selector = source.get("parameterExpressionSelector")
                if given is None or (selector and "parameterExpressionSelector" in given):
                    raise _NotApartError
                more = {"parameterExpressionSelector": selector} if selector else {}
                return copy.deepcopy(given) | more
        return source

    def _rewire(self, task: dict[str, Any]) -> None:
        """Gives a task in the handler its inputs as the pipeline has them."""
        for kind, _ in _KINDS:
            given = task.get("inputs", {}).get(kind, {})
            for name, source in given.items():
                given[name] = self._outer(source)
        if not self._before(task):
            outside = self._handler.get("dependentTasks", ())
            if after := sorted({*task.get("dependentTasks", ()), *outside}):
                task["dependentTasks"] = after

    def _rewire_pods(self) -> None:
        """Has what is configured of pods refer to what the pipeline has."""
        platform = self._platforms.get(KUBERNETES, {}).get("deploymentSpec", {})
        for task in self._within.values():
            pod = platform.get("executors", {}).get(self._of(task).get("executorLabel", ""))
            if pod and "componentInput" in str(pod):
                if self._times(task) > 1:  # which may mean another input there
                    raise _NotApartError
                self._rewire_pod(pod)

    def _rewire_pod(self, part: Any) -> None:
        if isinstance(part, list):
            for each in part:
                self._rewire_pod(each)
        elif isinstance(part, dict):
            for key, value in part.items():
                if isinstance(value, dict):
                    part[key] = self._outer(value)
                self._rewire_pod(part[key])

    def _before(self, task: dict[str, Any]) -> set[str]:
        """Returns the tasks of the handler that one of them comes right after."""
        return _after(task) & self._within.keys()

    def _ends(self) -> Iterator[str]:
        """Yields the tasks of the handler that nothing comes after, as far as it can be waited for.

        Kubeflow Pipelines makes a hook of what runs after failures, of each task before it.
        """
        proper = {name: one for name, one in self._within.items() if not _is_hook(one)}
        followed = {name for one in proper.values() for name in _after(one)}
        for name, task in proper.items():
            if name not in followed:
                if any(self._may_be_left_out(proper[one]) for one in self._before(task)):
                    raise _NotApartError
                yield name

    def _may_be_left_out(self, task: dict[str, Any]) -> bool:
        before = (self._within[name] for name in self._before(task))
        return self._is_conditional(task) or any(map(self._may_be_left_out, before))

    def _is_conditional(self, task: dict[str, Any]) -> bool:
        # Of a loop Kubeflow Pipelines leaves out the turns alone.
        return "condition" in task.get("triggerPolicy", {}) and not _is_loop(task)

    def _make_ordinary(self, ends: list[str]) -> None:
        """Makes the last task one that runs when all others have succeeded."""
        del self._last["triggerPolicy"]
        for source in self._last["inputs"]["parameters"].values():
            if source.pop("taskFinalStatus", None):
                source["runtimeValue"] = {"constant": copy.deepcopy(STATUS)}
        self._last["dependentTasks"] = sorted(ends)

    def _move_condition(self, task: dict[str, Any]) -> None:
        """Moves the condition of a group to the first tasks in it."""
        group = self._of(task)
        if "dag" not in group or self._times(task) > 1:
            raise _NotApartError
        condition = task.pop("triggerPolicy")["condition"]
        tasks = group["dag"]["tasks"]
        for one in tasks.values():
            if _after(one) & tasks.keys():
                continue
            if _is_hook(one):
                raise _NotApartError
            policy = one.setdefault("triggerPolicy", {})
            own = policy.get("condition")
            policy["condition"] = f"({condition}) && ({own})" if own else condition
            given = one.setdefault("inputs", {}).setdefault("parameters", {})
            for name in sorted(inputs_of(condition)):
                given.setdefault(name, {"componentInputParameter": name})

    def _show_artifacts(self, task: dict[str, Any]) -> None:
        """Makes what the steps of a group leave its outputs, which the UI shows beside it."""
        group = self._of(task)
        if "dag" not in group or _is_loop(task):
            return
        for name, one in group["dag"]["tasks"].items():
            self._show_artifacts(one)
            component = self._of(one)
            if "executorLabel" not in component or _is_hook(one):
                continue
            found = component.get("outputDefinitions", {}).get("artifacts", {})
            for key, definition in found.items():
                outputs = group["dag"].setdefault("outputs", {}).setdefault("artifacts", {})
                chosen = [{"producerSubtask": name, "outputArtifactKey": key}]
                outputs.setdefault(f"{name}-{key}", {"artifactSelectors": chosen})
                definitions = group.setdefault("outputDefinitions", {}).setdefault("artifacts", {})
                definitions.setdefault(f"{name}-{key}", copy.deepcopy(definition))


def hand_down(draft: Draft, path: StepPath, name: str, source: dict[str, Any]) -> dict[str, Any]:
    """Hands a text of the pipeline down to the group of a step; returns how it is called there.

    Args:
        name: What the groups on the way get it as.
        source: What it is in the pipeline, kfp's ``TaskInputsSpec.InputParameterSpec``.
    """
    for depth in range(1, len(path)):
        if "componentInputParameter" not in source:
            break
        task = draft.task(path[:depth])
        parameters = task.setdefault("inputs", {}).setdefault("parameters", {})
        parameters.setdefault(name, copy.deepcopy(source))
        definitions = draft.group(path[:depth]).setdefault("inputDefinitions", {})
        definitions.setdefault("parameters", {}).setdefault(name, {"parameterType": "STRING"})
        source = {"componentInputParameter": name}
    return source


def _after(task: dict[str, Any]) -> set[str]:
    """Returns the tasks that one comes right after."""
    found = {*task.get("dependentTasks", ())}
    for kind, word in _KINDS:
        for source in task.get("inputs", {}).get(kind, {}).values():
            found.add(source.get(f"taskOutput{word}", {}).get("producerTask", ""))
            found.add(source.get("taskFinalStatus", {}).get("producerTask", ""))
    return found - {""}


def _is_loop(task: dict[str, Any]) -> bool:
    return "parameterIterator" in task or "artifactIterator" in task


def _is_hook(task: dict[str, Any]) -> bool:
    return bool(task.get("triggerPolicy", {}).get("strategy") == AFTER_FAILURE)
