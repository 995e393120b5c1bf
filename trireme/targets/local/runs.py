"""Runs of pipelines on this machine: what each leaves for the commands that come later."""

import json
import os
import re
import signal
import socket
import subprocess
import sys
import threading
import time
from collections import defaultdict
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from functools import cached_property, partial
from pathlib import Path
from typing import Any

from trireme import progress
from trireme.errors import InputError, TriremeError
from trireme.files import event_files as events
from trireme.files import file_lock, kept_record
from trireme.files.file_lock import FileLock
from trireme.files.home import home
from trireme.files.whole_file import write_whole
from trireme.process.patience import wait_for
from trireme.process.processes import born, process_of
from trireme.runner.lines import forward_lines
from trireme.step_names import is_of
from trireme.targets.base import NoSuchRun, Run
from trireme.tracking import journal

OF_A_RUN = re.compile(r"^\d{8}-\d{6}-[0-9a-f]{4}-|-\d{8}-\d{6}-[0-9a-f]{4}$")
"""What the name of a run has besides that of its pipeline, see ``old_records``."""

POLL = 0.2  # seconds between two looks
ENDING = 60.0  # seconds that a run gets to end when it is cancelled

CONSOLE = "console.log"
"""What a run that was started in a process of its own would have shown."""

LOG = "output.log"
"""What a step prints; ``output.N.log`` what it has printed when it was started the Nth time."""

OF_A_NOTEBOOK = ("FORCE_COLOR", "CLICOLOR_FORCE", "MPLBACKEND")
"""Variables of a notebook's process that tell how it draws, which a run does not."""


STEPS = "steps.jsonl"
"""What has started and ended in a run, a line each; what it all takes grows with the steps alone.

    {"attempt": time}                       the run begins, or goes on
    {"step": name, "state": ..., ...}       a step has ended
"""

PARAMETERS = "parameters.json"
"""The arguments of a run in its directory."""

LOCK = "run.lock"
"""The lock of the process that runs or resumes a run, brings it to MLflow, or removes it."""

STEPS_LOCK = "steps.lock"
"""The lock that a run gives to the processes of its steps, which may outlive a run that is killed.
"""


_FIELDS: dict[str, kept_record.Kind] = {
    "state": str,
    "started": kept_record.NUMBER,
    "cwd": str,
}
_MORE: dict[str, kept_record.Kind] = {
    "pid": int,
    "born": str,
    "seconds": kept_record.NUMBER,
    "error": list,
}
"""What a run's ``run.json`` must have, and may have."""

_OF_A_STEP: dict[str, kept_record.Kind] = {
    "state": str,
    "seconds": kept_record.NUMBER,
    "result": str,
    "resources": dict,
}


class Record:
    """What a run keeps of itself in its directory while it runs.

    Attributes:
        before: How steps have ended before the run was resumed, by name.
        steps_lock: What the processes of its steps are given.
    """

    def __init__(self, directory: Path, lock: FileLock | None = None) -> None:
        """Begins; waits until nothing runs any more of a run that was killed.

        Args:
            lock: The run's, if it is held already; see ``held``.
        """
        self.directory, self._lock = directory, lock or FileLock(directory / LOCK)
        self._file = directory / "run.json"
        before = json.loads(self._file.read_text()) if self._file.exists() else {}
        self.before: dict[str, Any] = _ended(directory, of_every_attempt=True)
        self._content: dict[str, Any] = {
            "layout": kept_record.LAYOUT,
            "state": "running",
            "started": before.get("started", time.time()),
            "pid": os.getpid(),
            "born": born(os.getpid()),
            "host": socket.gethostname(),
            "cwd": before.get("cwd", str(Path.cwd())),
        }
        self._append({"attempt": time.time()})
        self._write()
        try:
            self.steps_lock = FileLock(directory / STEPS_LOCK, ENDING)
        except TimeoutError:
            raise TriremeError(
                f"run {directory.name}: processes of it still run after {ENDING:.0f} s"
            ) from None

    def step(self, name: str, state: str, resources: dict[str, float], result: str) -> None:
        """Keeps how a step has ended, and what it used."""
        seconds = resources.get("duration_seconds", 0.0)
        ended = {"state": state, "seconds": seconds, "result": result, "resources": resources}
        self._append({"step": name} | ended)

    def end(self, state: str, error: TriremeError | None = None, result: str = "") -> None:
        """Keeps how the run has ended, what came of it, and why if it failed."""
        self._content |= {"state": state, "seconds": time.time() - self._content["started"]}
        if result:
            self._content["result"] = result
        if error:
            self._content["error"] = [str(error), error.detail, error.exit_status]
        self._write()
        self.steps_lock.release()
        self._lock.release()

    @property
    def has_ended(self) -> bool:
        """Whether ``end`` was called."""
        return self._content["state"] != "running"

    @property
    def began(self) -> float:
        """When the run began first, in seconds since the epoch."""
        return float(self._content["started"])

    @staticmethod
    def mend(directory: Path, state: str) -> None:
        """Keeps that a run has ended so after all: nothing had failed but its way to MLflow."""
        file = directory / "run.json"
        content = json.loads(file.read_text()) | {"state": state}
        content.pop("error", None)
        write_whole(file, json.dumps(content))

    def _write(self) -> None:
        with suppress(OSError):  # a full disk does not stop the work
            write_whole(self._file, json.dumps(self._content))

    def _append(self, line: dict[str, Any]) -> None:
        with suppress(OSError), (self.directory / STEPS).open("a") as file:
            # A full disk may have cut the line before off, so that each has its end in front, too.
            file.write(f"\n{json.dumps(line)}\n")
            file.flush()
            os.fsync(file.fileno())


def held(name: str) -> FileLock:
    """Takes the lock of a run: until it is let go, nobody else runs, resumes or removes it.

    Raises:
        TimeoutError: Another process has it.
    """
    return FileLock(home() / "runs" / name / LOCK)


def _ended(directory: Path, *, of_every_attempt: bool = False) -> dict[str, dict[str, Any]]:
    """Returns how steps have ended since a run was begun, or resumed last, by name."""
    ended: dict[str, dict[str, Any]] = {}
    for line in _lines(directory):
        if "attempt" in line and not of_every_attempt:
            ended = {}
        elif "step" in line:
            ended[line.pop("step")] = line
    return ended


def _lines(directory: Path) -> Iterator[dict[str, Any]]:
    """Yields what has started and ended in a run."""
    with suppress(FileNotFoundError), (directory / STEPS).open() as file:
        for text in file:
            try:
                line = json.loads(text)
            except ValueError:  # an end alone, or a line that was cut off
                continue
            if not isinstance(line, dict) or not _fits(line):
                raise kept_record.of_another_version(directory / STEPS)
            yield line


def _fits(line: dict[str, Any]) -> bool:
    if not isinstance(line.get("attempt", 0), kept_record.NUMBER):
        return False
    return "step" not in line or all(
        isinstance(line.get(name), kind) for name, kind in _OF_A_STEP.items()
    )


@dataclass(frozen=True, kw_only=True)
class LocalRun(Run):
    """A run on this machine.

    Attributes:
        record: What its ``run.json`` holds.
        started_in: The working directory of its start, which parameters may be relative to.
        error: Why it failed; None where it did not.
    """

    directory: Path
    record: dict[str, Any]
    started_in: Path
    error: TriremeError | None = None

    @cached_property
    def ended(self) -> dict[str, dict[str, Any]]:
        """State, seconds and result of the steps that have ended, by name."""
        return _ended(self.directory)

    @cached_property
    def ended_at_all(self) -> dict[str, dict[str, Any]]:
        """The same, also of before the run was resumed."""
        return _ended(self.directory, of_every_attempt=True)

    @property
    def attempts(self) -> list[float]:
        """When it began and was resumed."""
        return [float(line["attempt"]) for line in _lines(self.directory) if "attempt" in line]

    @property
    def result(self) -> str:
        """What came of it, or why it failed."""
        if not self.error:
            return str(self.record.get("result", ""))
        last = self.error.detail.strip().rpartition("\n")[2]  # in which a program says what it was
        is_said = re.sub(r"^(\[[\w-]+\]:? )+", "", last) in str(self.error)
        return str(self.error) if is_said else f"{self.error}: {last}"

    @property
    def pipeline(self) -> str:
        """The pipeline's name, as that of the run has it."""
        return OF_A_RUN.sub("", self.name)

    @property
    def parameters(self) -> dict[str, Any]:
        """Values of its pipeline's parameters."""
        try:
            return dict(json.loads((self.directory / PARAMETERS).read_text()))
        except (OSError, ValueError, TypeError):  # of another version, or damaged
            return {}

    @property
    def facts(self) -> dict[str, str]:
        """Where all that it left is."""
        return {"Directory": str(self.directory)}

    @property
    def workspace(self) -> Path:
        """What its steps share."""
        return self.directory / "workspace"

    def how_far(self, step: str) -> str:
        """Says how far a step is; empty where it does not train, or nothing is known."""
        now = progress.read(journal.progress_path(self.workspace, step))
        return now.words if now else ""

    @property
    def logs(self) -> dict[str, Path]:
        """The logs of the steps that have started, by name, in the order of their start."""
        every = self.logs_of_every_attempt
        return {name: files[-1] for name, files in every.items() if files[-1].name == LOG}

    @property
    def logs_of_every_attempt(self) -> dict[str, list[Path]]:
        """The same with those of before the run was resumed, the earliest first."""

        def turn(file: Path) -> tuple[float, bool, int, str]:
            name = file.name
            return file.parent.stat().st_ctime, name == LOG, len(name), name

        logs_by_step = defaultdict(list)
        for file in sorted((self.workspace / "steps").glob("*/output*.log"), key=turn):
            logs_by_step[file.parent.name].append(file)
        return logs_by_step


def latest() -> list[LocalRun]:
    """Returns the runs of this machine, the newest first."""
    folders = (file.parent for file in (home() / "runs").glob("*/run.json"))
    local_runs = kept_record.readable(folders, _read)
    return sorted(local_runs, key=lambda run: run.created, reverse=True)


def find(name: str, *, is_held: bool = False) -> LocalRun:
    """Returns a run by its name.

    Args:
        is_held: Whether the caller holds its lock, so that nobody runs it.
    """
    run = None if "/" in name else _read(home() / "runs" / name, is_held=is_held)
    if run is None:
        raise NoSuchRun(
            f"there is no run {name!r} in {home() / 'runs'}; 'trireme list' lists the runs, and "
            "with --target kfp those on Kubeflow"
        )
    return run


def start(directory: Path) -> None:
    """Starts a process that runs what has been prepared; it goes on when this one ends."""
    command = [sys.executable, "-P", "-m", "trireme.targets.local", directory.name]
    inherited = {name: value for name, value in os.environ.items() if name not in OF_A_NOTEBOOK}
    with (directory / CONSOLE).open("wb") as output:
        process = subprocess.Popen(
            command,
            env=inherited,
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
    threading.Thread(target=process.wait, daemon=True).start()  # else it would stay a zombie
    while not (directory / "run.json").exists():
        if process.poll() is not None:
            raise TriremeError(f"run {directory.name} did not start; see {directory / CONSOLE}")
        time.sleep(POLL / 10)


def set_logs_aside(run: LocalRun, repeated: set[str]) -> None:
    """Renames the logs of the steps that a run comes to once more when it is resumed."""
    ended = _ended(run.directory, of_every_attempt=True)
    for name, files in run.logs_of_every_attempt.items():
        is_done = ended.get(name, {}).get("state") == "FINISHED"
        if files[-1].name == LOG and (not is_done or name in repeated):
            files[-1].rename(files[-1].with_name(f"output.{len(files)}.log"))


def link_event_files(run: LocalRun, folder: Path) -> None:
    """Links a folder to the event files of a run; those of a sweep's trials are apart."""
    workspace = run.workspace
    logging_dir = f"checkpoints/{events.OF_CHECKPOINTS}"
    results = (logging_dir, "checkpoints", "model", "model.partial")
    of_run = [*(workspace / name for name in results), workspace / "code"]
    events.link(folder, of_run, run.created)
    for trial in (workspace / "trials").glob("*"):
        events.link(folder / trial.name, (trial / name for name in results), run.created)


def cancel(name: str) -> None:
    """Ends a run; what it has left stays."""
    run = find(name)
    if run.state != "running":
        raise InputError(f"run {name} has ended already: {run.state}")
    os.kill(process_of(run.record, f"run {name}"), signal.SIGTERM)
    if not wait_for(lambda: find(name).state != "running", ENDING, POLL):
        raise TriremeError(f"run {name} did not end within {ENDING:.0f} s")


def logs(name: str, step: str, on_line: Callable[[str, str], None], *, follow: bool) -> None:
    """Passes on what the steps of a run have printed, also before it was resumed."""
    read: dict[tuple[str, int], int] = {}  # bytes, by step and which start of it that was
    while True:
        run = find(name)
        over = not follow or run.state != "running"
        logs_by_step = run.logs_of_every_attempt
        if step and over and not any(is_of(begun, step) for begun in logs_by_step):
            raise InputError(f"step {step!r}: the run has {', '.join(logs_by_step) or 'none yet'}")
        for begun, files in logs_by_step.items():
            if not step or is_of(begun, step):
                for turn, file in enumerate(files):
                    is_whole = over or file.name != LOG
                    start = read.get((begun, turn), 0)
                    with suppress(FileNotFoundError):  # it was set aside just now
                        read[begun, turn] = forward_lines(
                            file, start, partial(on_line, begun), to_end_of_file=is_whole
                        )
        if over:
            return
        time.sleep(POLL)


def _read(directory: Path, *, is_held: bool = False) -> LocalRun | None:
    """Returns the run of a directory, if it is one; see ``find``."""
    record = kept_record.read(directory / "run.json", _FIELDS, _MORE)
    if record is None:
        return None
    error, state = record.get("error"), record["state"]
    if error is not None and len(error) != 3:
        raise kept_record.of_another_version(directory / "run.json")
    if state == "running" and (is_held or not file_lock.is_held(directory / LOCK)):
        state = "lost"
    ended = time.time() if state == "running" else _last_sign(directory)
    return LocalRun(
        name=directory.name,
        directory=directory,
        state=state,
        created=record["started"],
        seconds=record.get("seconds", ended - record["started"]),
        record=record,
        started_in=Path(record["cwd"]),
        error=TriremeError(*error) if error else None,
    )


def _last_sign(directory: Path) -> float:
    """Returns when a run that was lost has kept or printed something last."""
    signs = [directory / STEPS, *(directory / "workspace" / "steps").glob(f"*/{LOG}")]
    return max(file.stat().st_mtime for file in (directory / "run.json", *signs) if file.exists())
