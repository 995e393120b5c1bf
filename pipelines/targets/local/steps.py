"""Run the steps of a pipeline here: each as a process, shown, recorded, and stopped as a whole."""

import contextlib
import hashlib
import json
import re
import signal
import sys
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from types import FrameType
from typing import IO, Any

from google.protobuf import json_format
from kfp.local import status, subprocess_task_handler

from trireme.components import progress
from trireme.components.errors import StepFailed, TriremeError
from trireme.components.finish.failing import failure
from trireme.components.home import TRACKER
from trireme.components.processes import lack_of_memory, oom_kills
from trireme.components.retraining import history
from trireme.components.signals import from_a_terminal, handled, interrupt
from trireme.components.step_names import NAMED, STEP, in_a_loop
from trireme.components.tracking import journal, registry
from trireme.components.tracking.environment import announced
from trireme.components.tracking.pipeline_run import PipelineRun
from trireme.components.training.frameworks.base import WAITING
from trireme.components.training.lines import blocks
from trireme.pipelines.compiling.steps import containers
from trireme.pipelines.console import Console
from trireme.pipelines.engine_lines import KfpLines
from trireme.pipelines.targets.local.result import Result
from trireme.pipelines.targets.local.runs import LOG
from trireme.pipelines.targets.local.starting import (
    Process,
    Starter,
    is_ours,
    modules_of,
    wait_for,
)

LOOK = 0.5  # seconds between two looks how far a step is
TAIL = 40  # lines of a step's log that are shown when it ends without saying why

_ITERATION = re.compile(r"-iteration-(\d+)(?=/)")


class Steps:
    """The steps of a run, which kfp.local starts: one after another, but for those in a loop.

    A step that has finished leaves a mark beside its outputs. Where the run is resumed, kfp.local
    comes to the same step with the same inputs, and gets those outputs.

    Args:
        repeated: Tasks that run again even so, see ``compiling.steps.after_failures``.
    """

    def __init__(
        self, result: Result, record: PipelineRun, console: Console, repeated: set[str]
    ) -> None:
        self._result, self._record, self._console = result, record, console
        self._repeated = repeated
        self._running: dict[str, Process] = {}
        self._starter = Starter(self._warn)
        # What is printed comes before the failure after it.
        self._environment = {"TMPDIR": result.temporary, "PYTHONUNBUFFERED": "1"}
        self._stopped = False
        self._recorded, self._shown = threading.Lock(), threading.Lock()

    @property
    def run_id(self) -> str:
        """The id of the run that kfp.local gives to steps, a number of 16 digits as its own are."""
        return str(int(_digest(self._result.name), 16) % 10**16).zfill(16)

    def interrupt(self, number: int, frame: FrameType | None) -> None:
        """Handles the first signal: ends all steps, lets no other start, raises ``Interrupted``."""
        if self._stopped:
            return
        self._stopped = True
        for process in list(self._running.values()):
            process.terminate()
        self._starter.stop()
        interrupt(number, frame)

    def load(self, spec: Any) -> None:
        """Begins to load what the steps of a compiled pipeline need, beside those before them."""
        environment = WAITING | self._record.inherited | self._environment
        for _, container in containers(spec):
            # An empty value is left out in what kfp compiles, and so is a list that is empty.
            fields = json_format.MessageToDict(container)
            command = [*(fields.get("command") or []), *(fields.get("args") or [])]
            variables = {each["name"]: each.get("value", "") for each in fields.get("env") or []}
            if modules := modules_of(command, variables, fields["image"], {}):
                with contextlib.suppress(OSError):  # which the step tells that needs it
                    self._starter.load(modules, environment)

    def close(self) -> None:
        """Ends what has been loaded for steps."""
        self._starter.close()

    def run(self, command: list[str], variables: dict[str, str], image: str) -> status.Status:
        """Runs one step to its end, shows it and records it."""
        if self._stopped:
            return status.Status.FAILURE
        given = json.loads(command[command.index("--executor_input") + 1])
        inputs, output = given["inputs"], Path(given["outputs"]["outputFile"])
        task = output.parent.name
        turns = [*map(int, _ITERATION.findall(str(output.relative_to(self._result.directory))))]
        function = command[command.index("--function_to_execute") + 1]
        step = function if is_ours(command) and function in NAMED else task
        name = in_a_loop(step, *turns)
        with self._shown:
            self._console.started(name, step if turns else "")
        mark = output.with_name("done")

        def succeeded() -> None:
            if task not in self._repeated:
                output.parent.mkdir(parents=True, exist_ok=True)
                mark.write_text(_seal(inputs, output))

        try:
            if mark.exists() and mark.read_text() == _seal(inputs, output):
                self._kept(name)
                return status.Status.SUCCESS
            given = inputs.get("parameterValues", {})
            modules = modules_of(command, variables, image, given)
            return self._run(name, command, variables, given, modules, succeeded)
        except OSError as error:
            where = self._result.directory
            self._result.fail(TriremeError(f"the run {where} cannot go on: {error}"))
            return status.Status.FAILURE

    def _kept(self, name: str) -> None:
        """Shows and records a step that had finished before the run was resumed."""
        before = self._result.record.before.get(name, {})
        resources, result = before.get("resources", {}), before.get("result", "")
        state = before.get("state", "FINISHED")  # a sweep goes on after a trial that has failed
        with self._recorded:
            self._record.step_kept(name, state, resources)
            self._result.record.step(name, state, resources, result)
        with self._shown:
            self._console.ended(name, state, f"kept: {result}", before.get("seconds", 0.0))

    def _run(
        self,
        name: str,
        command: list[str],
        variables: dict[str, str],
        inputs: dict[str, Any],
        modules: tuple[str, ...],
        on_success: Callable[[], None],
    ) -> status.Status:
        result = self._result
        journal.forget(result.workspace, name)  # what an earlier attempt has recorded
        data = command.index("--executor_input") + 1
        started_here = subprocess_task_handler.replace_python_executable(command, sys.executable)
        command = [*started_here[:data], command[data], *started_here[data + 1 :]]
        wanted = self._wanted(name, inputs)
        environment = self._record.step_started(name, Path(result.temporary), wanted)
        if not is_ours(command):
            with contextlib.suppress(TriremeError):  # without, which the end of the run tells
                environment |= announced(Path(environment[TRACKER]))
        environment |= variables
        environment = WAITING | environment | self._environment | {STEP: name}
        start = partial(self._starter.start, command, environment, modules)
        log = result.workspace / "steps" / name / LOG
        log.parent.mkdir(parents=True, exist_ok=True)
        started, state, kills = time.monotonic(), "KILLED", oom_kills()
        exit_status, error = 0, None
        tail: list[str] = []
        resources: dict[str, float] = {}
        records: list[dict[str, Any]] = []
        try:
            with log.open("wb", buffering=0) as file:  # what a full disk does not take is lost
                exit_status, resources, tail = self._followed(name, start, file)
            records = journal.read(result.workspace, name)
            if not self._stopped:
                state = "FAILED" if exit_status or _last_record(records, "error") else "FINISHED"
        except OSError as problem:
            state, error = "FAILED", TriremeError(f"step {name} cannot run: {problem}")
            raise
        finally:
            records = records or journal.read(result.workspace, name)
            resources["duration_seconds"] = time.monotonic() - started
            if state == "FAILED" and not error:
                error = _error(name, exit_status, records, tail)
            if error and exit_status == 128 + signal.SIGKILL:
                memory = lack_of_memory(kills, resources["peak_memory_bytes"])
                error = StepFailed(f"{error}{memory}", error.detail)
            if not journal.journal_path(result.workspace, name).exists():
                ended = time.time()
                began = ended - resources["duration_seconds"]
                journal.write_for(result.workspace, name, state, error, log, began, ended)
            if state != "KILLED" and not exit_status:
                on_success()  # before anybody is told that it is done
            # A trial that failed says more in its summary, and the sweep goes on.
            said = _last_record(records, "summary") or ""
            said = str(error) if error and (exit_status or not said) else said
            with self._recorded:
                self._record.step_ended(name, state, result.workspace, resources)
                result.record.step(name, state, resources, said)
            with self._shown:
                self._console.ended(name, state, said)
        if error and exit_status:
            result.fail(error)
        return status.Status.FAILURE if exit_status else status.Status.SUCCESS

    def _wanted(self, step: str, given: dict[str, Any]) -> Callable[[str], None] | None:
        """Returns what brings what a step of ours, told by its inputs, would load MLflow for."""
        workspace = self._result.workspace
        if step == "evaluate" and {"model_name", "evaluation"} <= given.keys():
            place, own = registry.champion_folder(workspace), bool(given["evaluation"])
            return lambda experiment_id: registry.download_champion(given["model_name"], place, own)
        if step == "compare" and {"model_name", "warm_start"} <= given.keys():
            place = history.folder(workspace)
            return partial(history.download, given["model_name"], place, given["warm_start"])
        return None

    def _followed(
        self, name: str, start: Callable[[], Process], log: IO[bytes]
    ) -> tuple[int, dict[str, float], list[str]]:
        """Runs a process to its end; returns its status, what it used, and its last lines."""
        process = None
        try:
            process = self._running[name] = start()
            with self._recorded:
                self._result.record.started(process.pid)
            if self._stopped:
                process.terminate()
            with self._showing_progress(name):
                tail = _follow(process, log, partial(self._show, name))
            used = wait_for(process)
            resources = used._asdict()
            return int(resources.pop("status")), resources, tail
        except BaseException:
            with _signals_ignored():  # once is enough
                if process:
                    process.terminate()
                    with contextlib.suppress(ChildProcessError):  # it had ended just before
                        wait_for(process)
            raise
        finally:
            self._running.pop(name, None)

    @contextlib.contextmanager
    def _showing_progress(self, name: str) -> Iterator[None]:
        """Shows and records how far a step's training is, if it trains."""
        file, has_ended = journal.progress_path(self._result.workspace, name), threading.Event()

        def show() -> None:
            shown = None
            while not has_ended.wait(LOOK):
                now = progress.read(file)
                if now and now != shown:
                    with self._shown:
                        self._console.progress(name, now)
                    shown = now
                self._record.step_goes_on(name)

        watch = threading.Thread(target=show, daemon=True)
        watch.start()
        try:
            yield
        finally:
            has_ended.set()
            watch.join()

    def _warn(self, text: str) -> None:
        with self._shown:
            self._console.print(text)

    def _show(self, name: str, lines: str) -> None:
        with self._shown:
            self._console.lines(name, lines)


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()


def _seal(inputs: dict[str, Any], output: Path) -> str:
    """Returns what a step's mark holds: it fits these inputs, and outputs that are whole."""
    outputs = output.read_text() if output.exists() else ""
    return _digest(json.dumps(inputs, sort_keys=True) + outputs)


def _signals_ignored() -> contextlib.AbstractContextManager[None]:
    """Ignores what tells this process to end, which only the main thread is ever told."""
    if threading.current_thread() is not threading.main_thread():
        return contextlib.nullcontext()
    return handled(lambda number, frame: None, from_a_terminal())


def _follow(process: Process, log: IO[bytes], show: Callable[[str], None]) -> list[str]:
    """Keeps and shows a process's lines until it ends; returns the last ones."""
    assert process.stdout is not None
    tail: deque[str] = deque(maxlen=TAIL)
    for block in blocks(process.stdout):
        with contextlib.suppress(OSError):  # a full disk does not stop the work
            log.write(block)
        lines = block.decode(errors="replace").removesuffix("\n")
        tail.extend(line.rstrip() for line in lines.rsplit("\n", TAIL)[-TAIL:])
        show(lines)
    return list(tail)


def _last_record(records: list[dict[str, Any]], kind: str) -> Any:
    return next((record[kind] for record in reversed(records) if kind in record), None)


def _error(
    step: str, exit_status: int, records: list[dict[str, Any]], tail: list[str]
) -> TriremeError:
    if reported := _last_record(records, "error"):
        return TriremeError(reported["message"], reported["detail"], reported["exit_status"])
    kfps = KfpLines()
    lines = [line for line in tail if not kfps.are(step, line)]
    return failure(step, exit_status, lines)
