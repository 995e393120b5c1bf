"""Following a job on the cluster to its end."""

import queue
import threading
import time
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from trireme.errors import Cancelled, InputError, JobFailed, ReplicaLost, TriremeError
from trireme.frameworks import kind_of, least_replicas, pods_of
from trireme.kubernetes import pods
from trireme.kubernetes.connection import Cluster
from trireme.kubernetes.resources import PODS, Resource
from trireme.kubernetes.streams import Stop
from trireme.kubernetes.watch import Change, changes
from trireme.observers import incidents
from trireme.observers.base import Activity, Observers, StartAnew
from trireme.observers.timeline import Life
from trireme.runner.cluster import activity, identity, reasons, submission
from trireme.runner.cluster.replicas import Replica, Replicas
from trireme.runner.cluster.status import State, Status, expected_replicas, is_suspended, status_of
from trireme.runner.cluster.usage_watch import UsageWatch
from trireme.runner.failed_replica import TimeLimitReached

TICK = 1.0  # seconds between two looks at the clock
REASON_EVERY = 5.0  # seconds between two questions why nothing runs
PER_REPLICA = 0.001  # seconds between two looks at all replicas, for each of them
REMOVED_LINES = 5  # lines of a replica that was removed before it ended
DRAIN = 15.0  # seconds that pods get to end after the job has, and the next line of a log to come

ONLY_LEADING = (
    "the lines of the first replica of each role are shown as they come, those of another one when "
    "it ends or is started again, or by `trireme job logs {} --replica R`"
)


@dataclass(frozen=True)
class Limits:
    """What ends a job that is followed.

    Attributes:
        queued: Seconds that it may be queued; ``None`` is for ever.
        starting: Seconds that its pods may take to start.
        retries: Whether more incidents than it survives end it.
    """

    queued: float | None = None
    starting: float | None = None
    retries: bool = True


class Follower:
    """A job that is followed."""

    def __init__(
        self,
        cluster: Cluster,
        job: dict[str, Any],
        limits: Limits,
        observers: Observers,
        *,
        replica: str = "",
        stop: Stop | None = None,
    ) -> None:
        """Prepares it; with ``replica`` the lines of that one alone are read."""
        self.job, self.has_ended = job, False
        self._usage = UsageWatch(cluster, self._metadata["namespace"], pods_of(job))
        self._cluster = cluster
        self._limits = limits
        self._observers = observers
        self._stop = stop or Stop()
        self._replicas = Replicas(
            cluster,
            kind_of(job).container,
            observers,
            self._stop,
            count=expected_replicas(job),
            only=replica,
        )
        self._seen: queue.SimpleQueue[tuple[Resource, Change] | BaseException] = queue.SimpleQueue()
        self._phase, self._since = "", time.monotonic()
        self._queued_for, self._reason = "", ""
        self._waiting: set[str] = set()  # the replicas that the reason is about
        self._next_look = time.monotonic() + REASON_EVERY  # at first there is nothing odd in it
        self._all_started = False
        self._said = ""
        text = (job["metadata"].get("annotations") or {}).get(incidents.SEEN, "[]")
        self._failed = {
            (attempt.replica, attempt.ended): attempt for attempt in incidents.from_annotation(text)
        }

    def follow(self) -> dict[str, float]:
        """Follows the job until it ends; returns the seconds that each replica ran, by name."""
        self._watch(kind_of(self.job), fieldSelector=f"metadata.name={self._metadata['name']}")
        self._watch(PODS, labelSelector=pods_of(self.job))
        if self._replicas.only_leading:
            self._observers.state(ONLY_LEADING.format(self._metadata["name"]))
        try:
            while not (status := status_of(self.job)).state.ended:
                if self._stop.is_set():
                    return {}
                self._check(status)
                self._observers.tick(self)
                self._receive_all(TICK)
            self._drain()
            if status.state is State.FAILED:
                raise self._failure(status)
        except JobFailed as error:
            is_known = isinstance(error, StartAnew | Cancelled)
            failure = error if is_known else self._observers.explained(error)
            failure.replica_seconds = self._seconds()
            raise failure from None
        finally:
            self._stop.set()
            self.has_ended = True
            self._observers.tick(self)
        return self._seconds()

    @property
    def manifest(self) -> dict[str, Any]:
        """The job as it is there now."""
        return self.job

    @property
    def all_run(self) -> bool:
        """Whether all its replicas run."""
        replicas = list(self._replicas)
        expected = expected_replicas(self.job) or len(replicas)
        return sum(replica.is_running for replica in replicas) >= expected > 0

    @property
    def goes_on(self) -> bool:
        """Whether its replicas have been started, and none is about to be again."""
        running = self._running()
        still = all(replica.is_running or replica.is_over for replica in self._replicas)
        return self._phase == "running" and bool(running) and still

    @property
    def last_line(self) -> float:
        """When a replica that runs printed last, by the monotonic clock; 0: none has."""
        return max((replica.last_line for replica in self._running()), default=0.0)

    @property
    def began(self) -> float:
        """When the first of its replicas that run was started last, by the time of day."""
        return min((replica.began for replica in self._running()), default=0.0)

    def pids(self) -> dict[str, int]:
        """Returns no processes: they are on other machines."""
        return {}

    def lives(self) -> dict[str, Life]:
        """Returns what each replica has spent its time with, and what it used, by name."""
        if not self.has_ended and self._running() and (used := self._usage.look()):
            for replica in self._replicas:
                replica.has_used(used)
        created = pods.moment(self._metadata["creationTimestamp"])
        goes_on = not self.has_ended
        return {replica.name: replica.life(created, goes_on=goes_on) for replica in self._replicas}

    def activity(self, since: float) -> Activity:
        """Finds out, in seconds, what it does that has been silent since a time of day."""
        return activity.activity(self._cluster, self._running(), since)

    def stacks(self) -> dict[str, list[str]]:
        """Returns where the programs of its replicas stand, in lines, by name."""
        return activity.stacks(self._cluster, self._running())

    def show(self, replica: str, lines: Sequence[str]) -> None:
        """Shows lines about a replica among those that it prints."""
        for line in lines:
            self._observers.lines(replica, line)

    def _running(self) -> list[Replica]:
        return [replica for replica in self._replicas if replica.is_running]

    @property
    def _metadata(self) -> dict[str, Any]:
        return self.job["metadata"]

    def _watch(self, resource: Resource, **selectors: str) -> None:
        def follow() -> None:
            try:
                for change in changes(
                    self._cluster, resource, self._metadata["namespace"], self._stop, **selectors
                ):
                    self._seen.put((resource, change))
            except BaseException as error:
                self._seen.put(error)

        threading.Thread(target=follow, daemon=True).start()

    def _receive_all(self, seconds: float) -> None:
        """Waits that long for something that has been seen, and takes in what comes right after."""
        self._receive(seconds)
        # A look at all replicas for each change of one would be quadratic.
        until = time.monotonic() + min(TICK, len(self._replicas) * PER_REPLICA)
        while (left := until - time.monotonic()) > 0:
            self._receive(left)

    def _receive(self, seconds: float) -> None:
        """Takes in what has been seen, or waits that long for something."""
        try:
            item = self._seen.get(timeout=seconds)
        except queue.Empty:
            return
        if isinstance(item, BaseException):
            raise item
        resource, change = item
        if resource is PODS:
            if identity.is_of(change.object, self.job):
                self._replicas.update(change.object, change.gone)
        elif change.object["metadata"]["uid"] == self._metadata["uid"]:
            self.job = change.object
            if change.gone and not status_of(self.job).state.ended:
                self._metadata.setdefault("deletionTimestamp", "")

    def _check(self, status: Status) -> None:
        """Says what state the job is in, and ends the following where it is time to."""
        if status.state is State.DELETING:
            raise JobFailed(f"{self.job['kind']} {self._metadata['name']} was deleted while it ran")
        if status.state is State.CANCELLED:
            cancelled = Cancelled("the job was cancelled")
            cancelled.exit_status = JobFailed.exit_status  # by somebody else: no signal's
            raise cancelled
        replicas = list(self._replicas)
        expected = expected_replicas(self.job) or len(replicas)
        started = sum(replica.has_started for replica in replicas)
        self._all_started = status.state is not State.SUSPENDED and (
            self._all_started or started >= max(1, self._needed(expected))
        )
        self._look_for_reason(replicas)
        phase = self._phase_now(status)
        running = sum(replica.is_running for replica in replicas)
        if running >= expected > 0 or self._waiting & {
            replica.name for replica in replicas if replica.is_running
        }:
            self._reason = ""  # it is over; the next look finds that of another replica
        self._say(self._sentence(phase, status, f"{running} of {expected} replicas run"))
        self._check_limit(phase, replicas)
        if self._limits.retries:
            self._check_retries(replicas)

    def _sentence(self, phase: str, status: Status, count: str) -> str:
        if phase == "queued":
            return f"queued: {self._reason or 'it is suspended'}"
        if status.state is State.RESTARTING:
            phase, count = "restarting", status.message.rstrip(".") or count
        return f"{phase}: {count}" + (f"; {self._reason}" if self._reason else "")

    def _needed(self, expected: int) -> int:
        """Returns how many replicas have to run for the job to: fewer where it is elastic."""
        least = least_replicas(self.job)
        return expected if least is None else min(least, expected)

    def _look_for_reason(self, replicas: list[Replica]) -> None:
        if time.monotonic() < self._next_look:
            return
        self._next_look = time.monotonic() + REASON_EVERY
        idle = {replica.name: pod for replica in replicas if (pod := replica.held_up_by)}
        self._queued_for = ""
        suspended = is_suspended(self.job)  # also one that ran until Kueue gave its place away
        if suspended or not replicas:
            self._queued_for = reasons.why_queued(self._cluster, self.job, reasons.workload_of)
        self._reason, self._waiting = self._queued_for, set()
        lacking = len(replicas) < (expected_replicas(self.job) or 1)
        if not suspended and (idle or (lacking and not (self._queued_for or self._all_started))):
            reason = reasons.why_not_running(self._cluster, self.job, idle, lacking=lacking)
            self._reason, self._waiting = reason.words, reason.replicas
        if replicas and not self._all_started:
            self._reason = "; ".join(
                filter(None, [self._reason, reasons.gang_missing(self._cluster, self.job)])
            )

    def _phase_now(self, status: Status) -> str:
        phase = "starting"
        if self._all_started:
            phase = "running"
        elif status.state is State.SUSPENDED or self._queued_for:
            phase = "queued"
        if phase != self._phase:
            self._phase, self._since = phase, time.monotonic()
        return phase

    def _check_limit(self, phase: str, replicas: list[Replica]) -> None:
        limit: float | None = getattr(self._limits, phase, None)
        if limit is not None and time.monotonic() - self._since > limit:
            if not self._reason:
                self._next_look = 0.0
                self._look_for_reason(replicas)
            reason = f": {self._reason}" if self._reason else ""
            raise JobFailed(f"the job was {phase} for more than its limit of {limit:g} s{reason}")

    def _check_retries(self, replicas: list[Replica]) -> None:
        """Ends a job in which more has gone wrong than it may survive."""
        # Its operator counts something else: restarts of all replicas, and under ExitCode none, as
        # it makes new pods then (PastBackoffLimit in pkg/core/job.go of training operator 1.9).
        limit = _retries(self.job)
        if limit is None:
            return
        attempts = {
            (attempt.replica, attempt.ended): attempt
            for replica in replicas
            for attempt in replica.failed_attempts()
        }
        if attempts.keys() - self._failed.keys():
            self._failed = attempts | self._failed
            self._keep_failed()
        failed = self._failed.values()
        if incidents.incidents(failed) > limit and (culprit := self._replicas.culprit):
            words = f"replica {culprit.name} {culprit.last_failure.words}"
            words += incidents.after(limit) + culprit.cause()
            raise JobFailed(words, culprit.last_lines())

    def _keep_failed(self) -> None:
        """Leaves what has failed to who follows the job after this process."""
        annotations = {incidents.SEEN: incidents.to_annotation(self._failed.values())}
        with suppress(TriremeError):  # this user may not change jobs, or it is gone
            submission.patch(self._cluster, self.job, {"metadata": {"annotations": annotations}})

    def _say(self, sentence: str) -> None:
        if sentence != self._said:
            self._said = sentence
            self._observers.state(sentence)

    def _drain(self) -> None:
        """Waits until the pods have ended and all that they printed has been passed on."""
        while not self._seen.empty():
            self._receive(0)  # in its order, which a list does not tell
        if not self._replicas.are_over(expected_replicas(self.job) or 1):
            namespace, selector = self._metadata["namespace"], pods_of(self.job)
            for pod in self._cluster.items(PODS, namespace, labelSelector=selector):
                if identity.is_of(pod, self.job):
                    self._replicas.update(pod, gone=False)
        ended = time.monotonic()
        while not self._replicas.are_done(ended, DRAIN) and not self._stop.is_set():
            self._receive_all(0.1)
        self._replicas.give_up()

    def _failure(self, status: Status) -> JobFailed:
        culprit = self._replicas.culprit
        # v1 has one reason for all failures, and tells them apart in the message only.
        if (
            status.reason == "DeadlineExceeded"
            or "longer than specified deadline" in status.message
            or (culprit and culprit.last_failure.words.startswith(pods.TIME_LIMIT))
        ):
            first = next(iter(self._replicas), None)
            spec = self.job["spec"]
            limit = spec.get("runPolicy", spec).get("activeDeadlineSeconds")
            words = f"the job ran into its time limit of {limit} s"
            return TimeLimitReached(words, first.last_lines() if first else "")
        removed, stuck = self._replicas.removed(self._end()), self._replicas.stuck
        if removed:
            words = removed.taken or "was removed: its pod was deleted while it ran"
            replica = removed.replica
            failed = JobFailed if pods.is_over_its_limit(words) else ReplicaLost
            return failed(f"replica {replica.name} {words}", replica.last_lines_of(removed.uid))
        if culprit and stuck and culprit.last_failure.words.startswith(pods.NOT_STARTED):
            # Training operator 1.9 has workers wait for the master, in an init container.
            return JobFailed(f"replica {stuck.name} did not start: {stuck.stuck}")
        if culprit:
            words, detail = culprit.last_failure.words, culprit.last_lines()
            if culprit.lost_peer:
                # The operator removes the other pods at the first failure, which a replica that
                # takes longer to end than those it drags down does not live to report.
                words += " after it had lost a peer"
                detail = "\n".join([*self._last_lines_of_removed(), detail])
            failed = ReplicaLost if culprit.last_failure.is_lost else JobFailed
            return failed(f"replica {culprit.name} {words}{culprit.cause()}", detail)
        reason = status.message or status.reason or "its operator does not say why"
        return JobFailed(f"{self.job['kind']} {self._metadata['name']} failed: {reason}")

    def _last_lines_of_removed(self) -> list[str]:
        """Returns the last lines of replicas that nobody saw end."""
        return [
            line
            for replica in self._replicas
            if not replica.failures and not replica.lost_peer
            for line in replica.last_lines().splitlines()[-REMOVED_LINES:]
        ]

    def _seconds(self) -> dict[str, float]:
        end = self._end()
        return {replica.name: replica.seconds(end) for replica in self._replicas}

    def _end(self) -> datetime:
        status = self.job.get("status", {})
        times = [status.get("completionTime")] + [
            condition.get("lastTransitionTime")
            for condition in status.get("conditions") or []
            if condition["type"] in ("Complete", "Succeeded", "Failed")
        ]
        return next((pods.moment(time) for time in times if time), datetime.now(UTC))


def _retries(job: dict[str, Any]) -> int | None:
    """Returns how many incidents a job survives; ``None`` where its operator counts."""
    try:
        limit = incidents.allowed(job)
    except InputError:  # somebody else's
        return None
    if limit is not None:
        return limit
    spec = job["spec"]
    roles = (spec.get(kind_of(job).replicas) or {}).values()
    if roles and all(role.get("restartPolicy") == "ExitCode" for role in roles):
        return spec.get("runPolicy", {}).get("backoffLimit")  # which it does not count
    return None
