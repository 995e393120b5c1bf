"""The embedded runner: run a training job's manifest as processes on this machine.

It takes the manifest that ``render`` makes for a framework's operator and gives every replica
the environment that the operator would give its pod, so that what runs here runs there.
"""

import math
import queue
import tempfile
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, NoReturn

from trireme.errors import Cancelled, JobFailed
from trireme.observers import hangs
from trireme.observers.incidents import FailedAttempt
from trireme.observers.timeline import NAME, Timeline
from trireme.process.signals import from_a_terminal, handled
from trireme.runner.failed_replica import TimeLimitReached, last_lines
from trireme.runner.local import environment, policy
from trireme.runner.local.hang_watch import HangWatch
from trireme.runner.local.isolation import Isolated
from trireme.runner.local.manifest import Job, read
from trireme.runner.local.network import Loopback
from trireme.runner.local.pod import starts
from trireme.runner.local.replica import Ended, Event, Replica

SETTLE = 5.0  # seconds that replicas get to end by themselves after one has failed
HURRY = 3.0  # seconds that they get when they are told to, as what they would save is not needed
LOOK = 0.5  # seconds between two looks while they end
STACKS = 30.0  # seconds to find out where the replicas of a job stand that hangs
EXIT_LIMIT = 600.0  # seconds a replica may stay silent after another one has succeeded
# Seconds that the others get to end by themselves when the job has succeeded, by cleanPodPolicy:
# None would leave them running, but nothing outlives this runner.
LINGER = {"Running": 5.0, "All": 5.0, "None": 30.0}


def run(
    manifest: Mapping[str, Any],
    logs: Path,
    on_lines: Callable[[str, str], None],
    *,
    on_rewritten: Callable[[str, str], None] = lambda replica, text: None,
    on_hang: Callable[[str], None] = lambda said: None,
    on_tick: Callable[[Sequence[Replica]], bool | None] = lambda replicas: False,
    isolated: bool = False,
) -> dict[str, float]:
    """Runs a job to its end; afterwards no process of it is left.

    Args:
        manifest: A job of a framework's kind, as ``render`` makes it.
        on_lines: Called with a replica's name and one or more lines that it has printed, an end
            between them, from several threads.
        on_rewritten: Called likewise, twice a second at most, with what a line has become that has
            no end yet, such as a progress bar.
        on_hang: Called with a sentence when the job hangs; the replicas' logs say where.
        on_tick: Called about once a second; if it returns true the job ends now, as one that has
            succeeded; what it raises ends it, too.
        isolated: Whether every replica gets a network namespace with an address and host name
            of its own, as a pod has; needs root.

    Returns:
        Seconds that each replica ran, restarts included, by name.

    Raises:
        InputError: The manifest asks for something that this runner does not do.
        JobFailed: The job did not succeed; the message names the replica that caused it, and it
            knows how long each ran.
    """
    job = read(manifest)
    events: queue.SimpleQueue[Event] = queue.SimpleQueue()
    with (
        Isolated(job) if isolated else Loopback() as network,
        tempfile.TemporaryDirectory(prefix="trireme-", ignore_cleanup_errors=True) as temporary,
    ):
        logs.mkdir(parents=True, exist_ok=True)
        shown = job.framework.shown
        replicas = [
            Replica(pod, start, logs / f"{pod.name}.log", on_lines, events, shown, on_rewritten)
            for pod, start in starts(job, network, logs, Path(temporary))
        ]
        life = _JobRun(job, replicas, events, on_hang, Timeline(logs / NAME), on_tick)
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
            error.replica_seconds = _seconds(replicas)
            raise
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
        job: Job,
        replicas: Sequence[Replica],
        events: "queue.SimpleQueue[Event]",
        on_hang: Callable[[str], None],
        timeline: Timeline,
        on_tick: Callable[[Sequence[Replica]], bool | None],
    ) -> None:
        self.job, self.replicas, self.events = job, replicas, events
        self.failed: list[FailedAttempt] = []
        self.timeline, self.on_tick = timeline, on_tick
        self.watch, self.on_hang = HangWatch(job, replicas), on_hang
        self.hung: list[float] = []  # when it was started anew for that
        self.limit = job.policy.get("activeDeadlineSeconds") or float("inf")
        self.deadline = time.monotonic() + self.limit

    def live(self) -> None:
        """Returns when the job has succeeded and the others have had their time to end."""
        for replica in self.replicas:
            replica.start()
        while not policy.succeeded(self.job, self.replicas):
            self._keep_timeline()
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
            self._look_for_hang()
            if self.on_tick(self.replicas):
                return
        self._linger()

    def stop(self, grace: float) -> None:
        """Ends what still runs, kills it after some seconds, and waits for it."""
        for replica in self.replicas:
            replica.terminate()
        limit = time.monotonic() + grace
        while any(replica.running for replica in self.replicas):
            with suppress(queue.Empty):
                event = self.events.get(timeout=LOOK)
                if isinstance(event, Ended):
                    event.replica.has_ended(event)
            if time.monotonic() >= limit:
                self._kill(self.replicas)
        self._keep_timeline(goes_on=False)

    def _kill(self, replicas: Iterable[Replica]) -> None:
        for replica in replicas:
            replica.kill()

    def _keep_timeline(self, *, goes_on: bool = True) -> None:
        self.timeline.keep(
            lambda: {each.name: each.life(goes_on=goes_on) for each in self.replicas},
            at_once=not goes_on,
        )

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
            why = policy.why_no_restart(self.job, self.replicas, replica, self.failed)
            if why is not None:
                self._fail(why)
            replica.schedule_restart()
        elif replica.status and self.job.framework.is_fatal(self.job, replica.pod):
            self._fail()

    def _fail(self, why: str = "") -> NoReturn:
        """Waits a moment for others to end, then blames the one that dragged them down."""
        self._wait_for_others(time.monotonic() + SETTLE)
        raise policy.failure(self.job, self.replicas, why)

    def _start_due(self) -> None:
        now = time.monotonic()
        due = [each for each in self.replicas if each.due is not None and each.due <= now]
        for replica in due:
            replica.start()
        if due:
            self.watch.start_anew()

    def _linger(self) -> None:
        """Gives the others the time to end that ``cleanPodPolicy`` leaves them."""
        limit = time.monotonic() + LINGER[self.job.policy.get("cleanPodPolicy") or "None"]
        self._wait_for_others(min(limit, self.deadline))

    def _wait_for_others(self, limit: float) -> None:
        """Waits for those that end by themselves, until a point of time."""
        serves = self.job.framework.serves
        while time.monotonic() < limit and any(
            replica.running and not serves(self.job, replica.pod) for replica in self.replicas
        ):
            self._next(limit)

    def _look_for_hang(self) -> None:
        silence = self.watch.silence()
        if silence is None:
            return
        said = hangs.sentence(silence)
        with suppress(OSError):  # a full disk
            self.on_hang(said)
        # Only progress gives it more restarts.
        self.hung = [at for at in self.hung if at > self.watch.saved]
        # Where all replicas do the same, those that are left would wait for who has finished.
        has_all = not (
            self.job.framework.ends_together and any(each.succeeded for each in self.replicas)
        )
        restarts = self.job.on_hang == "restart" and has_all and len(self.hung) < hangs.RESTARTS
        why = f"it hangs: {said}" + ("; all replicas are started again" if restarts else "")
        until = time.monotonic() + STACKS
        found = {each.name: each.show_stacks(why, until) for each in self.replicas}
        if restarts:
            self._start_anew()
        elif self.job.on_hang != "report":
            again = f", after {len(self.hung)} restarts without a new checkpoint"
            name, lines = next(((name, lines) for name, lines in found.items() if lines), ("", []))
            detail = last_lines(name, lines)
            raise JobFailed(f"the job hangs: {said}{again if self.hung else ''}", detail)

    def _start_anew(self) -> None:
        """Ends all replicas that run and starts them again, however they end."""
        running = [replica for replica in self.replicas if not replica.finished]
        for replica in running:
            replica.terminate()
        limit = time.monotonic() + HURRY
        while any(replica.running for replica in running):
            self._next(time.monotonic() + LOOK)
            if time.monotonic() >= limit:
                self._kill(running)
        for replica in running:
            replica.failure = None  # it was ended for another's
            replica.start()
        self.hung.append(time.monotonic())
        self.watch.start_anew()

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
