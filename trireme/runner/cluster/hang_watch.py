"""Looking whether a job on a cluster hangs."""

import re
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from functools import partial
from types import MappingProxyType
from typing import Any, NamedTuple

from trireme.errors import JobFailed, TriremeError
from trireme.files import event_files as events
from trireme.kubernetes import pod_exec
from trireme.kubernetes.background import Background
from trireme.kubernetes.connection import Cluster
from trireme.kubernetes.errors import Refused, Unavailable
from trireme.observers import hangs
from trireme.runner.cluster.replicas import Replica
from trireme.runner.failed_replica import last_lines

MEASURED = 10  # seconds over which a replica's use of processors is measured
ANSWER_LIMIT = 60.0  # seconds that a replica has for an answer
AT_ONCE = 8  # replicas that are asked at the same time

# What every image has, so that it also works in those that know nothing of us.
_USE = """
cpu() {
    sed -n 's/^usage_usec //p' /sys/fs/cgroup/cpu.stat 2>/dev/null | grep . && return
    used=$(cat /sys/fs/cgroup/cpuacct/cpuacct.usage) && echo $((used / 1000))
}
before=$(cpu) && sleep "$1" && after=$(cpu) && echo "cpu $((after - before))"
nvidia-smi --query-gpu=utilization.gpu --format=csv,noheader,nounits 2>/dev/null | sed 's/^/gpu /'
[ -d "$CHECKPOINT_DIR" ] && find "$CHECKPOINT_DIR" -maxdepth 4 -type f \\
    ! -path "*/$2/*" -exec stat -c 'saved %Y' {} + | sort -n -k 2 | tail -n 1
"""
_STACKS = """
spy=$(command -v py-spy)
[ "$spy" ] || echo '(py-spy, which tells where a program stands, is not in this image)'
for process in /proc/[0-9]*; do
    case "$spy $(readlink "$process/exe")" in
        /*python*) timeout 10 "$spy" dump --nonblocking --pid "${process#/proc/}" 2>&1 ;;
    esac
done
"""


class Hang(NamedTuple):
    """A job that hangs.

    Attributes:
        sentence: Since when, in words.
        stacks: Where each replica stands, in lines, by name.
        saved: When its newest checkpoint was written, by the clock of its volume; 0: there is none.
    """

    sentence: str
    stacks: Mapping[str, list[str]]
    saved: int


class Hung(JobFailed):
    """A job hangs which is not to go on then."""

    def __init__(self, hang: Hang) -> None:
        name, lines = next(iter(hang.stacks.items()), ("", []))
        super().__init__(f"the job hangs: {hang.sentence}", last_lines(name, lines))
        self.saved = hang.saved


class HangWatch:
    """A job that is watched; its pods are asked only where its lines have stayed away too long."""

    def __init__(
        self, cluster: Cluster, job: Mapping[str, Any], on_hang: Callable[[str], None]
    ) -> None:
        """Starts to watch; ``on_hang`` is called with a sentence when the job hangs."""
        self.answer = hangs.answer(job)
        self._cluster, self._on_hang = cluster, on_hang
        self._restarts, self._saved = 0, 0
        self._is_blind = False
        self.start_anew()

    def start_anew(self) -> None:
        """Takes in that the job does not run, or not as it did."""
        self._rhythm = hangs.Rhythm(time.monotonic())
        self._told = False
        self._question: Background[_Seen] | None = None

    def restart(self, hung: Hung) -> None:
        """Takes in that the job is made anew; raises why not, where it is not to be."""
        if self.answer != "restart":
            raise hung
        if hung.saved > self._saved:  # only progress gives it more of them
            self._restarts, self._saved = 0, hung.saved
        if self._restarts == hangs.RESTARTS:
            again = f", after {self._restarts} restarts without a new checkpoint"
            failed = JobFailed(f"{hung}{again}", hung.detail)
            failed.replica_seconds = hung.replica_seconds
            raise failed
        self._restarts += 1
        self.start_anew()

    def look(self, running: Sequence[Replica]) -> Hang | None:
        """Tells, once, that the job hangs; ``None`` where it does not, or that is not known yet.

        Args:
            running: Its replicas that run, where no other is about to.

        Raises:
            TriremeError: It cannot be found out, said once.
        """
        now = time.monotonic()
        self._rhythm.heard(max(replica.last_line for replica in running))
        silence = self._rhythm.silence(now)
        if silence is None:
            self._told, self._question = False, None
        if silence is None or self._told or self._is_blind:
            return None
        if not self._question:
            look = partial(_look, self._cluster, running, time.time() - silence)
            self._question = Background(look)
        if not self._question.is_done:
            return None
        question, self._question = self._question, None
        try:
            seen = question.answer()
        except Unavailable:
            seen = _Seen(works=True)  # the next question may be answered
        except TriremeError:
            self._is_blind = True
            raise
        if seen.works:
            self._rhythm.worked(now)
            return None
        self._told = True
        said = hangs.sentence(silence)
        self._on_hang(said)
        return Hang(said, seen.stacks, seen.saved)


class _Seen(NamedTuple):
    """What replicas do that have been silent.

    Attributes:
        works: Whether any works or has saved something meanwhile, or may have.
        stacks: Where each of them stands, if none does.
        saved: When its newest checkpoint was written; 0: there is none.
    """

    works: bool
    stacks: Mapping[str, list[str]] = MappingProxyType({})
    saved: int = 0


def _look(cluster: Cluster, replicas: Sequence[Replica], since: float) -> _Seen:
    """Looks what replicas do that have been silent since a time of day."""
    used = _ask(cluster, replicas, _USE)
    saved = max(_numbers(used.values(), "saved"), default=0)
    for name, lines in used.items():
        if not _numbers([lines], "cpu"):
            why = " ".join(lines[-1:]) or "its control group does not tell"
            raise Refused(f"what replica {name} uses is not known: {why}")
    works = (
        max(_numbers(used.values(), "cpu")) > hangs.BUSY * MEASURED * 1e6
        or max(_numbers(used.values(), "gpu"), default=0) > 0
        or saved > since
    )
    stacks: dict[str, list[str]] = {}
    if not works:
        with suppress(Unavailable):  # that it hangs is known all the same
            stacks = _ask(cluster, replicas, _STACKS)
    return _Seen(works, stacks, saved)


def _ask(cluster: Cluster, replicas: Sequence[Replica], script: str) -> dict[str, list[str]]:
    def ask(replica: Replica) -> list[str]:
        command = ["sh", "-c", script, "sh", str(MEASURED), events.OF_CHECKPOINTS]
        said = pod_exec.output(cluster, replica.pod, replica.container, command, ANSWER_LIMIT)
        return [line for line in said.splitlines() if line.strip()]

    with ThreadPoolExecutor(AT_ONCE) as threads:
        lines = list(threads.map(ask, replicas))
    return {replica.name: said for replica, said in zip(replicas, lines, strict=True)}


def _numbers(answers: Iterable[list[str]], name: str) -> list[int]:
    """Returns the numbers that replicas gave for something."""
    found = (re.fullmatch(rf"{name} (\d+)", line) for lines in answers for line in lines)
    return [int(match[1]) for match in found if match]
