"""The parts of a compiled pipeline: groups of tasks, steps, and where each input comes from.

A pipeline is a tree. The root is a ``Group``; a task of a group is of a component, which is a
``Group`` again (of a loop, a condition, an exit handler, another pipeline) or a leaf: a ``Step``,
whose container runs, or an ``Importer``. Names are those of the compiled pipeline.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cached_property
from graphlib import CycleError, TopologicalSorter
from typing import Any, NamedTuple

from trireme.errors import InputError

ABSENT: Any = type("Absent", (), {"__repr__": lambda self: "ABSENT"})()
"""What stands for a value that there is none of; ``None`` is JSON's null."""

FRAME = "from trireme.tracked_step import step"
"""What a function says that is in the frame of Trireme's steps."""

EXECUTOR_INPUT = "{{$}}"
"""The placeholder of all that a step is given, as JSON; kfp's executor takes it."""


@dataclass(frozen=True)
class Parameter:
    """An input or output that is a value.

    Attributes:
        type: STRING, NUMBER_INTEGER, NUMBER_DOUBLE, BOOLEAN, LIST, STRUCT, TASK_FINAL_STATUS or
            TASK_CONFIG.
        default: ``ABSENT`` if there is none.
        choices: The only values that it may have; empty for any.
    """

    name: str
    type: str
    default: Any = ABSENT
    is_optional: bool = False
    description: str = ""
    choices: tuple[Any, ...] = ()


@dataclass(frozen=True)
class Artifact:
    """An input or output that is an artifact, or a list of them.

    Attributes:
        schema: kfp's ``ArtifactTypeSchema``, such as ``{"schemaTitle": "system.Model", ...}``.
    """

    name: str
    schema: dict[str, Any]
    is_list: bool = False
    is_optional: bool = False
    description: str = ""


@dataclass(frozen=True)
class Constant:
    """A value that the pipeline says; there may be placeholders in its texts."""

    value: Any


@dataclass(frozen=True)
class InputOf:
    """An input of the group that the task is in."""

    name: str


@dataclass(frozen=True)
class OutputOf:
    """An output of another task of the group."""

    task: str
    key: str


@dataclass(frozen=True)
class StatusOf:
    """How another task of the group has ended: kfp's ``PipelineTaskFinalStatus``."""

    task: str


Source = Constant | InputOf | OutputOf | StatusOf


@dataclass(frozen=True)
class Input:
    """What a task is given for one of its inputs.

    Attributes:
        member: The member of the source's value that is meant, of a JSON object; empty for all.
    """

    name: str
    source: Source
    is_artifact: bool = False
    member: str = ""


@dataclass(frozen=True)
class Loop:
    """The task runs once for each item.

    Attributes:
        item: The input of the component that is given the item.
        items: What is looped over: a list that the pipeline says, or an input of the task.
        is_of_artifacts: Whether items are artifacts.
        limit: How many turns run at once; 0 for any number.
    """

    item: str
    items: Constant | InputOf
    is_of_artifacts: bool = False
    limit: int = 0


@dataclass(frozen=True)
class Retry:
    """The task is tried again when it has failed.

    Attributes:
        times: Tries after the first.
        delay: Seconds before the first of them.
        factor: What the delay is multiplied by from try to try.
        within: Seconds from the begin of the first try's work on, after which there is no other;
            0 for any number.
    """

    times: int
    delay: float = 0.0
    factor: float = 1.0
    within: float = 0.0

    def pause(self, number: int) -> float:
        """Returns the seconds before a try, of which the first again is number 0."""
        return self.delay * self.factor**number


@dataclass(frozen=True)
class Task:
    """A task of a group.

    Attributes:
        name: What other tasks of the group call it by.
        title: What a person has called it.
        after: The tasks that it comes after, also those whose outputs it takes.
        condition: CEL over its inputs; it is skipped where that is false. Empty for none.
        runs_after_failure: Whether it runs however the tasks before it have ended.
        caching: kfp's ``CachingOptions``.
    """

    name: str
    title: str
    component: "Component"
    inputs: dict[str, Input] = field(default_factory=dict)
    after: tuple[str, ...] = ()
    condition: str = ""
    runs_after_failure: bool = False
    loop: Loop | None = None
    retry: Retry | None = None
    caching: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Component:
    """What a task is of.

    Attributes:
        label: The name of a leaf's executor; empty for a group.
    """

    name: str
    inputs: dict[str, Parameter | Artifact]
    outputs: dict[str, Parameter | Artifact]
    label: str = ""

    @property
    def input_parameters(self) -> dict[str, Parameter]:
        """Its inputs that are values."""
        return {key: value for key, value in self.inputs.items() if isinstance(value, Parameter)}

    @property
    def output_parameters(self) -> dict[str, Parameter]:
        """Its outputs that are values."""
        return {key: value for key, value in self.outputs.items() if isinstance(value, Parameter)}

    @property
    def input_artifacts(self) -> dict[str, Artifact]:
        """Its inputs that are artifacts."""
        return {
            key: artifact for key, artifact in self.inputs.items() if isinstance(artifact, Artifact)
        }

    @property
    def output_artifacts(self) -> dict[str, Artifact]:
        """Its outputs that are artifacts."""
        return {
            key: artifact
            for key, artifact in self.outputs.items()
            if isinstance(artifact, Artifact)
        }


_VOLUMES = (
    *("secretAsVolume", "configMapAsVolume", "pvcMount"),
    *("genericEphemeralVolume", "emptyDirMounts"),
)
"""What kfp-kubernetes calls volumes of a pod that have a place in it."""


@dataclass(frozen=True)
class Step(Component):
    """A leaf whose container runs; texts may hold placeholders.

    Attributes:
        resources: kfp's ``ResourceSpec``.
        pod: What kfp-kubernetes configures of its pod, kfp's ``KubernetesExecutorConfig``.
        passthroughs: What the training job gets of the pod, and whether the pod keeps it, by
            kfp's names, as in ``{"RESOURCES": False}``.
    """

    image: str = ""
    command: tuple[str, ...] = ()
    arguments: tuple[str, ...] = ()
    variables: dict[str, str] = field(default_factory=dict)
    resources: dict[str, Any] = field(default_factory=dict)
    pod: dict[str, Any] = field(default_factory=dict)
    passthroughs: dict[str, bool] = field(default_factory=dict)

    @property
    def command_line(self) -> list[str]:
        """Its command and arguments."""
        return [*self.command, *self.arguments]

    @property
    def from_the_cluster(self) -> dict[str, bool]:
        """The variables that only a cluster gives it, by name: whether it needs each."""
        variables = {entry["name"]: True for entry in self.pod.get("fieldPathAsEnv", ())}
        for entry in (*self.pod.get("secretAsEnv", ()), *self.pod.get("configMapAsEnv", ())):
            is_needed = not entry.get("optional", False)
            variables |= {pair["envVar"]: is_needed for pair in entry.get("keyToEnv", ())}
        return variables

    @property
    def volumes(self) -> dict[str, bool]:
        """The folders that only a cluster gives it: whether it needs each."""
        return {
            mount["mountPath"]: not mount.get("optional", False)
            for kind in _VOLUMES
            for mount in self.pod.get(kind, ())
        }

    @property
    def is_python(self) -> bool:
        """Whether it is a Python function, which kfp's executor runs."""
        return "--function_to_execute" in self.arguments

    @property
    def keeps_journal(self) -> bool:
        """Whether its work is in the frame of Trireme's steps, somebody's own included."""
        return any(FRAME in word for word in self.command)

    def is_of(self, component: str) -> bool:
        """Tells whether it is one of Trireme's own components."""
        line = f'with step("{component}", workspace'
        return any(line in word for word in self.command)


@dataclass(frozen=True)
class Importer(Component):
    """A leaf that stands for an artifact that is there already; nothing runs."""

    uri: Constant | InputOf = field(default_factory=lambda: Constant(""))
    schema: dict[str, Any] = field(default_factory=dict)
    metadata: dict[str, Any] = field(default_factory=dict)
    is_downloaded: bool = False


@dataclass(frozen=True)
class Group(Component):
    """A component of tasks.

    Attributes:
        given: Where each output comes from: the first of some outputs whose task has run.
    """

    tasks: dict[str, Task] = field(default_factory=dict)
    given: dict[str, tuple[OutputOf, ...]] = field(default_factory=dict)

    @cached_property
    def following(self) -> dict[str, list[str]]:
        """The names of the tasks that come right after each task."""
        by_task: dict[str, list[str]] = {name: [] for name in self.tasks}
        for task in self.in_order:
            for name in task.after:
                by_task[name].append(task.name)
        return by_task

    @cached_property
    def steps_after(self) -> dict[str, int]:
        """How many steps are on the longest way from the end of each task to that of the group."""
        lengths: dict[str, int] = {}
        for task in reversed(self.in_order):
            ways = (lengths[name] + _length(self.tasks[name]) for name in self.following[task.name])
            lengths[task.name] = max(ways, default=0)
        return lengths

    @cached_property
    def in_order(self) -> list[Task]:
        """Its tasks, each after those that it comes after; otherwise in the order of names."""
        before = {
            name: sorted(self.tasks[name].after, key=_as_counted)
            for name in sorted(self.tasks, key=_as_counted)
        }
        try:
            return [self.tasks[name] for name in TopologicalSorter(before).static_order()]
        except CycleError as error:
            circle = " -> ".join(error.args[1])
            raise InputError(f"tasks wait for each other in a circle: {circle}") from None


def _length(task: Task) -> int:
    """Returns how many steps are on the longest way through a task, with a loop's turns at once."""
    group = task.component
    if not isinstance(group, Group):
        return 1
    return max(
        (after + _length(group.tasks[name]) for name, after in group.steps_after.items()), default=0
    )


def _as_counted(name: str) -> tuple[str, int]:
    """Returns what orders names of tasks: kfp calls further ones of a component say-2 to say-10."""
    stem, _, number = name.rpartition("-")
    return (stem, int(number)) if stem and number.isdecimal() else (name, 0)


class PathTask(NamedTuple):
    """A task on the path to a step, of the pipeline or of one that is a group of tasks."""

    name: str
    is_loop: bool


StepPath = tuple[PathTask, ...]
"""The way from the pipeline to a step of it: the groups around it, and itself."""


def leaves(group: Group, above: StepPath = ()) -> Iterator[tuple[StepPath, Task]]:
    """Yields the path to each task of a group that is none itself, nested ones included."""
    for task in group.in_order:
        path = (*above, PathTask(task.name, task.loop is not None))
        if isinstance(task.component, Group):
            yield from leaves(task.component, path)
        else:
            yield path, task


def groups(group: Group) -> Iterator[Group]:
    """Yields a group and all groups below it."""
    yield group
    for task in group.tasks.values():
        if isinstance(task.component, Group):
            yield from groups(task.component)
