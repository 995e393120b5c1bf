"""What to say of a job that failed: the replica that caused it, and its last lines."""

from collections.abc import Iterable

from trireme.components.errors import JobFailed
from trireme.components.training.failed_replica import is_peer_loss, last_lines
from trireme.components.training.frameworks.base import Framework
from trireme.components.training.incidents import EPISODE
from trireme.components.training.local.replica import Failure, Replica


def of_job(framework: Framework, replicas: Iterable[Replica], why: str = "") -> JobFailed:
    """Returns what has become of a job."""
    failures = [replica.failure for replica in replicas if replica.failure]
    last = max(failure.ended for failure in failures)

    def innocence(failure: Failure) -> tuple[bool, bool, float]:
        old = failure.ended < last - EPISODE
        return is_peer_loss(failure.lines), old, failure.ended

    cause = min(failures, key=innocence)
    words, lines = framework.explain_failure(cause.replica, cause.status, cause.lines)
    return JobFailed(f"{words}{cause.memory}{why}", last_lines(cause.replica, lines))
