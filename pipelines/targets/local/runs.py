"""Runs of pipelines on this machine: what each leaves for the commands that come later."""

import json
import os
import signal
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from trireme.components.errors import InputError, TriremeError
from trireme.components.home import home
from trireme.components.processes import born
from trireme.components.step_names import without_index
from trireme.components.training.lines import forward_lines
from trireme.pipelines.targets.base import Run

POLL = 0.2  # seconds between two looks
ENDING = 60.0  # seconds that a run gets to end when it is cancelled


class Record:
    """What a run keeps of itself in its directory while it runs."""

    def __init__(self, directory: Path) -> None:
        self._file = directory / "run.json"
        self._content: dict[str, Any] = {
            "state": "running",
            "started": time.time(),
            "pid": os.getpid(),
            "born": born(os.getpid()),
            "steps": {},
        }
        self._write()

    def step(self, name: str, state: str, seconds: float, result: str) -> None:
        """Keeps how a step has ended."""
        self._content["steps"][name] = {"state": state, "seconds": seconds, "result": result}
        self._write()

    def end(self, state: str) -> None:
        """Keeps how the run has ended."""
        self._content |= {"state": state, "seconds": time.time() - self._content["started"]}
        self._write()

    def _write(self) -> None:
        partial = self._file.with_suffix(".partial")
        with suppress(OSError):  # a full disk does not stop the work
            partial.write_text(json.dumps(self._content))
            partial.rename(self._file)


@dataclass(frozen=True, kw_only=True)
class LocalRun(Run):
    """A run on this machine; ``ended`` has state, seconds and result of steps, by name."""

    directory: Path
    ended: dict[str, dict[str, Any]]
    pid: int

    @property
    def facts(self) -> dict[str, str]:
        """Where all that it left is."""
        return {"Directory": str(self.directory)}

    @property
    def logs(self) -> dict[str, Path]:
        """The logs of the steps that have started, by name, in the order of their start."""
        files = (self.directory / "workspace" / "steps").glob("*/output.log")
        begun = sorted(files, key=lambda file: file.parent.stat().st_ctime)
        return {file.parent.name: file for file in begun}


def latest() -> list[LocalRun]:
    """Returns the runs of this machine, the newest first."""
    found = filter(None, (_read(file.parent) for file in (home() / "runs").glob("*/run.json")))
    return sorted(found, key=lambda run: run.created, reverse=True)


def find(name: str) -> LocalRun:
    """Returns a run by its name."""
    run = None if "/" in name else _read(home() / "runs" / name)
    if run is None:
        raise InputError(
            f"there is no run {name!r} in {home() / 'runs'}; 'trireme list' lists the runs, and "
            "with --target kfp those on Kubeflow"
        )
    return run


def cancel(name: str) -> None:
    """Ends a run; what it has left stays."""
    run = find(name)
    if run.state != "running":
        raise InputError(f"run {name} has ended already: {run.state}")
    os.kill(run.pid, signal.SIGTERM)
    limit = time.monotonic() + ENDING
    while find(name).state == "running":
        if time.monotonic() > limit:
            raise TriremeError(f"run {name} did not end within {ENDING:.0f} s")
        time.sleep(POLL)


def logs(name: str, step: str, on_line: Callable[[str, str], None], *, follow: bool) -> None:
    """Passes on what the steps of a run have printed."""
    read: dict[str, int] = {}
    while True:
        run = find(name)
        over = not follow or run.state != "running"
        begun = run.logs
        names = {*begun, *map(without_index, begun)}
        if step and step not in names and over:
            raise InputError(f"step {step!r}: the run has {', '.join(begun) or 'none yet'}")
        for one, file in begun.items():
            if step in ("", one, without_index(one)):
                line_of = partial(on_line, one)
                read[one] = forward_lines(file, read.get(one, 0), line_of, to_end_of_file=over)
        if over:
            return
        time.sleep(POLL)


def _read(directory: Path) -> LocalRun | None:
    """Returns the run of a directory, if it is one."""
    try:
        record = json.loads((directory / "run.json").read_text())
    except (OSError, ValueError):
        return None
    state = record["state"]
    if state == "running" and born(record["pid"]) != record["born"]:
        state = "lost"
    return LocalRun(
        name=directory.name,
        directory=directory,
        state=state,
        created=record["started"],
        seconds=record.get("seconds", time.time() - record["started"]),
        ended=record["steps"],
        pid=record["pid"],
    )
