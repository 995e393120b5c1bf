"""The embedded runner: run a PyTorchJob manifest as processes on this machine.

It takes the manifest that the training operator takes and gives every replica the environment
that the operator would give its pod, so that what runs here runs there.
"""

import os
import queue
import re
import signal
import socket
import subprocess
import sys
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from types import FrameType
from typing import Any

from components.errors import InputError, JobFailed, exit_in_words
from components.training.supervised import supervised

GRACE = 3.0  # seconds between asking a replica to end and killing it
SETTLE = 5.0  # seconds that replicas get to end by themselves after one has failed
EXIT_LIMIT = 600.0  # seconds a replica may stay silent after another one has succeeded
AFTER_MASTER = 30.0  # seconds that workers may outlive a master that succeeded
TAIL = 20  # lines of a failed replica that are shown
KEPT = 80  # lines of a replica that are kept, for TAIL to be among them before torchrun's own
LINE_LIMIT = 64 * 1024  # bytes after which a line without an end is cut

_VARIABLE = re.compile(r"\$(?:\$|\(([^)]*)\))")
# What a rank says whose peer is gone: it was dragged down, it is not the cause.
_PEER_LOST = re.compile(
    r"connection (was )?(closed|reset|refused)|closed by peer|broken pipe|socket timeout|"
    r"DistBackendError|DistNetworkError|DistStoreError|RendezvousConnectionError",
    re.IGNORECASE,
)
_TORCHRUN = re.compile(r"E\d{4} .* torch/distributed/elastic/")
# Set by whoever started this process; a container would not see it.
_STALE = re.compile(
    r"MASTER_(ADDR|PORT)|((LOCAL|GROUP|ROLE)_)?(RANK|WORLD_SIZE)|ROLE_NAME|"
    r"(PET|TORCHELASTIC)_\w+|TF_CONFIG"
)


@dataclass
class Replica:
    """One replica of the job, as a running process.

    Attributes:
        name: Type and index, as in ``worker-0``.
        process: Its supervisor, which ends with the exit status of the replica's command.
        tail: The last lines it printed.
        spoke: When it last printed something, by the monotonic clock.
        status: The exit status, ``None`` while it runs.
        ended: When it ended, by the monotonic clock.
    """

    name: str
    process: subprocess.Popen[bytes]
    tail: deque[str] = field(default_factory=lambda: deque(maxlen=KEPT))
    spoke: float = field(default_factory=time.monotonic)
    status: int | None = None
    ended: float = 0.0


class Cancelled(JobFailed):
    """The job was stopped by a signal."""

    exit_status = 143


def run(
    manifest: dict[str, Any], logs: Path, on_line: Callable[[str, str], None]
) -> dict[str, float]:
    """Runs the job to its end; afterwards no process of it is left.

    The job succeeds when its master does, as with the training operator.

    Args:
        manifest: A PyTorchJob, as ``components.training.manifest.render`` makes it.
        logs: Directory for one log file per replica.
        on_line: Called with a replica's name and each line it prints, from several threads.

    Returns:
        Seconds that each replica ran, by name.

    Raises:
        InputError: The manifest asks for something that this runner does not do.
        JobFailed: The job did not succeed; the message names the replica that caused it.
        Cancelled: This process was told to end (SIGTERM or SIGINT).
    """
    _check(manifest)
    logs.mkdir(parents=True, exist_ok=True)
    ended: queue.SimpleQueue[Replica | None] = queue.SimpleQueue()
    started = time.monotonic()
    replicas: list[Replica] = []
    with _told_to_end(lambda: ended.put(None)):
        try:
            for name, command, environment, directory in _processes(manifest):
                replica = Replica(name, supervised(command, GRACE, environment, directory))
                replicas.append(replica)
                threading.Thread(
                    target=_follow, args=(replica, logs, on_line, ended), daemon=True
                ).start()
            _wait(replicas, ended, _deadline(manifest, started))
        finally:
            _stop(replicas, ended)
    return {replica.name: replica.ended - started for replica in replicas}


def _check(manifest: dict[str, Any]) -> None:
    if manifest.get("kind") != "PyTorchJob":
        raise InputError(f"kind {manifest.get('kind')!r} cannot run here; only PyTorchJob can")
    for role, spec in manifest["spec"]["pytorchReplicaSpecs"].items():
        if spec.get("restartPolicy", "Never") != "Never":
            raise InputError(
                f"restartPolicy {spec['restartPolicy']!r} of {role} cannot run here; only Never can"
            )


def _processes(
    manifest: dict[str, Any],
) -> Iterator[tuple[str, list[str], dict[str, str], str]]:
    """Yields name, command, environment and working directory of every replica, master first.

    The environment is the one that the operator injects into a pod, with this machine's
    address for the master's: pkg/controller.v1/pytorch/envvar.go of training operator v1.9.
    """
    spec = manifest["spec"]
    processes = int(spec.get("nprocPerNode", 1))
    roles = spec["pytorchReplicaSpecs"]
    nodes = sum(role.get("replicas", 1) for role in roles.values())
    port = _free_port()
    threads = max(1, len(os.sched_getaffinity(0)) // (nodes * processes))
    machine = {name: value for name, value in os.environ.items() if not _STALE.fullmatch(name)}
    machine["PATH"] = f"{Path(sys.executable).parent}{os.pathsep}{machine.get('PATH', '')}"
    machine.setdefault("OMP_NUM_THREADS", str(threads))
    rank = 0
    for role in ("Master", "Worker"):
        if role not in roles:
            continue
        container = roles[role]["template"]["spec"]["containers"][0]
        for index in range(roles[role].get("replicas", 1)):
            injected = {
                "PYTHONUNBUFFERED": "1",
                "MASTER_PORT": str(port),
                "PET_MASTER_PORT": str(port),
                "MASTER_ADDR": "127.0.0.1",
                "PET_MASTER_ADDR": "127.0.0.1",
                "WORLD_SIZE": str(nodes * processes),
                "RANK": str(rank),
                "PET_NODE_RANK": str(rank),
                "PET_NPROC_PER_NODE": str(processes),
                "PET_NNODES": str(nodes),
            }
            declared: dict[str, str] = {}
            for variable in container.get("env", []):
                declared[variable["name"]] = _expand(variable.get("value", ""), declared)
            if "PYTHONPATH" in declared and "PYTHONPATH" in machine:
                declared["PYTHONPATH"] += os.pathsep + machine["PYTHONPATH"]
            visible = declared | injected
            command = [
                _expand(part, visible)
                for part in [*container["command"], *container.get("args", [])]
            ]
            yield f"{role.lower()}-{index}", command, machine | visible, container["workingDir"]
            rank += 1


def _expand(text: str, variables: dict[str, str]) -> str:
    """Replaces ``$(NAME)`` and ``$$`` as Kubernetes does; an unknown name stays as it is."""

    def replacement(match: re.Match[str]) -> str:
        if match[0] == "$$":
            return "$"
        return variables.get(match[1], match[0])

    return _VARIABLE.sub(replacement, text)


def _follow(
    replica: Replica,
    logs: Path,
    on_line: Callable[[str, str], None],
    ended: "queue.SimpleQueue[Replica | None]",
) -> None:
    """Passes a replica's lines on until it has ended, then reports that."""
    stream = replica.process.stdout
    assert stream is not None
    log = logs / f"{replica.name}.log"
    try:
        with log.open("w", encoding="utf-8", errors="replace") as file:
            while raw := stream.readline(LINE_LIMIT):
                # A progress bar rewrites its line: what a person would see is the end of it.
                line = raw.decode(errors="replace").rstrip("\r\n").rpartition("\r")[2]
                replica.tail.append(line)
                replica.spoke = time.monotonic()
                file.write(line + "\n")
                file.flush()
                on_line(replica.name, line)
    except (OSError, ValueError) as error:
        # A log that cannot be kept, on a full disk for instance, is no reason to stop training.
        replica.tail.append(f"(the rest is not in the log: {error})")
        while stream.read(LINE_LIMIT):
            pass
    replica.status = replica.process.wait()
    replica.ended = time.monotonic()
    ended.put(replica)


def _wait(
    replicas: list[Replica], ended: "queue.SimpleQueue[Replica | None]", deadline: float
) -> None:
    """Returns when the job has succeeded.

    Raises:
        JobFailed: It has not.
    """
    master, running = replicas[0], len(replicas)
    while running:
        try:
            event = ended.get(timeout=max(0.0, min(1.0, deadline - time.monotonic())))
        except queue.Empty:
            if time.monotonic() >= deadline:
                raise JobFailed("the job ran into its time limit", _tail(master)) from None
            if master.status == 0 and time.monotonic() - master.ended > AFTER_MASTER:
                return
            _look_for_hung(replicas)
            continue
        if event is None:
            raise Cancelled("the job was cancelled")
        running -= 1
        if event.status != 0 and master.status != 0:
            _settle(replicas, ended)
            raise _failure(replicas)


def _settle(replicas: list[Replica], ended: "queue.SimpleQueue[Replica | None]") -> None:
    """Gives the others a moment to end, so that the cause can be told from what it dragged down."""
    limit = time.monotonic() + SETTLE
    while any(replica.status is None for replica in replicas) and time.monotonic() < limit:
        try:
            if ended.get(timeout=0.1) is None:
                raise Cancelled("the job was cancelled")
        except queue.Empty:
            continue


def _failure(replicas: list[Replica]) -> JobFailed:
    failed = [replica for replica in replicas if replica.status]

    def dragged_down(replica: Replica) -> bool:
        return any(_PEER_LOST.search(line) for line in replica.tail)

    cause = min(failed, key=lambda replica: (dragged_down(replica), replica.ended))
    return JobFailed(f"replica {cause.name} {exit_in_words(cause.status or 0)}", _tail(cause))


def _look_for_hung(replicas: list[Replica]) -> None:
    finished = [replica for replica in replicas if replica.status == 0]
    for replica in replicas:
        if finished and replica.status is None:
            since = max(replica.spoke, finished[0].ended)
            if time.monotonic() - since > EXIT_LIMIT:
                raise JobFailed(
                    f"replica {replica.name} has printed nothing for {EXIT_LIMIT:.0f} s since "
                    f"{finished[0].name} finished; it seems to hang at its exit",
                    _tail(replica),
                )


def _stop(replicas: list[Replica], ended: "queue.SimpleQueue[Replica | None]") -> None:
    running = [replica for replica in replicas if replica.status is None]
    for replica in running:
        replica.process.terminate()
    for replica in running:
        replica.process.wait()
    while any(replica.status is None for replica in replicas):
        ended.get()


def _tail(replica: Replica) -> str:
    """Returns a replica's last lines, without torchrun's report on its own processes."""
    lines = list(replica.tail)
    report = next((at for at, line in enumerate(lines) if _TORCHRUN.match(line)), 0)
    return "\n".join(f"[{replica.name}] {line}" for line in lines[: report or None][-TAIL:])


def _deadline(manifest: dict[str, Any], started: float) -> float:
    limit = manifest["spec"].get("runPolicy", {}).get("activeDeadlineSeconds")
    return started + limit if limit else float("inf")


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


@contextmanager
def _told_to_end(then: Callable[[], None]) -> Iterator[None]:
    """Calls ``then`` when this process is sent SIGTERM or SIGINT; nothing else happens."""

    def handler(number: int, frame: FrameType | None) -> None:
        then()

    numbers = (signal.SIGTERM, signal.SIGINT)
    before = [signal.signal(number, handler) for number in numbers]
    try:
        yield
    finally:
        for number, previous in zip(numbers, before, strict=True):
            signal.signal(number, previous)
