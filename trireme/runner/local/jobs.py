"""Training jobs on this machine without a pipeline: a directory for each, and what it says."""

import errno
import json
import os
import shutil
import signal
import socket
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from types import FrameType
from typing import Any, NoReturn

from trireme import progress
from trireme.errors import Cancelled, InputError, NoSuchJob, TriremeError
from trireme.files import event_files as events
from trireme.files import kept_record
from trireme.files.file_lock import FileLock, is_held
from trireme.files.whole_file import write_whole
from trireme.job.job import TrainingJob
from trireme.manifests import render, to_yaml
from trireme.observers import goodput, timeline
from trireme.observers.advice import at_end
from trireme.observers.advice.at_end import Advice
from trireme.observers.base import Findings, Observer, Observers, installed_observers
from trireme.observers.dataset import Unchanged
from trireme.observers.goodput import kept
from trireme.observers.goodput.ledger import Ledger
from trireme.observers.goodput.observer import Goodput
from trireme.observers.hangs import Hangs
from trireme.observers.progress import Meter
from trireme.observers.timeline import Timeline
from trireme.observers.usage import Usage
from trireme.process.patience import wait_for
from trireme.process.processes import born, check_proc, process_of
from trireme.process.signals import from_a_terminal, handled
from trireme.runner.lines import forward_lines
from trireme.runner.local import provision, runner
from trireme.runner.local import usage as processes
from trireme.runner.local.manifest import Pod
from trireme.runner.local.manifest import read as read_manifest
from trireme.text import yaml_text

PROGRESS = "progress.json"

LOCK = "job.lock"
"""The lock of the process that runs a job."""

_FIELDS: dict[str, kept_record.Kind] = {
    "kind": str,
    "state": str,
    "started": kept_record.NUMBER,
}
_MORE: dict[str, kept_record.Kind] = {
    "pid": int,
    "born": str,
    "seconds": kept_record.NUMBER,
    "reason": str,
}
"""What a job's ``state.json`` must have, and may have."""

POLL = 0.2  # seconds between two looks at a job that is followed
MOMENT = 5.0  # seconds that a job whose replicas have ended may take to say how
ENDING = 60.0  # seconds that a job gets to end when it is cancelled


@dataclass(frozen=True)
class LocalJob:
    """A job of this machine: running, succeeded, failed, cancelled, or lost with its runner."""

    name: str
    kind: str
    state: str
    started: float
    seconds: float
    reason: str
    directory: Path

    @property
    def ended_at(self) -> float:
        """When it ended, in seconds since the epoch; of one that runs, the present moment."""
        return self.started + self.seconds

    @property
    def replicas(self) -> list[str]:
        """Names of its replicas that have started."""
        return sorted(file.stem for file in (self.directory / "logs").glob("*.log"))

    @property
    def progress(self) -> progress.Progress | None:
        """How far it is, or was at its end; None where that is not known."""
        return progress.read(self.directory / PROGRESS)

    @property
    def goodput(self) -> Ledger | None:
        """What its time went to; None where that is not known."""
        return kept.read(self.directory / "logs" / goodput.NAME)


@contextmanager
def make_directory(home: Path, name: str) -> Iterator[Path]:
    """Makes the directory of a job, which says from the first moment on that it runs."""
    check_proc()
    directory = home / name
    try:
        home.mkdir(parents=True, exist_ok=True)
        temporary = Path(tempfile.mkdtemp(prefix="job-", dir=home.parent))
        try:
            lock = FileLock(temporary / LOCK)
            _write(temporary, _begun(""))
            temporary.rename(directory)
        except BaseException:  # a full disk, or a file system that keeps no locks
            shutil.rmtree(temporary, ignore_errors=True)
            raise
    except OSError as error:
        if error.errno in (errno.ENOTEMPTY, errno.EEXIST):
            raise _taken(directory) from None
        raise InputError(f"{directory}: cannot be created: {error.strerror}") from None
    with lock:
        yield directory


def _taken(directory: Path) -> InputError:
    existing, name = _read(directory), directory.name
    state = f" ({existing.state})" if existing else ""
    return InputError(
        f"job {name!r} is in {directory} already{state}; choose another --name, or delete it with "
        f"'trireme job delete {name} --local'"
    )


def check(home: Path, job: TrainingJob) -> dict[str, Any]:
    """Returns the manifest of a job if nothing that can be known now keeps it from running here."""
    if (home / job.name / "state.json").exists():
        raise _taken(home / job.name)
    return provision.check(job, home / job.name)


def run(
    job: TrainingJob,
    directory: Path,
    observers: Iterable[Observer] = (),
    *,
    isolated: bool = False,
    recorder: Callable[[Findings], None] = lambda findings: None,
) -> None:
    """Runs a job to its end and keeps its record; the directory goes if it never started.

    Args:
        observers: Who looks at it, besides what is always done.
        recorder: Is handed what they, and what is always done, find.
    """
    started = False
    try:
        # Code and data are brought here, so the manifest is to say nothing of them.
        bare = job.model_copy(update={"code": None, "dataset": None})
        with _recorded(directory, render(bare)["kind"]):
            with handled(_cancelled, from_a_terminal()):
                ready = provision.provision(job, directory)
                manifest = render(ready)
            write_whole(directory / "job.yaml", to_yaml(manifest))
            started = True
            logs = directory / "logs"
            about = at_end.about(
                job, manifest, has_gpu=processes.has_gpu(), cores=processes.cores()
            )
            hangs = Hangs()
            ledger = Goodput(
                logs / goodput.NAME,
                job.leader,
                manifest,
                hangs,
                checkpoints=Path(ready.checkpoint_dir),
            )
            own = [
                *observers,
                *([Unchanged(Path(ready.data_dir))] if job.dataset else []),
                *installed_observers(job),
                Meter(job.leader, partial(progress.write, directory / PROGRESS), ledger.count),
                hangs,
                Timeline(logs / timeline.NAME),
                ledger,
                Advice(about, logs, processes.idle),
            ]
            runner.run(manifest, logs, Observers(own, recorder), isolated=isolated)
    except BaseException as error:
        if not started or isinstance(error, InputError):
            shutil.rmtree(directory)
        raise


def all_jobs(home: Path) -> list[LocalJob]:
    """Returns the jobs of this machine, the latest first."""
    local_jobs = kept_record.readable((file.parent for file in home.glob("*/state.json")), _read)
    return sorted(local_jobs, key=lambda job: job.started, reverse=True)


def find(home: Path, name: str) -> LocalJob:
    """Returns a job by its name."""
    job = None if "/" in name else _read(home / name)
    if job is None:
        raise NoSuchJob(f"job {name!r}: there is no such job in {home}")
    return job


def logs(
    home: Path, name: str, follow: bool, replica: str, on_line: Callable[[str, str], None]
) -> None:
    """Passes on what a job's replicas have printed, or only one such as ``worker-0``."""
    job = find(home, name)
    may_come = follow and job.state == "running" and "/" not in replica
    if replica and replica not in job.replicas and not may_come:
        raise InputError(
            f"replica {replica!r}: job {name!r} has {', '.join(job.replicas) or 'none yet'}"
        )
    read: dict[str, int] = {}
    while True:
        over = not follow or find(home, name).state != "running"
        for member in [replica] if replica else job.replicas:
            file = job.directory / "logs" / f"{member}.log"
            if file.exists():
                line_of = partial(on_line, member)
                read[member] = forward_lines(
                    file, read.get(member, 0), line_of, to_end_of_file=over
                )
        if over:
            return
        time.sleep(POLL)


def usage(home: Path, name: str) -> list[Usage]:
    """Returns what the replicas of a job that runs use now."""
    job = find(home, name)
    if job.state != "running":
        raise InputError(f"job {name!r} does not run: {job.state}")
    runner_pid = process_of(_state(job.directory), f"job {name!r}")
    logs = job.directory / "logs"
    pids = {name: _pid(logs / f"{name}.pid") for name in job.replicas}
    used = processes.measured(processes.children(runner_pid) & {*pids.values()})
    if not used:
        # They may have ended just now, and the job is about to say so.
        has_started = bool(job.replicas)
        if has_started and wait_for(lambda: find(home, name).state != "running", MOMENT, POLL):
            return usage(home, name)
        raise InputError(f"job {name!r} does not run: no replica has started yet")
    return [
        Usage(pod.name, "running", str(pid), pod.container, *used[pid])
        if (pid := pids.get(pod.name)) in used
        else Usage(pod.name, "pending" if pid is None else "ended", "", pod.container)
        for pod in _pods(job)
    ]


def event_files(home: Path, name: str, folder: Path) -> bool:
    """Links a folder to the event files of a job; returns whether there may be more later."""
    job = find(home, name)
    declared = [pod.variable(name) for pod in _pods(job)[:1] for name in events.VARIABLES]
    paths = [path for path in declared if path]
    # The working directory may be anybody's, with other jobs in it.
    events.link(folder, paths, job.started, [home, home.with_name("runs")])
    return job.state == "running"


def cancel(home: Path, name: str) -> None:
    """Ends a job that runs; its directory stays."""
    job = find(home, name)
    if job.state != "running":
        raise InputError(f"job {name!r} has {job.state} already")
    os.kill(process_of(_state(job.directory), f"job {name!r}"), signal.SIGTERM)

    def has_ended() -> bool:
        now = _read(job.directory)
        return now is None or now.state != "running"

    if not wait_for(has_ended, ENDING, POLL):
        raise TriremeError(f"job {name!r} did not end within {ENDING:.0f} s")


def delete(home: Path, name: str) -> None:
    """Removes a job with its code, data, checkpoints, model and logs; ends it if it runs."""
    job = find(home, name)
    if job.state == "running":
        cancel(home, name)
    shutil.rmtree(job.directory, ignore_errors=True)


def _pods(job: LocalJob) -> tuple[Pod, ...]:
    """Returns the pods of a job's manifest; none as long as it has none."""
    file = job.directory / "job.yaml"
    return read_manifest(yaml_text.read(file, str(file))).pods if file.exists() else ()


def _cancelled(number: int, frame: FrameType | None) -> NoReturn:
    raise Cancelled("the job was cancelled")


@contextmanager
def _recorded(directory: Path, kind: str) -> Iterator[None]:
    """Keeps the state of a job in its directory while it runs."""
    record = _begun(kind)
    _write(directory, record)
    try:
        yield
        record["state"] = "succeeded"
    except Cancelled as error:
        record |= {"state": "cancelled", "reason": str(error)}
        raise
    except BaseException as error:
        record |= {"state": "failed", "reason": str(error)}
        raise
    finally:
        _write(directory, record | {"seconds": time.time() - record["started"]})


def _begun(kind: str) -> dict[str, Any]:
    process = {"pid": os.getpid(), "born": born(os.getpid()), "host": socket.gethostname()}
    process |= {"layout": kept_record.LAYOUT}
    return {"kind": kind, "state": "running", "started": time.time()} | process


def _write(directory: Path, record: dict[str, Any]) -> None:
    write_whole(directory / "state.json", json.dumps(record))


def _pid(file: Path) -> int:
    """Returns the process of a replica; 0 where none runs."""
    try:
        return int(file.read_text())
    except (OSError, ValueError):  # it has ended, or has just been started
        return 0


def _state(directory: Path) -> dict[str, Any]:
    return json.loads((directory / "state.json").read_text())


def _read(directory: Path) -> LocalJob | None:
    """Returns the job of a directory, if it is one."""
    record = kept_record.read(directory / "state.json", _FIELDS, _MORE)
    if record is None:  # it is being made, or removed
        return None
    state = record["state"]
    if state == "running" and not is_held(directory / LOCK):
        state, record["reason"] = "lost", "the command that ran it was killed"
        times = [file.stat().st_mtime for file in (directory / "logs").glob("*.log")]
        record["seconds"] = max([record["started"], *times]) - record["started"]
    return LocalJob(
        name=directory.name,
        kind=record["kind"],
        state=state,
        started=record["started"],
        seconds=record.get("seconds", time.time() - record["started"]),
        reason=record.get("reason", ""),
        directory=directory,
    )
