"""The embedded runner: run a training job's manifest as processes on this machine.

It takes the manifest that ``render`` makes for a framework's operator and gives every replica
the environment that the operator would give its pod, so that what runs here runs there.
"""

import math
import queue
import tempfile
import time
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, NoReturn

from trireme.errors import Cancelled, JobFailed
from trireme.observers.base import Activity, Observers, StartAnew
from trireme.observers.incidents import FailedAttempt
from trireme.observers.timeline import Life
from trireme.process.signals import from_a_terminal, handled
from trireme.runner.failed_replica import TimeLimitReached, last_lines
from trireme.runner.local import environment, policy, usage
from trireme.runner.local.activity import activity
from trireme.runner.local.isolation import Isolated
from trireme.runner.local.manifest import Job, read
from trireme.runner.local.network import Loopback
from trireme.runner.local.pod import starts
from trireme.runner.local.replica import Ended, Event, Replica
from trireme.runner.local.stacks import stacks

SETTLE = 5.0  # seconds that replicas get to end by themselves after one has failed
HURRY = 3.0  # seconds that they get when they are told to, as what they would save is not needed
LOOK = 0.5  # seconds between two looks while they end
STACKS = 30.0  # seconds to find out where the replicas of a job stand that hangs
MEMORY_EVERY = 15.0  # seconds between two looks at memory
MEMORY_SHARE = 0.002  # of a processor's time that looking at memory may take
EXIT_LIMIT = 600.0  # seconds a replica may stay silent after another one has succeeded
# Seconds that the others get to end by themselves when the job has succeeded, by cleanPodPolicy:
# None would leave them running, but nothing outlives this runner.
LINGER = {"Running": 5.0, "All": 5.0, "None": 30.0}


def run(
    manifest: dict[str, Any],
    logs: Path,
    observers: Observers | None = None,
    *,
    isolated: bool = False,
) -> dict[str, float]:
    """Runs a job to its end; afterwards no process of it is left.

    Args:
        manifest: A job of a framework's kind, as ``render`` makes it; observers may change it.
        logs: The folder for what replicas print, a file each.
        observers: Who looks at it meanwhile.
        isolated: Whether every replica gets a network namespace with an address and host name
            of its own, as a pod has; needs root.

    Returns:
        Seconds that each replica ran, restarts included, by name.

    Raises:
        InputError: The manifest asks for something that this runner does not do.
        JobFailed: The job did not succeed; the message names the replica that caused it, and it
            knows how long each ran.
    """
    observers = observers or Observers()
    observers.prepare(manifest)
    job = read(manifest)
    events: queue.SimpleQueue[Event] = queue.SimpleQueue()
    with (
        Isolated(job) if isolated else Loopback() as network,
        tempfile.TemporaryDirectory(prefix="trireme-", ignore_cleanup_errors=True) as temporary,
    ):
        logs.mkdir(parents=True, exist_ok=True)
        replicas = [
            Replica(pod, start, logs / f"{pod.name}.log", observers, events, job.framework.shown)
            for pod, start in starts(job, network, logs, Path(temporary))
        ]
        life = _JobRun(manifest, job, replicas, events, observers)
        try:
            with handled(lambda number, frame: events.put(None), from_a_terminal()):
                try:
                    life.live()
                except (Cancelled, TimeLimitReached):
                    life.stop(math.inf)  # as long as a pod has, to save what they have
                    raise
                finally:
                    life.stop(HURRY)
        except JobFailed as error:
            failure = observers.explained(error)
            failure.replica_seconds = _seconds(replicas)
            observers.end(failure)
            raise failure from None
        except BaseException as error:
            observers.end(error)
            raise
    observers.end(None)
    return _seconds(replicas)


def check(manifest: Mapping[str, Any]) -> None:
    """Refuses a job that could not run here, as far as that can be known beforehand."""
    for pod in read(manifest).pods:
        environment.declared(pod)


def _seconds(replicas: Sequence[Replica]) -> dict[str, float]:
    return {replica.name: replica.seconds for replica in replicas}


class _JobRun:
    """The life of a job, from the start of its replicas to the end of the last."""

    def __init__(
        self,
        manifest: Mapping[str, Any],
        job: Job,
        replicas: Sequence[Replica],
        events: "queue.SimpleQueue[Event]",
        observers: Observers,
    ) -> None:
        self.manifest, self.job, self.replicas, self.events = manifest, job, replicas, events
        self.observers, self.has_ended = observers, False
        self.failed: list[FailedAttempt] = []
        self.next_memory = 0.0  # look at it, by the monotonic clock
        self.limit = job.policy.get("activeDeadlineSeconds") or float("inf")
        self.deadline = time.monotonic() + self.limit

    @property
    def all_run(self) -> bool:
        """Whether all its replicas run."""
        return all(replica.is_running for replica in self.replicas)

    @property
    def goes_on(self) -> bool:
        """Whether its replicas have been started, and none is about to be again."""
        return all(replica.is_running or replica.is_over for replica in self.replicas)

    @property
    def last_line(self) -> float:
        """When a replica printed last, by the monotonic clock; 0: none has."""
        return max(
            (replica.last_line for replica in self.replicas if replica.is_running), default=0.0
        )

    @property
    def began(self) -> float:
        """When the first of its replicas that run was started last, by the time of day."""
        return min((replica.began for replica in self.replicas if replica.is_running), default=0.0)

    def lives(self) -> dict[str, Life]:
        """Returns what each replica has spent its time with, and what it used, by name."""
        if not self.has_ended:
            self._take_memory()
        return {replica.name: replica.life(goes_on=not self.has_ended) for replica in self.replicas}

    def activity(self, since: float) -> Activity:
        """Finds out, in seconds, what it does that has been silent since a time of day."""
        return activity(self.pids(), self.job.pods[0].variable("CHECKPOINT_DIR"), since)

    def stacks(self) -> dict[str, list[str]]:
        """Returns where the programs of its replicas stand, in lines, by name."""
        until = time.monotonic() + STACKS
        return {name: stacks(pid, until) for name, pid in self.pids().items()}

    def show(self, replica: str, lines: Sequence[str]) -> None:
        """Shows lines about a replica among those that it prints."""
        next(candidate for candidate in self.replicas if candidate.name == replica).show(lines)

    def pids(self) -> dict[str, int]:
        """Returns the supervisors of its replicas that run, by name."""
        return {replica.name: replica.pid for replica in self.replicas if replica.pid}

    def _take_memory(self) -> None:
        # To count pages that processes share takes the longer the more there are.
        if time.monotonic() < self.next_memory:
            return
        began = time.thread_time()
        memory = usage.memory(self.pids())
        pause = max(MEMORY_EVERY, (time.thread_time() - began) / MEMORY_SHARE)
        self.next_memory = time.monotonic() + pause
        for replica in self.replicas:
            replica.has_memory(memory.get(replica.name, 0.0))

    def live(self) -> None:
        """Returns when the job has succeeded and the others have had their time to end."""
        for replica in self.replicas:
            replica.start()
        while not policy.succeeded(self.job, self.replicas):
            ended = self._next(min(self._due(), time.monotonic() + 1))
            if ended:
                self._after(ended)
            elif time.monotonic() >= self.deadline:
                first = policy.deciding(self.job, self.replicas)[0]
                raise TimeLimitReached(
                    f"the job ran into its time limit of {self.limit:g} s",
                    last_lines(first.name, first.tail),
                )
            self._start_due()
            self._look_for_hung_exit()
            try:
                self.observers.tick(self)
            except StartAnew as error:
                self._start_anew(error)
        self._linger()

    def stop(self, grace: float) -> None:
        """Ends what still runs, kills it after some seconds, and waits for it."""
        for replica in self.replicas:
            replica.terminate()
        limit = time.monotonic() + grace
        while any(replica.is_running for replica in self.replicas):
            with suppress(queue.Empty):
                event = self.events.get(timeout=LOOK)
                if isinstance(event, Ended):
                    event.replica.has_ended(event)
            if time.monotonic() >= limit:
                self._kill(self.replicas)
        if not self.has_ended:
            self.has_ended = True
            self.observers.tick(self)

    def _kill(self, replicas: Iterable[Replica]) -> None:
        for replica in replicas:
            replica.kill()

    def _next(self, limit: float) -> Replica | None:
        """Waits for a replica to end, until a point of time; returns it."""
        try:
            event = self.events.get(timeout=max(0.0, limit - time.monotonic()))
        except queue.Empty:
            return None
        if event is None:
            raise Cancelled("the job was cancelled")
        if isinstance(event, Exception):
            raise event
        event.replica.has_ended(event)
        return event.replica

    def _due(self) -> float:
        """Returns when there is something to do even if no replica ends."""
        return min(
            [self.deadline, *(replica.due for replica in self.replicas if replica.due is not None)]
        )

    def _after(self, replica: Replica) -> None:
        """Does what a replica's end calls for."""
        if self.job.retries is not None and (attempt := replica.failed_attempt):
            self.failed.append(attempt)
        if policy.restarts(self.job, replica):
            reason = policy.why_no_restart(self.job, self.replicas, replica, self.failed)
            if reason is not None:
                self._fail(reason)
            replica.schedule_restart()
        elif replica.status and self.job.framework.is_fatal(self.job, replica.pod):
            self._fail()

    def _fail(self, reason: str = "") -> NoReturn:
        """Waits a moment for others to end, then blames the one that dragged them down."""
        self._wait_for_others(time.monotonic() + SETTLE)
        raise policy.failure(self.job, self.replicas, reason)

    def _start_due(self) -> None:
        now = time.monotonic()
        for replica in self.replicas:
            if replica.due is not None and replica.due <= now:
                replica.start()

    def _linger(self) -> None:
        """Gives the others the time to end that ``cleanPodPolicy`` leaves them."""
        limit = time.monotonic() + LINGER[self.job.policy.get("cleanPodPolicy") or "None"]
        self._wait_for_others(min(limit, self.deadline))

    def _wait_for_others(self, limit: float) -> None:
        """Waits for those that end by themselves, until a point of time."""
        serves = self.job.framework.serves
        while time.monotonic() < limit and any(
            replica.is_running and not serves(self.job, replica.pod) for replica in self.replicas
        ):
            self._next(limit)

    def _start_anew(self, restart: StartAnew) -> None:
        """Ends all replicas that run and starts them again, however they end."""
        if self.job.framework.ends_together and any(replica.succeeded for replica in self.replicas):
            raise restart  # those that are left would wait for who has finished
        running = [replica for replica in self.replicas if not replica.is_over]
        for replica in running:
            replica.show([f"({restart}; all replicas are started again)"])
            replica.terminate()
        limit = time.monotonic() + HURRY
        while any(replica.is_running for replica in running):
            self._next(time.monotonic() + LOOK)
            if time.monotonic() >= limit:
                self._kill(running)
        for replica in running:
            replica.failure = None  # it was ended for another's
            replica.start()

    def _look_for_hung_exit(self) -> None:
        """Where all replicas do the same they end together."""
        finished = [replica for replica in self.replicas if replica.succeeded]
        if not (self.job.framework.ends_together and finished):
            return
        for replica in self.replicas:
            if replica.seems_to_hang(finished[0].ended, EXIT_LIMIT):
                raise JobFailed(
                    f"replica {replica.name} has neither printed nor worked for {EXIT_LIMIT:.0f} "
                    f"s since {finished[0].name} finished; it seems to hang on exit",
                    last_lines(replica.name, replica.tail),
                )
