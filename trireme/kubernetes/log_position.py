"""The position up to which a container's log has been read, to go on from where it broke off."""

import re
from collections.abc import Callable
from datetime import datetime
from typing import NamedTuple

# The kubelet writes it before every line, to the nanosecond and always in the same time zone.
_STAMP = re.compile(rb"(\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d)(?:\.(\d+))?(Z|[+-]\d\d:\d\d) ")

# What a kubelet says in a log that it fails to read: its answer has begun, there is no other place
# (Kubernetes 1.36: GetContainerLogs in pkg/kubelet/kuberuntime, ReadLogs in cri-client/pkg/logs).
_OF_THE_KUBELET = re.compile(
    rb"unable to retrieve container logs for \S+://|"
    rb"failed to (try resolving symlinks in path|(open|read) log file|tail -?\d+ lines of log file|"
    rb"(re)?seek -?\d+ in log file|reset seek in log file|create fsnotify watcher|watch directory|"
    rb"watch file|get parse function)|"
    rb"rpc error: code = |container status is nil|context cancelled$"
)


class Stamp(NamedTuple):
    """When a line was printed; later ones compare as greater."""

    second: str
    fraction: str
    zone: str

    @property
    def moment(self) -> datetime:
        """The time, without its fraction."""
        return datetime.fromisoformat(self.second + self.zone)


def split(raw: bytes, before: Stamp | None) -> tuple[Stamp | None, bytes]:
    """Parts a line of a log from its time; the rest of a line that was cut has the time before."""
    match = _STAMP.match(raw)
    if not match:
        return before, raw
    fraction = (match[2] or b"").ljust(9, b"0")
    return Stamp(match[1].decode(), fraction.decode(), match[3].decode()), raw[match.end() :]


def is_of_the_kubelet(raw: bytes) -> bool:
    """Tells whether a line is the kubelet's, which has no time, and not the program's."""
    return bool(_OF_THE_KUBELET.match(raw))


class Position:
    """How far the log of one start of a container has been read, and the time of its first line."""

    # A log can be asked for from a whole second on, so what counts is how many lines of the last
    # second have been seen: these, and no more, come again.

    def __init__(self) -> None:
        self.first: Stamp | None = None
        self.last: Stamp | None = None
        self._seen = 0

    @property
    def since(self) -> str:
        """The second to read again from; empty for the beginning."""
        return self.last.second + self.last.zone if self.last else ""

    def resumed(self) -> Callable[[Stamp], bool]:
        """Returns what tells of the lines of one more answer, in turn, whether they are new."""
        to_skip, until = self._seen, self.last

        def is_new(stamp: Stamp) -> bool:
            nonlocal to_skip
            if until and to_skip and stamp <= until:
                to_skip -= stamp.second >= until.second
                return False
            self._advance(stamp)
            return True

        return is_new

    def _advance(self, stamp: Stamp) -> None:
        self.first = self.first or stamp
        if self.last is None or stamp.second > self.last.second:
            self._seen = 0
        if self.last is None or stamp > self.last:
            self.last = stamp
        # A line that comes late, of a second before, does not come again either.
        self._seen += stamp.second >= self.last.second
