"""The activity of a job on a cluster that has been silent: its pods are asked."""

import re
from collections.abc import Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress

from trireme.files import event_files as events
from trireme.kubernetes import pod_exec
from trireme.kubernetes.connection import Cluster
from trireme.kubernetes.errors import Refused, Unavailable
from trireme.observers import hangs
from trireme.observers.base import Activity
from trireme.runner.cluster.replicas import Replica

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


def activity(cluster: Cluster, replicas: Sequence[Replica], since: float) -> Activity:
    """Looks what replicas do, and whether they have saved anything since a time of day."""
    try:
        used = _ask(cluster, replicas, _USE)
    except Unavailable:
        return Activity(works=True)  # the next question may be answered
    saved = max(_numbers(used.values(), "saved"), default=0)
    for name, lines in used.items():
        if not _numbers([lines], "cpu"):
            reason = " ".join(lines[-1:]) or "its control group does not tell"
            raise Refused(f"what replica {name} uses is not known: {reason}")
    works = (
        max(_numbers(used.values(), "cpu"), default=0) > hangs.BUSY * MEASURED * 1e6
        or max(_numbers(used.values(), "gpu"), default=0) > 0
        or saved > since
    )
    return Activity(works, saved)


def stacks(cluster: Cluster, replicas: Sequence[Replica]) -> dict[str, list[str]]:
    """Returns where the programs of replicas stand, in lines; nothing where nobody answers."""
    with suppress(Unavailable):  # that the job hangs is known all the same
        return _ask(cluster, replicas, _STACKS)
    return {}


def _ask(cluster: Cluster, replicas: Sequence[Replica], script: str) -> dict[str, list[str]]:
    def ask(replica: Replica) -> list[str]:
        command = ["sh", "-c", script, "sh", str(MEASURED), events.OF_CHECKPOINTS]
        output = pod_exec.output(cluster, replica.pod, replica.container, command, ANSWER_LIMIT)
        return [line for line in output.splitlines() if line.strip()]

    with ThreadPoolExecutor(AT_ONCE) as threads:
        lines = list(threads.map(ask, replicas))
    return {replica.name: output for replica, output in zip(replicas, lines, strict=True)}


def _numbers(answers: Iterable[list[str]], name: str) -> list[int]:
    """Returns the numbers that replicas gave for something."""
    matches = (re.fullmatch(rf"{name} (\d+)", line) for lines in answers for line in lines)
    return [int(match[1]) for match in matches if match]
