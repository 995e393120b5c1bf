"""Run a pipeline here: every step a process, recorded in MLflow."""

import contextlib
import io
import json
import shutil
import tempfile
import time
import warnings
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

from trireme.code import snapshot
from trireme.credentials.secrets import given
from trireme.errors import InputError, TrackingUnavailable, TriremeError
from trireme.files import kept_record
from trireme.files.file_lock import FileLock, is_held
from trireme.files.home import home, make_home, unwritable
from trireme.files.whole_file import write_whole
from trireme.finish import outcome, webhook
from trireme.graph import writing
from trireme.pipeline import catalog
from trireme.pipeline.pipeline import Pipeline
from trireme.process.processes import check_proc, cpus, limit_reached
from trireme.process.signals import Interrupted, from_a_terminal, handled
from trireme.targets.local import changing, checking, drawing, unsent
from trireme.targets.local import runs as local_runs
from trireme.targets.local.engine import Engine
from trireme.targets.local.result import Result
from trireme.targets.local.steps import Steps
from trireme.terminal.console import Console
from trireme.tracking import client, journal, store
from trireme.tracking.pipeline_run import PipelineRun
from trireme.tracking.runs import Conclusion, PipelineRunId

AT_ONCE = "at-once.json"
"""How many steps of a run run at the same time, in its directory; null: as there are CPUs."""

PIPELINE = "pipeline.yaml"
"""The pipeline of a run in its directory, as kfp compiled it."""


def run(pipeline: Pipeline, arguments: dict[str, Any], name: str, console: Console) -> Result:
    """Runs a pipeline to its end; afterwards no process of it is left."""
    directory = prepare(pipeline, arguments, name)
    return go(pipeline, arguments, local_runs.Record(directory), console)


def prepare(pipeline: Pipeline, arguments: dict[str, Any], name: str) -> Path:
    """Makes the directory of a run, with all that it takes to run it."""
    check_proc()
    store.check_writable(store.uri())
    directory = home() / "runs" / name
    try:
        make_home()
        directory.mkdir(parents=True, mode=0o700)  # of logs and data others need not know
        try:
            _fill(directory, pipeline, arguments)
        except BaseException:  # a full disk, or a file system that keeps no locks
            shutil.rmtree(directory, ignore_errors=True)
            raise
    except OSError as error:
        raise unwritable(error) from None
    return directory


def _fill(directory: Path, pipeline: Pipeline, arguments: dict[str, Any]) -> None:
    (directory / "workspace").mkdir()
    for lock in (local_runs.LOCK, local_runs.STEPS_LOCK):
        (directory / lock).touch()
    is_held(directory / local_runs.LOCK)
    (directory / local_runs.PARAMETERS).write_text(json.dumps(arguments, indent=2) + "\n")
    (directory / AT_ONCE).write_text(json.dumps(pipeline.at_once))
    writing.write(pipeline.graph, directory / PIPELINE)


def prepared(directory: Path) -> tuple[Pipeline, dict[str, Any]]:
    """Returns what ``prepare`` has left: a pipeline and its arguments."""
    parameters_file, at_once_file = directory / local_runs.PARAMETERS, directory / AT_ONCE
    try:
        arguments = dict(json.loads(parameters_file.read_text()))
        at_once = json.loads(at_once_file.read_text())
    except (FileNotFoundError, ValueError, TypeError):
        raise kept_record.of_another_version(parameters_file) from None
    return replace(catalog.load(str(directory / PIPELINE)), at_once=at_once), arguments


def resume(run: local_runs.LocalRun, console: Console, pairs: Sequence[str] = ()) -> Result:
    """Runs what a run that has ended too early has not done.

    Args:
        pairs: Parameters that are others from now on, ``name=value``.
    """
    run.check_resume()
    try:
        lock = local_runs.held(run.name)
    except TimeoutError:
        raise InputError(
            f"run {run.name} is being resumed already, or brought to MLflow, by another process"
        ) from None
    except OSError as error:
        raise unwritable(error) from None
    with lock:
        return _resume(local_runs.find(run.name, is_held=True), lock, console, pairs)


def _resume(
    run: local_runs.LocalRun, lock: FileLock, console: Console, pairs: Sequence[str]
) -> Result:
    run.check_resume()
    for path in (run.directory / PIPELINE, run.directory / local_runs.PARAMETERS, run.workspace):
        if not path.exists():
            raise InputError(
                f"run {run.name}: cannot be resumed: there is no {path}; start a new run"
            )
    store.check_writable(store.uri())
    pipeline, arguments = prepared(run.directory)
    checking.check(pipeline.graph)
    with contextlib.chdir(run.started_in if run.started_in.is_dir() else "."):
        if pairs:
            arguments = changing.changed(run, pipeline, arguments, pairs)
        if note := changing.mended(run, arguments):
            console.print(f"note: {note}")
        elif commit := _changed_since(run.workspace, arguments):
            console.print(
                f"note: {arguments['code_url']} has changed since; this goes on with the code of "
                f"then, {commit[:12]}; a new run takes the change"
            )
        write_whole(run.directory / local_runs.PARAMETERS, json.dumps(arguments, indent=2) + "\n")
        record = local_runs.Record(run.directory, lock)
        local_runs.set_logs_aside(run, pipeline.graph.after_failures)
        return go(pipeline, arguments, record, console)


def _changed_since(workspace: Path, arguments: dict[str, Any]) -> str:
    """Returns the commit that a run has of a folder which is another one now; empty otherwise."""
    url, revision = (arguments.get(f"code_{name}") or "" for name in ("url", "revision"))
    try:
        tags = [record.get("tags", {}) for record in journal.read(workspace, "checkout")]
        before = next((item["git.commit"] for item in tags if "git.commit" in item), "")
        if not (before and snapshot.is_meant(url, revision)):
            return ""
        with snapshot.taken(url, arguments.get("code_without") or ()) as now:
            return "" if now.commit == before else before
    except (TriremeError, OSError):
        return ""  # what is there now cannot be taken, which is no fault of this run


def go(
    pipeline: Pipeline, arguments: dict[str, Any], record: local_runs.Record, console: Console
) -> Result:
    """Runs what has been prepared to its end, or what is left of it; see ``run``."""
    name = record.directory.name
    result = Result(name, record.directory, record)
    experiment = arguments.get("experiment", "")
    params, tags = changing.recorded(result.directory, arguments)
    pipeline_run = PipelineRun(
        name, experiment, pipeline.name, params, home(), result.workspace, tags=tags
    )
    # Not in the run's directory: sockets are made there, whose paths are short.
    result.temporary = tempfile.mkdtemp(prefix="trireme-")
    steps = Steps(result, pipeline_run, console, pipeline.graph)
    names = [*pipeline.graph.names.values()]
    started = time.monotonic()
    with _quiet(result):
        try:
            with handled(steps.interrupt, from_a_terminal()), console.showing(names):
                steps.load()
                at_once = pipeline.at_once or cpus()
                engine = Engine(pipeline.graph, steps.place, steps.run, at_once, steps.refuse)
                if error := engine.run(arguments):
                    result.fail(error)
        except Interrupted as interruption:
            result.status, result.exit_status = "KILLED", 128 + interruption.number
            client.hurry()
        except BaseException as error:
            result.status = "FAILED"
            if not (limit := limit_reached(error)):
                raise
            result.fail(TriremeError(limit))
        finally:
            with handled(lambda number, frame: client.hurry(), from_a_terminal()):
                steps.close()
                message = str(result.error) if result.error else ""
                conclude = partial(
                    drawing.conclusion, result.directory, pipeline, arguments, message
                )
                is_whole = _close(pipeline_run, result, time.monotonic() - started, conclude)
                drawing.keep(
                    result.directory, pipeline, arguments, result.status, message, pipeline_run.page
                )
                if result.status == "KILLED":
                    _tell(pipeline, arguments, result, pipeline_run.page, console)
            record.end(result.status, result.error, outcome.in_a_line(result.workspace))
            shutil.rmtree(result.temporary, ignore_errors=True)
    # The server may be back by now, and older runs may have waited for it.
    if result.status != "KILLED":
        unsent.bring_all()
        if not is_whole and name not in {unsent_run.name for unsent_run in unsent.read()}:
            result.mend()
    result.run_id, result.mlflow_page = pipeline_run.run_id, pipeline_run.page
    result.needs_ui = not pipeline_run.is_on_a_server
    return result


class _Chatter(io.FileIO):
    """A file of what libraries print, to which what does not fit on the disk is not written."""

    def write(self, data: Any) -> int:
        """Writes what fits; the work goes on."""
        with contextlib.suppress(OSError):
            return super().write(data)
        return memoryview(data).nbytes


@contextlib.contextmanager
def _quiet(result: Result) -> Iterator[None]:
    """Sends what kfp and MLflow print to a file."""
    with (
        _Chatter(result.directory / "libraries.log", "a") as file,
        io.TextIOWrapper(io.BufferedWriter(file), line_buffering=True) as chatter,
        contextlib.redirect_stdout(chatter),
        contextlib.redirect_stderr(chatter),
        warnings.catch_warnings(),
    ):
        warnings.simplefilter("ignore")
        yield


def _tell(
    pipeline: Pipeline, arguments: dict[str, Any], result: Result, page: str, console: Console
) -> None:
    """Tells the webhook of a run that was cancelled, as the run's last step does of others."""
    secret = given(arguments.get("webhook_secret", ""), "webhook")
    if not secret:
        return
    run_outcome = outcome.read(result.workspace, pipeline.name, result.name, result.status, "")
    try:
        webhook.send(secret, replace(run_outcome, page=page), tries=1)
    except TriremeError as error:
        console.print(f"warning: {error}")


def _close(
    pipeline_run: PipelineRun,
    result: Result,
    seconds: float,
    conclude: Callable[[str, PipelineRunId], Conclusion],
) -> bool:
    """Ends what MLflow has of a run; returns whether MLflow has all of it, or never will."""
    try:
        pipeline_run.close(result.status, {"duration_seconds": seconds}, conclude)
        unsent.forget(result.name)
    except TrackingUnavailable as error:
        unsent.keep(result.name, pipeline_run.uri, result.status, seconds)
        if result.status != "KILLED":
            later = "'trireme sync', and the next run, bring what it lacks of this run"
            result.fail(TrackingUnavailable(f"{error}; {later}"))
        return False
    except TriremeError as error:
        if result.status != "KILLED":
            result.fail(error)
    return True
