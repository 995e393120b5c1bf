"""A pipeline as kfp compiled it, and as the model has it."""

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from trireme.graph.model import (
    Constant,
    Group,
    InputOf,
    Step,
    StepPath,
    Task,
    groups,
    leaves,
)

KUBERNETES = "kubernetes"
"""The platform that kfp-kubernetes configures."""


@dataclass(frozen=True)
class Graph:
    """A compiled pipeline, which nobody changes; ``changing.changed`` makes another one of it.

    Attributes:
        document: kfp's ``PipelineSpec`` as JSON.
        platforms: What else is configured of pods and of the whole, by platform.
        order: The parameters in the order in which their author wrote them, as far as known.
        root: All of it as the model has it.
    """

    document: dict[str, Any]
    platforms: dict[str, Any]
    order: tuple[str, ...]
    root: Group

    @property
    def name(self) -> str:
        """The pipeline's name."""
        return self.root.name

    @property
    def display_name(self) -> str:
        """Its name for a person; empty if it has no other."""
        return str(self.document["pipelineInfo"].get("displayName", ""))

    @property
    def description(self) -> str:
        """What it does, as its author says."""
        return str(self.document["pipelineInfo"].get("description", ""))

    @property
    def workspace(self) -> dict[str, Any] | None:
        """How the volume of a run is configured; None where it has none."""
        configured = self.platforms.get(KUBERNETES, {}).get("pipelineConfig", {})
        return configured.get("workspace")

    @cached_property
    def leaves(self) -> list[tuple[StepPath, Task]]:
        """All tasks that are no groups, with the paths to them, in the order of dependency."""
        return list(leaves(self.root))

    @cached_property
    def paths(self) -> dict[str, StepPath]:
        """The path to each step, by the step's name."""
        return by_names([path for path, _ in self.leaves])

    @cached_property
    def names(self) -> dict[tuple[str, ...], str]:
        """The names of the steps, by those of the tasks down to each."""
        return {tuple(task.name for task in path): name for name, path in self.paths.items()}

    @property
    def step_names(self) -> list[str]:
        """The names of all steps, nested ones included."""
        return list(self.paths)

    @property
    def steps(self) -> Iterator[tuple[StepPath, Step]]:
        """The steps that are containers, with the paths to them; an importer is none."""
        for path, task in self.leaves:
            if isinstance(task.component, Step):
                yield path, task.component

    @property
    def images(self) -> set[str]:
        """The images that its steps name; not those that a parameter names."""
        return {step.image for _, step in self.steps if "{{" not in step.image}

    @property
    def variables(self) -> set[str]:
        """The names of the variables that any step has."""
        return {
            name for _, step in self.steps for name in step.variables.keys() | step.from_the_cluster
        }

    @property
    def after_failures(self) -> set[str]:
        """The names of tasks that run even after a failure, such as exit handlers."""
        return {
            task.name
            for group in groups(self.root)
            for task in group.tasks.values()
            if task.runs_after_failure
        }

    def paths_of(self, component: str) -> list[StepPath]:
        """Returns the paths to the steps that one of Trireme's components has become."""
        return [path for path, step in self.steps if step.is_of(component)]

    def inputs_of(self, path: StepPath, arguments: Mapping[str, Any]) -> dict[str, Any]:
        """Returns the inputs of a step that are constants or parameters of the pipeline.

        Args:
            arguments: A value for every parameter of the pipeline.
        """
        scope, group = dict(arguments), self.root
        for step in path:
            task = group.tasks[step.name]
            values = {}
            for name, task_input in task.inputs.items():
                if isinstance(task_input.source, InputOf) and task_input.source.name in scope:
                    values[name] = scope[task_input.source.name]
                elif isinstance(task_input.source, Constant) and "{{$" not in str(
                    task_input.source.value
                ):
                    values[name] = task_input.source.value
            scope = values
            if isinstance(task.component, Group):
                group = task.component
        return scope


def by_names(paths: list[StepPath]) -> dict[str, StepPath]:
    """Returns the paths to steps by what tells each from all others.

    It is the name of its own task, with as many of the groups around it as are needed.
    """
    tasks = {tuple(task.name for task in path): path for path in paths}
    names: dict[tuple[str, ...], str] = {}
    for length in range(1, max(map(len, tasks), default=0) + 1):
        named = {path: "-".join(path[-length:]) for path in tasks if path not in names}
        times = Counter(named.values()) + Counter(names.values())
        names |= {
            path: name for path, name in named.items() if times[name] == 1 or len(path) == length
        }
    counts: Counter[str] = Counter()
    for path, name in names.items():
        counts[name] += 1
        names[path] = f"{name}-again-{counts[name]}" if counts[name] > 1 else name
    return {names[path]: tasks[path] for path in tasks}
