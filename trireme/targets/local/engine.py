"""Walk a pipeline's graph here: what runs when, and what it is given.

One thread decides; steps run in others, as many at once as is allowed. What is alike for the same
graph on Kubeflow and Argo:

- A task begins when all that it comes after has succeeded. After a failure in a group nothing more
  of it begins but what runs after failures; what has begun goes on to its end, as do all turns of a
  loop without a limit. A group in which a task has failed has failed.
- A task is skipped where its condition is false, and where one that it comes after was skipped.
- An output that was not left is ABSENT: an input that may be left out is then, any other fails.
  What comes together of a loop is of the turns that have left one, in their order.
"""

import heapq
import itertools
import math
import queue
import time
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any

from trireme.errors import InputError, StepFailed, TriremeError
from trireme.graph import values
from trireme.graph.conditions import holds
from trireme.graph.graph import Graph
from trireme.graph.model import (
    ABSENT,
    Artifact,
    Component,
    Constant,
    Group,
    Importer,
    InputOf,
    OutputOf,
    Parameter,
    StatusOf,
    Step,
    Task,
)
from trireme.graph.placeholders import keyed
from trireme.process.processes import limit_reached

SUCCEEDED, FAILED, SKIPPED = "SUCCEEDED", "FAILED", "SKIPPED"

Values = dict[str, Any]
Ended = Callable[["Outcome"], None]


@dataclass(frozen=True)
class Outcome:
    """How a task has ended, what it has left, and when the work of its first step began."""

    state: str
    outputs: Values = field(default_factory=dict)
    error: TriremeError | None = None
    began: float = math.inf


@dataclass(frozen=True)
class Place:
    """Where a run is.

    Attributes:
        run: Its name.
        id: What stands for its id, as long as there is none of Kubeflow's.
        began: When it began, as kfp writes it.
        artifacts: The folder of all that steps leave.
        workspace: The run workspace.
    """

    run: str
    id: str
    began: str
    artifacts: Path
    workspace: Path

    def placeholder(self, inside: str, task: str) -> Any:
        """Returns what a placeholder stands for that every task may have; ABSENT if it is none."""
        return {
            ".pipeline_job_name": self.run,
            ".pipeline_job_resource_name": self.run,
            ".pipeline_job_uuid": self.id,
            ".pipeline_job_create_time_utc": self.began,
            ".pipeline_job_schedule_time_utc": self.began,
            ".pipeline_root": str(self.artifacts),
            ".pipeline_task_name": task,
            ".pipeline_task_uuid": f"{self.id}-{task}",
            ".workspace_path": str(self.workspace),
        }.get(inside, ABSENT)


@dataclass(frozen=True)
class Call:
    """A step that is to run.

    Attributes:
        turns: The numbers of the turns of the loops around it, from the outside.
        directory: The folder of its outputs.
        values, artifacts: Its inputs.
        began: When its work began, which who runs it adds as soon as it is known, the best last.
    """

    task: str
    turns: tuple[int, ...]
    step: Step
    directory: Path
    values: Values
    artifacts: dict[str, list[Values]]
    began: list[float] = field(default_factory=list, compare=False)


Ran = tuple[Values, TriremeError | None]
"""What a step has left, or why it has failed."""

Run = Callable[[Call], Ran]
"""Runs a step."""


@dataclass(frozen=True)
class _Given:
    """What a task or a turn is given.

    Attributes:
        values, artifacts: Its inputs.
        directory: Its folder.
        turns: The numbers of the turns around it.
        steps_after: How many steps have to come after it, one after the other.
    """

    values: Values
    artifacts: dict[str, list[Values]]
    directory: Path
    turns: tuple[int, ...] = ()
    steps_after: int = 0


class Engine:
    """Runs a pipeline.

    Args:
        run: Called in threads.
        refuse: Called with a step that has no value for what it needs, and why.
        at_once: How many steps run at the same time.
    """

    def __init__(
        self,
        graph: Graph,
        place: Place,
        run: Run,
        at_once: int,
        refuse: Callable[[Call, TriremeError], None] = lambda call, error: None,
    ) -> None:
        self.place, self._graph, self._run, self.refuse = place, graph, run, refuse
        self._at_once = at_once
        self._waiting: list[tuple[int, int, Call, Ended]] = []
        self._running = 0
        self._done: queue.Queue[Callable[[], None]] = queue.Queue()
        self._later: list[tuple[float, int, Callable[[], None]]] = []
        self._numbers = itertools.count()
        self._outcome: Outcome | None = None

    def run(self, arguments: Values) -> TriremeError | None:
        """Runs all of it; returns the first failure, which ended it."""
        root = self._graph.root
        scope = {name: value for name, value in arguments.items() if value is not None}
        inputs = _Given(scope, {}, self.place.artifacts / self._graph.name)
        with ThreadPoolExecutor(self._at_once, thread_name_prefix="step") as self._pool:
            try:
                _Group(self, root, inputs, self._end).begin()
                while self._outcome is None:
                    if self._done.empty():  # not before all that can begin now is known
                        self._fill()
                    self._next()()
            except BaseException:
                self._pool.shutdown(wait=False, cancel_futures=True)
                raise
        return self._outcome.error

    def submit(self, call: Call, steps_after: int, ended: Ended) -> None:
        """Has a step run as soon as there is room, before those after which less has to come."""
        heapq.heappush(self._waiting, (-steps_after, next(self._numbers), call, ended))

    def _fill(self) -> None:
        """Begins the steps for which there is room."""
        while self._waiting and self._running < self._at_once:
            *_, call, ended = heapq.heappop(self._waiting)
            self._start(call, ended)

    def _start(self, call: Call, ended: Ended) -> None:
        def tell(future: "Future[Ran]") -> None:
            self.soon(lambda: self._after(future, call, ended))

        self._running += 1
        call.began.append(time.monotonic())
        self._pool.submit(self._run, call).add_done_callback(tell)

    def _after(self, future: "Future[Ran]", call: Call, ended: Ended) -> None:
        self._running -= 1
        ended(_outcome_of(future, call))

    def soon(self, work: Callable[[], None]) -> None:
        """Has something done next by the thread that decides, however deep it is in the graph."""
        self._done.put(work)

    def later(self, seconds: float, work: Callable[[], None]) -> None:
        """Has something done later, by the thread that decides."""
        heapq.heappush(self._later, (time.monotonic() + seconds, next(self._numbers), work))

    def _next(self) -> Callable[[], None]:
        """Waits for the next thing to be done."""
        while True:
            wait = self._later[0][0] - time.monotonic() if self._later else None
            try:
                if wait is None or wait > 0:
                    return self._done.get(timeout=wait)
            except queue.Empty:
                pass
            return heapq.heappop(self._later)[2]

    def _end(self, outcome: Outcome) -> None:
        self._outcome = outcome


def _outcome_of(future: "Future[Ran]", call: Call) -> Outcome:
    try:
        outputs, error = future.result()
    except Exception as fault:  # of ours; other steps go on, and the run ends
        reason = limit_reached(fault) or repr(fault)
        outputs, error = {}, TriremeError(f"step {call.task} cannot run: {reason}")
    return Outcome(FAILED if error else SUCCEEDED, outputs, error, call.began[-1])


class _Group:
    """The tasks of a group, one time: the pipeline, one in it, a branch, a turn of a loop.

    Args:
        ended: Told when all of it has ended.
    """

    def __init__(self, engine: Engine, group: Group, inputs: _Given, ended: Ended) -> None:
        self._engine, self._group, self._given, self._ended = engine, group, inputs, ended
        self._scope: Values = {**inputs.values, **inputs.artifacts}
        self._left = {name: len(task.after) for name, task in group.tasks.items()}
        self._has_failed = False
        self._outcomes: dict[str, Outcome] = {}

    def begin(self) -> None:
        """Begins the tasks that come after nothing."""
        for task in self._group.in_order:
            if not task.after:
                self._begin(task)

    def _begin(self, task: Task) -> None:
        """Begins a task before which all has ended, or skips it."""
        ended = partial(self._after, task)
        is_let = all(self._outcomes[name].state == SUCCEEDED for name in task.after)
        if task.runs_after_failure or (is_let and not self._has_failed):
            _Attempts(self._engine, task, partial(self._start, task), ended).begin()
        else:
            self._engine.soon(partial(ended, Outcome(SKIPPED)))

    def _after(self, task: Task, outcome: Outcome) -> None:
        self._outcomes[task.name] = outcome
        self._has_failed |= outcome.state == FAILED
        for name in self._group.following[task.name]:
            self._left[name] -= 1
            if not self._left[name]:
                self._begin(self._group.tasks[name])
        if len(self._outcomes) == len(self._left):
            self._ended(self._outcome())

    def _start(self, task: Task, ended: Ended) -> None:
        """Begins a task once."""
        try:
            inputs = self._given_to(task)
            if task.condition and not holds(task.condition, inputs.values, task.name):
                self._engine.soon(partial(ended, Outcome(SKIPPED)))
            elif task.loop:
                _Turns(self._engine, task, inputs, ended).begin()
            else:
                _begin(self._engine, task, inputs, ended)
        except InputError as error:
            failure = StepFailed(str(error))  # what steps have left, and no input of a person's
            if isinstance(task.component, Step):
                directory = self._given.directory / task.name
                call = Call(task.name, self._given.turns, task.component, directory, {}, {})
                self._engine.refuse(call, failure)
            self._engine.soon(partial(ended, Outcome(FAILED, error=failure)))

    def _given_to(self, task: Task) -> _Given:
        inputs: Values = {}
        for name, task_input in task.inputs.items():
            if isinstance(task_input.source, Constant):
                continue
            value = self._value(task_input.source)
            if task_input.member and value is not ABSENT:
                value = values.member_of(value, task_input.member, _where(task, name))
            inputs[name] = value
        for name, task_input in task.inputs.items():  # which may refer to the others
            if isinstance(task_input.source, Constant):
                fill = partial(self._placeholder, task, inputs)
                inputs[name] = values.filled(task_input.source.value, fill)
        items = task.loop.items.name if task.loop and isinstance(task.loop.items, InputOf) else ""
        parameters, artifacts = {}, {}
        for name, value in inputs.items():
            definition = task.component.inputs.get(name)
            if value is ABSENT or value is None:
                if name != items and not _may_be_left_out(definition):
                    raise InputError(f"{_where(task, name)}: there is no value for it")
            elif task.inputs[name].is_artifact:
                artifacts[name] = value
            elif task.loop and name == items:
                parameters[name] = value
            else:
                parameters[name] = values.accepted(value, definition, _where(task, name))
        if isinstance(task.component, Group):
            parameters = _defaults(task.component) | parameters
        return _Given(
            parameters,
            artifacts,
            self._given.directory / task.name,
            self._given.turns,
            self._given.steps_after + self._group.steps_after[task.name],
        )

    def _value(self, source: InputOf | OutputOf | StatusOf) -> Any:
        if isinstance(source, InputOf):
            return self._scope.get(source.name, ABSENT)
        outcome = self._outcomes[source.task]
        if isinstance(source, OutputOf):
            return outcome.outputs.get(source.key, ABSENT)
        error = {"message": str(outcome.error)} if outcome.error else {}
        return {
            "state": outcome.state,
            "error": error,
            "pipelineJobResourceName": self._engine.place.run,
            "pipelineTaskName": source.task,
        }

    def _placeholder(self, task: Task, inputs: Values, inside: str) -> Any:
        value = self._engine.place.placeholder(inside, task.name)
        if value is ABSENT:
            value = values.input_named(inside, inputs)
        if value is ABSENT and (reference := keyed(inside)) and reference.key in task.inputs:
            raise InputError(f"{_where(task, reference.key)}: there is no value for it")
        if value is ABSENT:
            raise InputError(f"task {task.name}: there is no value for {{{{${inside}}}}}")
        return value

    def _outcome(self) -> Outcome:
        """Returns how the group has ended."""
        if self._has_failed:  # the first is why, in the order in which they have ended
            failed = (outcome for outcome in self._outcomes.values() if outcome.state == FAILED)
            began = min(outcome.began for outcome in self._outcomes.values())
            return Outcome(FAILED, error=next(failed).error, began=began)
        outputs = {}
        for name, sources in self._group.given.items():
            results = (
                self._outcomes[output.task].outputs.get(output.key, ABSENT) for output in sources
            )
            left = next((value for value in results if value is not ABSENT), ABSENT)
            if left is not ABSENT:
                outputs[name] = left
        return Outcome(SUCCEEDED, outputs)


def _begin(engine: Engine, task: Task, inputs: _Given, ended: Ended) -> None:
    """Begins what a task is of."""
    component = task.component
    if isinstance(component, Group):
        _Group(engine, component, inputs, ended).begin()
    elif isinstance(component, Importer):
        try:
            imported = Outcome(SUCCEEDED, _imported(engine, task, component, inputs.values))
        except InputError as error:
            imported = Outcome(FAILED, error=StepFailed(str(error)))
        engine.soon(partial(ended, imported))
    else:
        assert isinstance(component, Step)
        call = Call(
            task.name, inputs.turns, component, inputs.directory, inputs.values, inputs.artifacts
        )
        engine.submit(call, inputs.steps_after, ended)


class _Attempts:
    """A task that is tried again when it has failed.

    Args:
        start: Begins it once.
        ended: Told how it has ended at last.
    """

    def __init__(
        self, engine: Engine, task: Task, start: Callable[[Ended], None], ended: Ended
    ) -> None:
        self._engine, self._retry, self._start, self._ended = engine, task.retry, start, ended
        self._number, self._began = 0, math.inf

    def begin(self) -> None:
        """Begins the next try."""
        self._start(self._after)

    def _after(self, outcome: Outcome) -> None:
        retry = self._retry
        if outcome.state != FAILED or retry is None or self._number >= retry.times:
            self._ended(outcome)
            return
        self._began = min(self._began, outcome.began)
        pause = retry.pause(self._number)
        if retry.within and time.monotonic() + pause > self._began + retry.within:
            self._ended(replace(outcome, error=_given_up(outcome.error, retry.within)))
            return
        self._number += 1
        self._engine.later(pause, self.begin)


def _given_up(error: TriremeError | None, within: float) -> TriremeError | None:
    """Returns why a task has failed, and why it is not tried again though it has retries left."""
    if error is None:
        return None
    message = f"{error}; it is not tried again, as its retries had {within:g} s, which are over"
    return TriremeError(message, error.detail, error.exit_status)


class _Turns:
    """A loop, whose turns begin as many at once as it says."""

    def __init__(self, engine: Engine, task: Task, inputs: _Given, ended: Ended) -> None:
        assert task.loop
        self._engine, self._task, self._loop, self._ended = engine, task, task.loop, ended
        self._given = inputs
        self._items = self._all_items()
        self._outcomes: dict[int, Outcome] = {}
        self._begun, self._has_failed = 0, False

    def begin(self) -> None:
        """Begins the first turns; ends at once where there are none."""
        if not self._items:
            self._engine.soon(partial(self._ended, self._outcome()))
        for _ in range(min(self._loop.limit or len(self._items), len(self._items))):
            self._begin()

    def _all_items(self) -> list[Any]:
        label = f"task {self._task.name}"
        if isinstance(self._loop.items, Constant):
            items = self._loop.items.value
        elif self._loop.is_of_artifacts:
            return [[artifact] for artifact in self._given.artifacts.get(self._loop.items.name, [])]
        elif (name := self._loop.items.name) in self._given.values:
            items = values.items_of(self._given.values[name], label)
        else:
            raise InputError(f"{_where(self._task, name)}: there is no value for it")
        definition = self._task.component.inputs.get(self._loop.item)
        return [
            values.accepted(item, definition, f"{label}: item {number}")
            for number, item in enumerate(items)
        ]

    def _after(self, number: int, outcome: Outcome) -> None:
        self._outcomes[number] = outcome
        self._has_failed |= outcome.state == FAILED
        if self._begun < len(self._items) and not self._has_failed:
            self._begin()
        elif len(self._outcomes) == self._begun:
            self._ended(self._outcome())

    def _begin(self) -> None:
        """Begins the next turn."""
        number = self._begun
        self._begun += 1
        item = {self._loop.item: self._items[number]}
        loop, of_artifacts = self._given, self._loop.is_of_artifacts
        inputs = _Given(
            loop.values | ({} if of_artifacts else item),
            loop.artifacts | (item if of_artifacts else {}),
            loop.directory.with_name(f"{loop.directory.name}-iteration-{number}"),
            (*loop.turns, number),
            loop.steps_after,
        )
        _begin(self._engine, self._task, inputs, partial(self._after, number))

    def _outcome(self) -> Outcome:
        ordered = [self._outcomes[number] for number in sorted(self._outcomes)]
        failed = [outcome for outcome in ordered if outcome.state == FAILED]
        if failed:
            began = min(outcome.began for outcome in ordered)
            return Outcome(FAILED, error=failed[0].error, began=began)
        outputs: Values = {}
        for name, definition in self._task.component.outputs.items():
            left = [turn.outputs[name] for turn in ordered if turn.outputs.get(name) is not None]
            if isinstance(definition, Artifact):
                left = list(itertools.chain.from_iterable(left))
            outputs[name] = left
        return Outcome(SUCCEEDED, outputs)


def _imported(engine: Engine, task: Task, importer: Importer, inputs: Values) -> Values:
    """Returns the artifact that an importer stands for."""

    def value_of(inside: str) -> Any:
        value = values.input_named(inside, inputs)
        value = engine.place.placeholder(inside, task.name) if value is ABSENT else value
        if value is ABSENT:
            raise InputError(f"task {task.name}: there is no value for {{{{${inside}}}}}")
        return value

    uri: Any = importer.uri
    uri = inputs.get(uri.name) if isinstance(uri, InputOf) else uri.value
    if not isinstance(uri, str):
        raise InputError(f"task {task.name}: there is no URI to import")
    artifact = {
        "name": "artifact",
        "type": importer.schema,
        "uri": values.filled(uri, value_of),
        "metadata": values.filled(importer.metadata, value_of),
    }
    return {name: [artifact] for name in importer.output_artifacts}


def _defaults(component: Component) -> Values:
    return {
        name: definition.default
        for name, definition in component.input_parameters.items()
        if definition.default is not ABSENT and definition.default is not None
    }


def _may_be_left_out(definition: Parameter | Artifact | None) -> bool:
    if isinstance(definition, Parameter):
        return definition.is_optional or definition.default is not ABSENT
    return definition is not None and definition.is_optional


def _where(task: Task, name: str) -> str:
    return f"task {task.name}: its input {name.removeprefix('pipelinechannel--')}"
