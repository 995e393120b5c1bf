"""Run a pipeline here: every step a process, run by kfp.local, recorded in MLflow."""

import contextlib
import json
import os
import secrets
import shutil
import subprocess
import sys
import tempfile
import time
import warnings
from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from types import SimpleNamespace
from typing import Any, BinaryIO
from unittest.mock import patch

from kfp import local
from kfp.local import pipeline_orchestrator, status, subprocess_task_handler
from kfp.local.orchestrator.enhanced_dag_orchestrator import ConditionEvaluator

from components.errors import InputError, TriremeError, exit_in_words
from components.home import home
from components.signals import Interrupted, from_a_terminal, handled, interrupt
from components.tracking import journal, registry, sync
from components.tracking.pipeline_run import PipelineRun
from components.training.local.supervised import supervised
from pipelines.catalog import Pipeline
from pipelines.console import Console
from pipelines.targets import local_runs
from pipelines.targets.steps import step_names

GRACE = 8.0  # seconds a step gets to end when the run is stopped, its replicas included
TAIL = 20  # lines of a step's log that are shown when it ends without saying why


@dataclass
class Result:
    """How a run ended.

    Attributes:
        name: The run's name.
        directory: Everything the run left.
        status: FINISHED, FAILED or KILLED, as MLflow has it.
        exit_status: What the command exits with.
        steps: What each step that ran said about itself, by name.
        error: What went wrong, where something did.
        run_id: Id of the MLflow run.
        mlflow_page: The run in MLflow's UI.
        needs_ui: Whether that UI has to be started first.
        temporary: Directory of the steps' temporary files, removed at the end.
        model_version: The version registered, where there is one.
        record: What the other commands know the run by.
    """

    name: str
    directory: Path
    status: str = "FINISHED"
    exit_status: int = 0
    steps: dict[str, list[dict[str, Any]]] = field(default_factory=dict)
    error: TriremeError | None = None
    run_id: str = ""
    mlflow_page: str = ""
    needs_ui: bool = False
    temporary: str = ""
    model_version: str = ""
    record: local_runs.Record | None = None

    @property
    def workspace(self) -> Path:
        """The run workspace."""
        return self.directory / "workspace"

    def fail(self, error: TriremeError) -> None:
        """Makes this the result of a run that failed; the first failure counts."""
        if self.error is None:
            self.error, self.status, self.exit_status = error, "FAILED", error.exit_status


def run(pipeline: Pipeline, arguments: dict[str, Any], console: Console) -> Result:
    """Runs a pipeline to its end; afterwards no process of it is left.

    Args:
        pipeline: The pipeline.
        arguments: A value for every parameter.
        console: Where the run is shown.
    """
    name = f"{pipeline.name}-{time.strftime('%Y%m%d-%H%M%S')}-{secrets.token_hex(2)}"
    result = Result(name, home() / "runs" / name)
    try:
        result.workspace.mkdir(parents=True)
        (result.directory / "parameters.json").write_text(json.dumps(arguments, indent=2) + "\n")
    except OSError as error:
        raise InputError(f"TRIREME_HOME {home()}: cannot be written: {error.strerror}") from None
    try:
        record = PipelineRun(name, arguments["experiment"], pipeline.name, arguments, home())
    except InputError:
        shutil.rmtree(result.directory)
        raise
    result.record = local_runs.Record(result.directory)
    # Not in the run's directory: sockets are made there, whose paths are short.
    result.temporary = tempfile.mkdtemp(prefix="trireme-")
    steps = step_names(pipeline.graph.pipeline_spec)
    started = time.monotonic()
    with _quiet(result):
        try:
            with handled(interrupt, from_a_terminal()), console.showing(steps):
                _run_steps(pipeline, arguments, result, record, console)
        except Interrupted as interruption:
            result.status, result.exit_status = "KILLED", 128 + interruption.number
            sync.hurry()
        except BaseException:
            result.status = "FAILED"
            raise
        finally:
            with handled(lambda number, frame: sync.hurry(), from_a_terminal()):
                _close(record, result, {"duration_seconds": time.monotonic() - started})
            result.record.end(result.status)
            shutil.rmtree(result.temporary, ignore_errors=True)
    result.run_id, result.mlflow_page = record.run_id, record.page
    result.needs_ui = not record.is_on_a_server
    result.model_version = record.told.get("model_version", "")
    return result


def _run_steps(
    pipeline: Pipeline,
    arguments: dict[str, Any],
    result: Result,
    record: PipelineRun,
    console: Console,
) -> None:
    local.init(
        local.SubprocessRunner(use_venv=False),
        pipeline_root=str(result.directory / "artifacts"),
        workspace_root=str(result.workspace),
        raise_on_error=True,
    )
    try:
        with _kfp_tamed(result, record, console):
            pipeline.graph(**arguments)
    except TriremeError as error:
        result.fail(error)
    except RuntimeError:
        # kfp says that a step has failed; we know already, and why.
        if result.error is None:
            raise
    except OSError as error:
        result.fail(TriremeError(f"the run {result.directory} cannot go on: {error}"))


@contextlib.contextmanager
def _kfp_tamed(result: Result, record: PipelineRun, console: Console) -> Iterator[None]:
    """Makes kfp.local run steps our way.

    kfp.local 2.17 offers no hook, so three things of it are replaced while the pipeline runs:
    how a step's process is started (one that can be stopped as a whole, its output in a file,
    MLflow's variables), the removal of the workspace at the end (a person wants to read it),
    and how a condition finds a task's output (it knows outputs called ``Output`` only, and
    takes a branch on any other for false).
    """

    class Step(subprocess_task_handler.SubprocessTaskHandler):
        """Runs one step in place of kfp's own class."""

        def run(self) -> status.Status:
            return _run_step(self.full_command, self.env_vars, result, record, console)

    keep = SimpleNamespace(rmtree=lambda path: None)
    resolve = ConditionEvaluator._resolve_pipeline_channel
    with (
        patch.object(subprocess_task_handler, "SubprocessTaskHandler", Step),
        patch.object(pipeline_orchestrator, "shutil", keep),
        patch.object(
            ConditionEvaluator,
            "_resolve_pipeline_channel",
            lambda reference, store: _task_output(reference, store, resolve),
        ),
    ):
        yield


@contextlib.contextmanager
def _quiet(result: Result) -> Iterator[None]:
    """Sends what kfp and MLflow print to a file."""
    with (
        (result.directory / "libraries.log").open("a") as chatter,
        contextlib.redirect_stdout(chatter),
        contextlib.redirect_stderr(chatter),
        warnings.catch_warnings(),
    ):
        warnings.simplefilter("ignore")
        yield


def _task_output(reference: str, store: Any, resolve: Callable[[str, Any], Any]) -> Any:
    """Returns the value that ``pipelinechannel--TASK-OUTPUT`` in a condition stands for."""
    words = reference.removeprefix("pipelinechannel--").split("-")
    for length in range(1, len(words)):
        with contextlib.suppress(ValueError):
            return store.get_task_output("-".join(words[:length]), "-".join(words[length:]))
    return resolve(reference, store)


def _run_step(
    command: list[str],
    variables: dict[str, str],
    result: Result,
    record: PipelineRun,
    console: Console,
) -> status.Status:
    """Runs one step to its end, shows it and records it."""
    name = command[command.index("--function_to_execute") + 1]
    console.started(name)
    command = subprocess_task_handler.replace_python_executable(command, sys.executable)
    champion = registry.place(result.workspace) if name == "evaluate" else None
    environment = record.step_started(name, Path(result.temporary), champion) | variables
    environment["TMPDIR"] = result.temporary
    log = result.workspace / "steps" / name / "output.log"
    log.parent.mkdir(parents=True, exist_ok=True)
    started = time.monotonic()
    state = "KILLED"
    resources: dict[str, float] = {}
    process = None
    try:
        with log.open("wb") as file:
            process = supervised(command, GRACE, environment)
            tail = _follow(process, file, lambda line: console.line(name, line))
        exit_status, resources = _reap(process)
        state = "FAILED" if exit_status else "FINISHED"
    except BaseException:
        with handled(lambda number, frame: None, from_a_terminal()):  # once is enough
            if process:
                process.terminate()
                with contextlib.suppress(ChildProcessError):  # it had ended just before
                    _reap(process)
        raise
    finally:
        records = journal.read(result.workspace, name)
        result.steps[name] = records
        resources["duration_seconds"] = time.monotonic() - started
        record.step_ended(name, state, result.workspace, resources)
        if result.record:
            result.record.step(name, state, resources["duration_seconds"])
        console.ended(name, state, _in_words(records))
    if exit_status == 0:
        return status.Status.SUCCESS
    result.fail(_error(name, exit_status, records, tail))
    return status.Status.FAILURE


def _follow(
    process: subprocess.Popen[bytes], log: BinaryIO, show: Callable[[str], None]
) -> list[str]:
    """Keeps and shows a process's lines until it ends; returns the last ones."""
    assert process.stdout is not None
    tail: deque[str] = deque(maxlen=TAIL)
    while raw := process.stdout.readline(1 << 16):
        with contextlib.suppress(OSError):  # a full disk does not stop the work
            log.write(raw)
            log.flush()
        line = raw.decode(errors="replace").rstrip()
        tail.append(line)
        show(line)
    return list(tail)


def _reap(process: subprocess.Popen[bytes]) -> tuple[int, dict[str, float]]:
    """Waits for a process; returns its exit status and what it and all below it used."""
    _, wait_status, usage = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(wait_status)
    return process.returncode, {
        "cpu_seconds": usage.ru_utime + usage.ru_stime,
        "peak_memory_bytes": usage.ru_maxrss * 1024,
    }


def _said(records: list[dict[str, Any]], kind: str) -> Any:
    return next((record[kind] for record in reversed(records) if kind in record), None)


def _in_words(records: list[dict[str, Any]]) -> str:
    error = _said(records, "error")
    return str(error["message"] if error else _said(records, "summary") or "")


def _error(
    step: str, exit_status: int, records: list[dict[str, Any]], tail: list[str]
) -> TriremeError:
    said = _said(records, "error")
    if said:
        error = TriremeError(said["message"], said["detail"])
        error.exit_status = said["exit_status"]
        return error
    return TriremeError(f"step {step} {exit_in_words(exit_status)}", "\n".join(tail))


def _close(record: PipelineRun, result: Result, resources: dict[str, float]) -> None:
    try:
        record.close(result.status, resources)
    except TriremeError as error:
        if result.status != "KILLED":
            result.fail(error)
