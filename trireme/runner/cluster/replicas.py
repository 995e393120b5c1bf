"""The replicas of a job that is followed: their pods, their logs, and how they ended."""

import threading
import time
from collections import Counter, deque
from collections.abc import Iterator
from dataclasses import replace
from datetime import datetime, timedelta
from functools import partial
from typing import Any, NamedTuple

from trireme.kubernetes import pods
from trireme.kubernetes.connection import Cluster
from trireme.kubernetes.pod_log import PodLog
from trireme.kubernetes.pods import Failure, Span
from trireme.kubernetes.streams import Stop
from trireme.observers.base import Observers
from trireme.observers.incidents import FailedAttempt
from trireme.observers.timeline import Attempt, Life, spans
from trireme.runner.cluster import identity
from trireme.runner.cluster.log_readers import LogReaders
from trireme.runner.cluster.usage import Found
from trireme.runner.cluster.usage_watch import UsageSum
from trireme.runner.failed_replica import KEPT, cause_of, is_peer_loss, last_lines

PEER_LOSS_WINDOW = timedelta(
    minutes=1
)  # after which one fails that does not say that it lost a peer

LINES_LATE = 3.0  # seconds after the news of an end for its last lines to come


class Removal(NamedTuple):
    """That a pod was deleted, or taken from its node, while it ran.

    Attributes:
        heard: When that was heard, by the monotonic clock: moments are whole seconds.
        taken: How it was taken from its node; empty where it was only deleted.
    """

    replica: "Replica"
    uid: str
    at: datetime
    heard: float
    taken: str

    @property
    def rank(self) -> tuple[datetime, bool, float]:
        """What they are ordered by: of one second that first for which others are deleted."""
        return self.at, not self.taken, self.heard

    def is_before(self, failure: Failure, heard: float) -> bool:
        """Tells whether a failure that was heard then came later; in one second after a taking."""
        return (self.at, 0.0 if self.taken else self.heard) < (failure.at, heard)


class Replica:
    """One replica, through all its pods.

    Attributes:
        failures: How it failed, by pod and start.
        removals: The removals of pods of it, by their uids.
        stuck: Why it has not started, in the cluster's words; empty where nothing holds it up.
        last_line: When its last line came, by the monotonic clock; 0: none has.
    """

    def __init__(self, name: str, container: str) -> None:
        self.name = name
        self.failures: dict[tuple[str, str], Failure] = {}
        self.removals: dict[str, Removal] = {}
        self._heard: dict[tuple[str, str], float] = {}
        self.stuck = ""
        self.last_line = 0.0
        self._lost_peer: dict[str, list[bool]] = {}  # each start of a pod but the present one
        self._spans: dict[tuple[str, datetime], Span] = {}
        self._used = UsageSum()
        self._placed: float | None = None  # when its first pod got a node
        self._pulls: dict[str, tuple[float, float]] = {}  # by pod
        self._pod: dict[str, Any] = {}
        self._gone = False
        self._lost: dict[str, dict[str, Any]] = {}  # its pods whose nodes are, by uid
        self._container = container
        self._lock = threading.Lock()
        self._tail: deque[tuple[str, str]] = deque(maxlen=KEPT)

    def update(self, pod: dict[str, Any], gone: bool) -> None:
        """Takes in how one of its pods is now."""
        uid, container = pod["metadata"]["uid"], identity.main_container(pod, self._container)
        if self._placed is None and (placed := pods.scheduled(pod)):
            self._placed = placed.timestamp()
        if pull := pods.pull(pod, container):
            self._pulls[uid] = pull[0].timestamp(), pull[1].timestamp()
        if not self._pod or _age(pod) >= _age(self._pod):
            self._pod, self._gone = pod, gone
        if pods.lost_node(pod) and not gone:
            self._lost[uid] = pod
        else:
            self._lost.pop(uid, None)
        for span in pods.spans(pod, container).values():
            self._spans[uid, span.started] = span
        failure, deleted_at = pods.failure(pod, container), pods.removal(pod)
        if not (deleted_at or gone):  # of one that goes the kubelet does not say what it waited for
            started = pods.has_started(pod, container)
            self.stuck = "" if started else pods.waiting_reason(pod) or self.stuck
        times = [deleted_at] if deleted_at else []
        if failure and failure.taken and pods.ran_last(pod, container):
            times.append(failure.at)
        if times:
            removal = Removal(self, uid, min(times), time.monotonic(), pods.taken_away(pod))
            self.removals.setdefault(uid, removal)
        if failure:
            start = uid, failure.start
            self.failures[start] = failure
            self._heard.setdefault(start, time.monotonic())

    @property
    def has_started(self) -> bool:
        """Whether its container runs or has run, in its present pod."""
        started = (
            pods.has_started(self._pod, self.container)
            or pods.restarts(self._pod, self.container) > 0
        )
        return started and not self._gone

    @property
    def has_printed(self) -> bool:
        """Whether it can have printed anything: a pod of it has run."""
        return bool(self._spans)

    @property
    def is_running(self) -> bool:
        """Whether its container runs, as far as its node answers."""
        return pods.is_running(self._pod, self.container) and not self._gone

    @property
    def began(self) -> float:
        """When it was started last, by the time of day; 0 where it has not been."""
        return max((span.started.timestamp() for span in self._spans.values()), default=0.0)

    @property
    def is_over(self) -> bool:
        """Whether nothing of it runs or will, as far as its present pod tells."""
        return self._gone or pods.is_over(self._pod)

    @property
    def pod(self) -> dict[str, Any]:
        """Its present pod."""
        return self._pod

    @property
    def held_up_by(self) -> dict[str, Any]:
        """Its pod that does not run, or that keeps the job from its end; empty where none does."""
        if self.is_over:  # but not a pod of it before, which may run on where it is lost
            return next(iter(self._lost.values()), {})
        return {} if self.is_running else self._pod

    @property
    def container(self) -> str:
        """The container of that pod which its program runs in."""
        return identity.main_container(self._pod, self._container)

    def failed_attempts(self) -> list[FailedAttempt]:
        """Returns its failures but those of its node or of whoever ended its pod."""
        # Its last lines may come after the news of its end.
        heard_before = time.monotonic() - LINES_LATE
        attempts, starts_of_pods = [], Counter[str]()
        for start, failure in sorted(self.failures.items(), key=lambda item: item[1].at):
            uid, number = start[0], starts_of_pods[start[0]]
            starts_of_pods[uid] += 1
            if failure.is_lost or failure.stopped or self._heard[start] > heard_before:
                continue
            began, ended = _began(failure).timestamp(), failure.at.timestamp()
            lost_peer = partial(self._said_lost_peer, uid, number)
            attempts.append(FailedAttempt(self.name, began, ended, lost_peer))
        return attempts

    def _said_lost_peer(self, uid: str, number: int) -> bool:
        before = self._lost_peer.get(uid, [])
        return before[number] if number < len(before) else is_peer_loss(self._lines_of(uid))

    def seconds(self, end: datetime) -> float:
        """Returns how long it ran, until ``end`` where no end of a container was seen."""
        return sum(
            max(0.0, ((span.finished or end) - span.started).total_seconds())
            for span in self._spans.values()
        )

    def has_used(self, used_by_containers: Found) -> None:
        """Takes in what its present pod uses, where that is among what containers use."""
        used = used_by_containers.get((self._pod["metadata"]["name"], self.container))
        if used and self._spans:
            self._used.add(used, max(span.started for span in self._spans.values()))

    def life(self, created: datetime, *, goes_on: bool) -> Life:
        """Returns what it has spent its time with, since its job was made, and what it used."""
        attempts = [
            Attempt(
                span.started.timestamp(),
                span.finished.timestamp() if span.finished else None,
                self._failed(uid, span),
            )
            for (uid, _), span in sorted(self._spans.items(), key=lambda entry: entry[1].started)
        ]
        goes_on = goes_on and not self.is_over
        life = Life(spans(created.timestamp(), attempts, placed=self._placed, goes_on=goes_on))
        worked = self._used.cpu_seconds(life.ran)
        pulls = (*self._pulls.values(),)
        return replace(life, cpu_seconds=worked, peak_memory=self._used.peak, pulls=pulls)

    def _failed(self, uid: str, span: Span) -> str:
        """Says how a start of it failed; empty where it did not, or was ended with its pod."""
        failures = [failure for (of, _), failure in self.failures.items() if of == uid]
        words = (
            failure.words
            for failure in failures
            if not failure.stopped and failure.at == span.finished
        )
        return next(words, "")

    def restarted(self, uid: str) -> None:
        """Forgets what a pod of it printed before its restart."""
        with self._lock:
            lines = [line for of, line in self._tail if of == uid]
            self._tail.clear()
        self._lost_peer.setdefault(uid, []).append(is_peer_loss(lines))

    def add_line(self, uid: str, line: str) -> None:
        """Takes in a line that one of its pods printed."""
        self.last_line = time.monotonic()
        with self._lock:
            self._tail.append((uid, line))

    def last_lines(self) -> str:
        """Returns the last lines of its pod that failed last, or of its present one."""
        return last_lines(self.name, self._lines())

    def cause(self) -> str:
        """Returns what its program's last lines add to how it failed last."""
        return cause_of(self.last_failure.exit_status, self._lines())

    def last_lines_of(self, uid: str) -> str:
        """Returns the last lines of a pod of it."""
        return last_lines(self.name, self._lines_of(uid))

    def removed_before(self, other: "Replica") -> list[Removal]:
        """Returns the removals that another one, the first to fail, may have failed for."""
        failure, failure_start = other.last_failure, other.failure_start
        if not (failure.stopped or other.lost_peer):
            failure_start = max(failure_start, failure.at - PEER_LOSS_WINDOW)
        heard = other._heard[other._last_start()]
        return [
            removal
            for removal in self.removals.values()
            if failure_start <= removal.at and removal.is_before(failure, heard)
        ]

    def innocence(self) -> tuple[bool, bool, bool, datetime]:
        """Returns what the failed replicas are ordered by: the cause comes first."""
        failure = self.last_failure
        # One that runs has survived what it failed with before, also where its node is lost, unless
        # it was taken from that.
        runs = pods.ran_last(self._pod, self.container) and not self._gone
        is_lost = pods.lost_node(self._pod) and pods.taken_away(self._pod)
        has_succeeded = self._pod.get("status", {}).get("phase") == "Succeeded"
        is_well = has_succeeded or (runs and not is_lost)
        return is_well, failure.stopped, self.lost_peer, failure.at

    @property
    def lost_peer(self) -> bool:
        """Whether it says that another replica was gone, and was not itself taken."""
        return not (self.failures and self.last_failure.taken) and is_peer_loss(self._lines())

    @property
    def last_failure(self) -> Failure:
        """How it failed last."""
        return self.failures[self._last_start()]

    @property
    def failure_start(self) -> datetime:
        """When the start of it began that failed last, as far as that is known."""
        return _began(self.last_failure)

    def _last_start(self) -> tuple[str, str]:
        """Returns the start of it that failed last; of two in one second, the one seen later."""
        return max(reversed(self.failures), key=lambda start: self.failures[start].at)

    def _lines(self) -> list[str]:
        return self._lines_of(
            self._last_start()[0] if self.failures else self._pod["metadata"]["uid"]
        )

    def _lines_of(self, uid: str) -> list[str]:
        with self._lock:
            return [line for of, line in self._tail if of == uid]


class Replicas:
    """All replicas of a job, with the logs of their pods."""

    def __init__(
        self,
        cluster: Cluster,
        container: str,
        observers: Observers,
        stop: Stop,
        *,
        count: int,
        follow: bool = True,
        only: str = "",
    ) -> None:
        """Starts with none; they come with their pods. With ``follow`` logs are waited for.

        Args:
            count: How many there will be, as far as that is known.
            only: The one whose log is read; empty for all.
        """
        self._cluster = cluster
        self._container = container
        self._observers = observers
        self._stop = stop
        self._only = only
        self._by_name: dict[str, Replica] = {}
        self._logs = LogReaders(stop, 1 if only else count, follow=follow)

    @property
    def only_leading(self) -> bool:
        """Whether only the logs of leading ones are read as they grow."""
        return self._logs.only_leading

    def __iter__(self) -> Iterator[Replica]:
        """Iterates over the replicas, by name."""
        return iter([self._by_name[name] for name in sorted(self._by_name)])

    def __len__(self) -> int:
        """Returns how many there are."""
        return len(self._by_name)

    def update(self, pod: dict[str, Any], gone: bool) -> None:
        """Takes in how a pod is now."""
        name, uid = identity.replica_name(pod), pod["metadata"]["uid"]
        replica = self._by_name.setdefault(name, Replica(name, self._container))
        replica.update(pod, gone)
        log = self._logs.get(uid)
        if log:
            self._logs.update(log, pod, gone)
        elif not gone and self._only in ("", name):
            self._logs.add(uid, self._log_of(replica, pod))

    def are_over(self, count: int) -> bool:
        """Tells whether so many are there, and nothing of any runs."""
        return len(self) >= count and all(replica.is_over for replica in self._by_name.values())

    def are_done(self, since: float, patience: float) -> bool:
        """Tells whether nothing more is to come after the job's end, in some patience."""
        now = time.monotonic()
        if not self.are_over(0) and now < since + patience:
            return False
        is_read = not any(log.is_over for log in self._logs.unread())
        return is_read or now >= max(since, self._logs.quiet_since()) + patience

    def give_up(self) -> None:
        """Says of which replicas not all that they print will be passed on."""
        for log in self._logs.unread():
            if self._by_name[log.name].has_printed:
                reason = "nothing more came" if log.is_over else "its pod outlives the job"
                self._observers.lines(log.name, f"(the rest of the log is not read: {reason})")

    def wait_for_logs(self) -> None:
        """Waits until all that was to be read has been passed on."""
        self._logs.join()

    @property
    def culprit(self) -> Replica | None:
        """The one that failed first by its own fault; ``None`` where none has failed."""
        failed = [replica for replica in self._by_name.values() if replica.failures]
        return min(failed, key=Replica.innocence, default=None)

    def removed(self, end: datetime) -> Removal | None:
        """Returns the removal of a pod for which others failed, or ``None``."""
        # The training operator 1.9 takes a pod that is being deleted for one that has failed
        # (pkg/core/status.go), and then deletes the others: what tells is what came first.
        culprit = self.culprit
        removals = (
            removal
            for replica in self._by_name.values()
            for removal in (
                replica.removed_before(culprit) if culprit else replica.removals.values()
            )
            if removal.at <= end
        )
        return min(removals, key=lambda removal: removal.rank, default=None)

    @property
    def stuck(self) -> Replica | None:
        """One that could not start; ``None`` where there is none."""
        return next((replica for replica in self if replica.stuck), None)

    def _log_of(self, replica: Replica, pod: dict[str, Any]) -> PodLog:
        uid = pod["metadata"]["uid"]

        def add_line(line: str) -> None:
            replica.add_line(uid, line)
            self._observers.lines(replica.name, line)

        container = identity.main_container(pod, self._container)
        log = PodLog(
            self._cluster,
            pod,
            container,
            add_line,
            partial(replica.restarted, uid),
            self._stop,
            self._logs.follows(replica.name),
            is_watched=self.only_leading,
        )
        log.name = replica.name
        return log


def _began(failure: Failure) -> datetime:
    """Returns when the start of a replica began that failed, as far as that is known."""
    return failure.began or failure.at - PEER_LOSS_WINDOW


def _age(pod: dict[str, Any]) -> str:
    return str(pod["metadata"].get("creationTimestamp", ""))
