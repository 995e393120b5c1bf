"""Runs that MLflow does not have whole, because it was away when they ended; and bringing them.

Each has a file ``unsent/NAME`` in Trireme's data directory: which server lacks it, and how the run
has ended. All that it lacks is in the run's workspace.
"""

import json
import shutil
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import NamedTuple

from filelock import FileLock

from trireme.errors import TrackingUnavailable, TriremeError
from trireme.files.home import home
from trireme.files.whole_file import write_whole
from trireme.targets.local import drawing, runs
from trireme.text.say import say
from trireme.tracking import client, store
from trireme.tracking.pipeline_run import PipelineRun

ROOM = 1 << 20  # bytes without which nothing is begun
LOCK = ".lock"


class Unsent(NamedTuple):
    """What is known of a run that MLflow lacks: the server, without a password, and its end."""

    name: str
    server: str
    status: str
    seconds: float


def keep(name: str, uri: str, status: str, seconds: float) -> None:
    """Notes that a run is not whole at a server."""
    file = _file(name)
    file.parent.mkdir(parents=True, exist_ok=True)
    write_whole(file, json.dumps([store.public(uri), status, seconds]))


def forget(name: str) -> None:
    """Notes that a run is whole."""
    for file in (_file(name), _file(f"{name}{LOCK}")):
        file.unlink(missing_ok=True)


def read() -> list[Unsent]:
    """Returns the runs that some server lacks, the oldest first."""
    entries = []
    for file in (home() / "unsent").glob("*"):
        with suppress(FileNotFoundError):  # another process has brought it just now
            if file.suffix not in (".partial", LOCK):
                entries.append((file.stat().st_mtime, file.name, json.loads(file.read_text())))
    return [Unsent(name, *content) for _, name, content in sorted(entries)]


def bring(unsent_run: Unsent) -> None:
    """Brings all of a run to MLflow.

    Raises:
        TriremeError: It is away still, or refuses.
    """
    # The other way round as well: running.py brings older runs once it is done with its own.
    from trireme.targets.local.running import prepared

    run = runs.find(unsent_run.name)
    pipeline, arguments = prepared(run.directory)
    experiment = arguments.get("experiment", "")
    record = PipelineRun(
        run.name, experiment, pipeline.name, arguments, home(), run.workspace, run.created
    )
    for step, ended in run.ended.items():
        record.step_kept(step, ended["state"], ended["resources"])
    message = str(run.error) if run.error else ""
    conclude = partial(drawing.conclusion, run.directory, pipeline, arguments, message)
    record.close(unsent_run.status, {"duration_seconds": unsent_run.seconds}, conclude)
    if unsent_run.status == "FINISHED":
        runs.Record.mend(run.directory, unsent_run.status)
    forget(unsent_run.name)


def bring_all() -> bool:
    """Brings what MLflow lacks, and says so; returns whether that is all."""
    server, waiting = store.uri(), read()
    if waiting and shutil.disk_usage(home()).free < ROOM:
        say(f"warning: there is hardly room left on the disk of {home()}")
        return False
    for run in waiting:
        if run.server != store.public(server):
            say(f"{run.name} waits for MLflow at {run.server}; set MLFLOW_TRACKING_URI to it")
            continue
        try:
            store.check_reachable(server)
        except TriremeError as error:
            _warn(run.name, error)
            break  # the others would wait for the same server
        client.hurry()
        try:
            _bring_alone(run.name)
        except TriremeError as error:
            _warn(run.name, error)
            if isinstance(error, TrackingUnavailable):
                break
    return not read()


def _bring_alone(name: str) -> None:
    """Brings a run, unless another process does so or resumes it."""
    with FileLock(_file(f"{name}{LOCK}")):
        if not _file(name).exists():  # another process has been faster
            return
        if not (home() / "runs" / name).exists():
            say(f"warning: {name} is gone from this machine, and what MLflow lacks of it with it")
            forget(name)
            return
        with suppress(TimeoutError), runs.held(name):  # who runs it brings it in the end
            run = Unsent(name, *json.loads(_file(name).read_text()))  # it may have ended anew
            bring(run)
            say(f"{name} is whole in MLflow now, as {run.status}")


def _warn(name: str, error: TriremeError) -> None:
    say(f"warning: MLflow lacks some of {name}: {error}")


def _file(name: str) -> Path:
    return home() / "unsent" / name
