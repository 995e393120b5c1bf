"""Following a pod's log: through restarts and broken connections, with no line lost or doubled."""

import math
import threading
import time
from collections.abc import Callable
from typing import Any

from urllib3 import BaseHTTPResponse
from urllib3.exceptions import HTTPError

from trireme.kubernetes import pods
from trireme.kubernetes.connection import Cluster, Query
from trireme.kubernetes.errors import Invalid, NotFound, Unavailable
from trireme.kubernetes.log_position import Position, Stamp, is_of_the_kubelet, split
from trireme.kubernetes.resources import PODS
from trireme.kubernetes.streams import Stop, lines, shut
from trireme.process.patience import Pauses

LINE_LIMIT = 64 * 1024  # bytes after which a line is cut
SILENCE = 300.0  # seconds without a line after which the connection is made anew


class PodLog(threading.Thread):
    """Follows the log of a pod's main container through all its starts, until the pod is over."""

    def __init__(
        self,
        cluster: Cluster,
        pod: dict[str, Any],
        container: str,
        on_line: Callable[[str], None],
        on_start: Callable[[], None],
        stop: Stop,
        follow: bool = True,
        *,
        is_watched: bool = False,
    ) -> None:
        """Prepares the thread; ``start`` starts it.

        Args:
            on_start: Called before the first line of each start of the container.
            follow: Wait for what is still to come; otherwise each ``run`` reads what there is then.
            is_watched: Whether ``update`` tells when the pod is gone, so that it is not asked for
                each time that its log is.
        """
        super().__init__(daemon=True)
        self._cluster = cluster
        self._pod = pod
        self._container = container
        self._on_line = on_line
        self._on_start = on_start
        self._stop_all = stop
        self.follow, self._is_watched = follow, is_watched
        self._gone = False
        self._changed = threading.Event()
        self._position = Position()
        self._old: Position | None = None
        self._start = self._restarts()
        if "terminated" in pods.container_status(pod, container).get("lastState", {}):
            self._start -= 1  # of the one before it the log is still there
        self._is_done = False
        self._read_to_its_end = False
        self._followed: BaseHTTPResponse | None = None
        self._quiet_since = time.monotonic()

    @property
    def is_over(self) -> bool:
        """Whether the pod prints no more."""
        return self._gone or pods.is_over(self._pod)

    @property
    def is_done(self) -> bool:
        """Whether all that is to come of it has been passed on, or will not be."""
        return self._is_done

    @property
    def reasons(self) -> tuple[int, bool, bool, bool]:
        """What there is to read it for, where it is not followed: another is another reason."""
        ended = pods.has_ended(self._pod, self._container)
        return self._restarts(), ended, bool(pods.removal(self._pod)), self.is_over

    @property
    def quiet_since(self) -> float:
        """When it was read last, by the monotonic clock; infinite while a line is passed on."""
        return self._quiet_since

    def update(self, pod: dict[str, Any], gone: bool) -> None:
        """Tells how the pod is now."""
        self._pod, self._gone = pod, self._gone or gone
        self._changed.set()
        followed = self._followed
        if followed and self.has_restarted:
            # It may be the log of the new start already, while the old one is not read whole.
            shut(followed)

    def run(self) -> None:
        """Does the following; to be called by ``start``, or in whatever thread without it."""
        is_last = self.follow or self.is_over
        try:
            self._read_all()
        except NotFound:
            if not (self.follow or self._read_to_its_end):
                self._say_lost("its pod was removed")
        except Exception as error:  # also a fault of ours
            self._say_lost(str(error))
        self._quiet_since, self._is_done = time.monotonic(), is_last

    def _say_lost(self, reason: str) -> None:
        if not self._stop_all.is_set():
            subject = "the rest of the log" if self._position.last else "the log"
            self._on_line(f"({subject} cannot be read: {reason})")

    def _read_all(self) -> None:
        """Reads until the pod is over and nothing is left to read."""
        pauses = Pauses()
        while not self._stop_all.is_set():
            self._changed.clear()
            over = self.is_over or not self.follow
            before = self._position.since
            try:
                if self.has_restarted:
                    self._finish_previous()
                    continue
                if not self._read_to_its_end and pods.has_started(self._pod, self._container):
                    ended = self._gone or pods.has_ended(self._pod, self._container)
                    self._read_present(follow=self.follow and not ended)
                    self._read_to_its_end = ended
                if over:
                    return
            except Invalid as error:
                # It is not there yet, or no longer. Who has seen it grow has what it said.
                if over:
                    has_grown = self.follow and self._position.last
                    if not has_grown and pods.has_started(self._pod, self._container):
                        self._say_lost(str(error))
                    return
            except Unavailable:
                # The node may be back later; that the API server is away others notice.
                if over:
                    raise
            except HTTPError:
                pass
            # What ended was the connection or the container: its status will tell.
            if self._position.since != before:
                pauses.start_anew()
            self._changed.wait(pauses.take())

    def _restarts(self) -> int:
        return pods.restarts(self._pod, self._container)

    @property
    def has_restarted(self) -> bool:
        """Whether its container has been started again since the start that is being read."""
        return self._restarts() > self._start

    def _read_present(self, follow: bool) -> None:
        """Goes on with the log of the present start."""
        # The container may have been restarted without our knowing yet: then the line that was read
        # last does not come again, and what comes is the log of the new start.
        last, is_new = self._position.last, self._position.resumed()
        at_first = True

        def is_missing(stamp: Stamp) -> bool:
            nonlocal at_first, is_new
            if at_first and last and stamp > last:
                self._old, self._position = self._position, Position()
                is_new = self._position.resumed()
            at_first = False
            return is_new(stamp)

        try:
            self._read(self._position.since, is_missing, follow=follow)
        finally:
            self._followed = None

    def _finish_previous(self) -> None:
        """Reads what is left of the start before the present one, and turns to that."""
        # What was read last may be of the present start already; then that is not read again.
        ahead = self._position if self._old or self._may_be_ahead() else None
        was_read = ahead.resumed() if ahead else None
        previous = self._old or (Position() if ahead else self._position)
        is_old = not ahead

        def is_missing(stamp: Stamp) -> bool:
            nonlocal is_old
            if was_read is None or (ahead and ahead.first and stamp < ahead.first):
                return True
            is_old = True  # what was read last was the old one after all
            return was_read(stamp)

        self._read_previous(previous, is_missing)
        if is_old:
            self._position = Position()
            self._on_start()
        self._old = None
        self._start = self._restarts()
        self._read_to_its_end = False

    def _read_previous(self, position: Position, is_missing: Callable[[Stamp], bool]) -> None:
        """Reads the log of the start before the present one to its end, if it is still there."""
        while not self._stop_all.is_set():
            is_new = position.resumed()
            try:
                self._read(
                    position.since,
                    lambda stamp, is_new=is_new: is_new(stamp) and is_missing(stamp),  # type: ignore[misc]
                    previous=True,
                )
                return
            except Invalid:
                return
            except HTTPError:
                self._stop_all.wait(Pauses().take())

    def _may_be_ahead(self) -> bool:
        """Tells whether what was read last may be of the present start already."""
        span = pods.spans(self._pod, self._container).get(self._restarts())
        first = self._position.first
        return bool(span and first and first.moment >= span.started)

    def _read(
        self,
        since: str,
        is_new: Callable[[Stamp], bool],
        *,
        previous: bool = False,
        follow: bool = False,
    ) -> None:
        """Passes on the new lines of one answer."""
        query: Query = [("container", self._container), ("timestamps", "true")]
        if follow:
            query.append(("follow", "true"))
        if previous:
            query.append(("previous", "true"))
        if since:
            query.append(("sinceTime", since))
        metadata = self._pod["metadata"]
        path = PODS.path(metadata["namespace"], metadata["name"], "log")
        response = self._cluster.stream(PODS, path, query, self._stop_all, SILENCE)
        stamp: Stamp | None = None
        with self._stop_all.reading(response):
            if not self._is_watched:
                self._check_identity()
            if follow:
                self._followed = response
                if self.has_restarted:
                    return
            for raw in lines(response, LINE_LIMIT):
                if is_of_the_kubelet(raw):
                    raise Invalid(raw.decode(errors="replace"))
                self._quiet_since = math.inf  # however long the listener takes
                stamp, line = split(raw, stamp)
                if stamp is None or is_new(stamp):
                    # A progress bar rewrites its line: what a person would see is its end.
                    text = line.decode(errors="replace").rstrip("\r")
                    self._on_line(text.rpartition("\r")[2])
                self._quiet_since = time.monotonic()

    def _check_identity(self) -> None:
        """Checks that the log that was opened is not that of a later pod of the same name."""
        metadata = self._pod["metadata"]
        listing = self._cluster.list(
            PODS,
            metadata["namespace"],
            stop=self._stop_all,
            fieldSelector=f"metadata.name={metadata['name']}",
        )
        # If none is there any more, what was opened before is still this one's.
        if any(pod["metadata"]["uid"] != metadata["uid"] for pod in listing.get("items") or []):
            raise NotFound(f"pod {metadata['name']} is gone")
