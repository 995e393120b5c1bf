"""Run the steps of a pipeline here: each as a process, shown, recorded, and stopped as a whole."""

import contextlib
import hashlib
import json
import re
import signal
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from types import FrameType
from typing import IO, Any

from trireme import progress
from trireme.errors import StepFailed, TriremeError
from trireme.files.home import TRACKER
from trireme.finish.failing import failure
from trireme.frameworks.base import WAITING
from trireme.graph.graph import Graph
from trireme.process.processes import lack_of_memory, oom_kills
from trireme.process.signals import interrupt
from trireme.retraining import history
from trireme.runner.lines import blocks
from trireme.step_names import NAMED, STEP, in_a_loop
from trireme.targets.local import changing, commands, containers
from trireme.targets.local.engine import Call, Place, Ran, Values
from trireme.targets.local.result import Result
from trireme.targets.local.runs import LOG
from trireme.targets.local.starting import Process, Starter, is_ours, modules_of, wait_for
from trireme.terminal.console import Console
from trireme.terminal.engine_lines import KfpLines
from trireme.tracking import journal, registry
from trireme.tracking.environment import announced
from trireme.tracking.pipeline_run import PipelineRun

LOOK = 0.5  # seconds between two looks how far a step is
DONE = ".done"  # the mark of a step that has finished; no output is called so
TAIL = 40  # lines of a step's log that are shown when it ends without saying why


class Steps:
    """The steps of a run, which the engine starts.

    A step that has finished leaves a mark beside its outputs. Where the run is resumed, the engine
    comes to the same step with the same inputs, and gets those outputs.
    """

    def __init__(self, result: Result, record: PipelineRun, console: Console, graph: Graph) -> None:
        self._result, self._record, self._console = result, record, console
        self._graph, self._repeated = graph, graph.after_failures
        began = datetime.fromtimestamp(int(result.record.began), UTC)
        self.place = Place(
            result.name,
            str(int(_digest(result.name), 16) % 10**16).zfill(16),
            began.strftime("%Y-%m-%dT%H:%M:%SZ"),
            result.directory / "artifacts",
            result.workspace,
        )
        self._running: dict[Path, Process] = {}
        self._come_to: set[Path] = set()  # the folders of steps that this process has come to
        self._starter = Starter(self._warn, result.record.steps_lock.descriptor)
        # What is printed comes before the failure after it.
        self._environment = {"TMPDIR": result.temporary, "PYTHONUNBUFFERED": "1"}
        self._stopped = False
        self._recorded, self._shown = threading.Lock(), threading.Lock()

    def interrupt(self, number: int, frame: FrameType | None) -> None:
        """Handles the first signal: ends all steps, lets no other start, raises ``Interrupted``."""
        if self._stopped:
            return
        self._stopped = True
        for process in list(self._running.values()):
            process.terminate()
        self._starter.stop()
        interrupt(number, frame)

    def load(self) -> None:
        """Begins to load what the steps of the pipeline need, beside those before them."""
        environment = WAITING | self._record.inherited | self._environment
        for _, step in self._graph.steps:
            if modules := modules_of(step.command_line, step.variables, step.image, {}):
                with contextlib.suppress(OSError):  # which the step tells that needs it
                    self._starter.load(modules, environment)

    def close(self) -> None:
        """Ends what has been loaded for steps."""
        self._starter.close()

    def run(self, call: Call) -> Ran:
        """Runs one step to its end, shows it and records it; see ``engine.Run``."""
        if self._stopped:
            return {}, TriremeError(f"step {call.task} did not begin")
        name = self._begun(call)
        mark = call.directory / DONE
        try:
            # Where a group is tried again, all of it is.
            is_of_before = call.directory not in self._come_to
            self._come_to.add(call.directory)
            if is_of_before and mark.exists() and mark.read_text() == _seal(call):
                left = commands.outputs(call)
                self._kept(name)
                return left, None
            mark.unlink(missing_ok=True)
            commands.prepare(call)
        except TriremeError as error:
            return {}, self._not_run(name, error)
        except OSError as error:
            return {}, self._not_run(name, self._stuck(error))
        try:
            return self._run(name, call)
        except TriremeError as error:
            return {}, self._not_run(name, error)
        except OSError as error:
            return {}, self._stuck(error)

    def refuse(self, call: Call, error: TriremeError) -> None:
        """Shows and records a step that cannot be given what it needs."""
        self._not_run(self._begun(call), error)

    def _begun(self, call: Call) -> str:
        """Shows that a step has begun; returns its name."""
        function = _function_of(call)
        is_own = is_ours(call.step.command_line) and function in NAMED
        step = function if is_own else self._name_of(call)
        name = in_a_loop(step, *call.turns)
        with self._shown:
            self._console.started(name, step if call.turns else "")
        return name

    def _stuck(self, error: OSError) -> TriremeError:
        return TriremeError(f"the run {self._result.directory} cannot go on: {error}")

    def _name_of(self, call: Call) -> str:
        """Returns the name of a step: its task, with groups around it if there are others of it."""
        *above, last = call.directory.relative_to(self.place.artifacts / self._graph.name).parts
        groups = [re.sub(r"-iteration-\d+$", "", folder) for folder in above]
        return self._graph.names[(*groups, last)]

    def _mark(self, call: Call) -> None:
        """Leaves the mark of a step that has finished."""
        if call.task not in self._repeated:
            (call.directory / DONE).write_text(_seal(call))

    def _not_run(self, name: str, error: TriremeError) -> TriremeError:
        """Shows and records a step that has failed before there was a process of it."""
        with self._recorded:
            self._result.record.step(name, "FAILED", {}, str(error))
        with self._shown:
            self._console.ended(name, "FAILED", str(error))
        return error

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

    def _run(self, name: str, call: Call) -> Ran:
        result = self._result
        journal.forget(result.workspace, name)  # what an earlier attempt has recorded
        variables = {
            variable: commands.filled(value, call, self.place)
            for variable, value in call.step.variables.items()
        }
        if call.step.is_python:
            container, command = "", commands.command_line(call, self.place)
        else:  # two steps may have one name, in groups of one name
            container = f"{self.place.run}-{name}-{_digest(str(call.directory))[:8]}"
            command = commands.in_a_container(call, self.place, container, variables)
            containers.remove(container)  # of a run that was killed before it was resumed
        modules = modules_of(command, variables, call.step.image, call.values)
        download = self._wanted(name, call.values)
        environment = self._record.step_started(name, Path(result.temporary), download)
        if not is_ours(command):
            with contextlib.suppress(TriremeError):  # without, which the end of the run tells
                environment |= announced(Path(environment[TRACKER]))
        if not container:
            environment |= variables
        environment = WAITING | environment | self._environment | {STEP: name}
        start = partial(self._starter.start, command, environment, modules)
        log = result.workspace / "steps" / name / LOG
        log.parent.mkdir(parents=True, exist_ok=True)
        if log.exists():  # of the try before
            log.rename(log.with_name(f"output.{len([*log.parent.glob('output*.log')])}.log"))
        started, state, kills = time.monotonic(), "KILLED", oom_kills()
        exit_status, error = 0, None
        tail: list[str] = []
        resources: dict[str, float] = {}
        records: list[dict[str, Any]] = []
        left: Values = {}
        try:
            with log.open("wb", buffering=0) as file:  # what a full disk does not take is lost
                exit_status, resources, tail = self._followed(name, call, start, file)
            if not exit_status and not self._stopped:
                left = commands.outputs(call)
            records = journal.read(result.workspace, name)
            if not self._stopped:
                state = "FAILED" if exit_status or _last_record(records, "error") else "FINISHED"
        except TriremeError as problem:
            state, error, exit_status = "FAILED", problem, problem.exit_status
        except OSError as problem:
            state, error = "FAILED", TriremeError(f"step {name} cannot run: {problem}")
            raise
        finally:
            if container and (exit_status or self._stopped):
                containers.remove(container)
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
                self._mark(call)  # before anybody is told that it is done
            # A trial that failed says more in its summary, and the sweep goes on.
            summary = _last_record(records, "summary") or ""
            summary = str(error) if error and (exit_status or not summary) else summary
            with self._recorded:
                self._record.step_ended(name, state, result.workspace, resources)
                result.record.step(name, state, resources, summary)
            with self._shown:
                self._console.ended(name, state, summary)
        if not exit_status:
            return left, None
        return {}, error or TriremeError(f"step {name} was ended")

    def _wanted(self, step: str, inputs: dict[str, Any]) -> Callable[[str], None] | None:
        """Returns what brings what a step of ours, told by its inputs, would load MLflow for."""
        workspace = self._result.workspace
        if step == "evaluate" and {"model_name", "evaluation"} <= inputs.keys():
            path, own = registry.champion_folder(workspace), bool(inputs["evaluation"])
            return lambda experiment_id: registry.download_champion(inputs["model_name"], path, own)
        if step == "compare" and {"model_name", "warm_start"} <= inputs.keys():
            path = history.folder(workspace)
            return partial(history.download, inputs["model_name"], path, inputs["warm_start"])
        return None

    def _followed(
        self, name: str, call: Call, start: Callable[[], Process], log: IO[bytes]
    ) -> tuple[int, dict[str, float], list[str]]:
        """Runs a process to its end; returns its status, what it used, and its last lines.

        Raises:
            StepFailed: It ran longer than its pod may.
        """

        def show(lines: str) -> None:
            if is_loading and is_loading.pop():
                call.began.append(time.monotonic())
            self._show(name, lines)

        is_loading = [call.step.is_python]  # until kfp's executor says that it is there
        process, limit = None, int(call.step.pod.get("activeDeadlineSeconds", 0))
        overdue = threading.Event()
        try:
            process = self._running[call.directory] = start()
            call.began.append(time.monotonic())
            if self._stopped:
                process.terminate()
            with self._showing_progress(name), _limited(process, limit, overdue):
                tail = _follow(process, log, show)
            used = wait_for(process)
            if overdue.is_set():
                raise StepFailed(f"step {name} ran longer than its time limit of {limit} s", "")
            resources = used._asdict()
            return int(resources.pop("status")), resources, tail
        except BaseException:
            if process:
                process.terminate()
                with contextlib.suppress(ChildProcessError):  # it had ended just before
                    wait_for(process)
            raise
        finally:
            self._running.pop(call.directory, None)

    @contextlib.contextmanager
    def _showing_progress(self, name: str) -> Iterator[None]:
        """Shows and records how far a step's training is, if it trains."""
        file, has_ended = journal.progress_path(self._result.workspace, name), threading.Event()

        def show() -> None:
            last = None
            while not has_ended.wait(LOOK):
                now = progress.read(file)
                if now and now != last:
                    with self._shown:
                        self._console.progress(name, now)
                    last = now
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


@contextlib.contextmanager
def _limited(process: Process, seconds: int, overdue: threading.Event) -> Iterator[None]:
    """Ends a process that runs too long, and says so."""

    def end() -> None:
        overdue.set()
        process.terminate()

    timer = threading.Timer(seconds, end)
    if seconds:
        timer.start()
    try:
        yield
    finally:
        timer.cancel()


def _function_of(call: Call) -> str:
    """Returns the name of a step's function; empty if it is none."""
    words = call.step.command_line
    if not call.step.is_python:
        return ""
    return words[words.index("--function_to_execute") + 1]


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()


def _seal(call: Call) -> str:
    """Returns what a step's mark holds: it fits these inputs, and outputs that are whole."""
    inputs = commands.executor_input(call)["inputs"]
    if "parameterValues" in inputs:
        looked_at = changing.only_looked_at(call.step)
        rest = {name: v for name, v in inputs["parameterValues"].items() if name not in looked_at}
        inputs = inputs | {"parameterValues": rest}
    files = [call.directory / name for name in (commands.OUTPUT, *call.step.output_parameters)]
    left = [file.read_text(errors="replace") if file.exists() else None for file in files]
    return _digest(json.dumps([inputs, left], sort_keys=True))


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
