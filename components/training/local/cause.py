"""What to say of a job that failed: the replica that caused it, and its last lines."""

from collections.abc import Iterable

from trireme.components.errors import JobFailed, exit_in_words
from trireme.components.training.blame import dragged_down, last_lines
from trireme.components.training.local import mpi
from trireme.components.training.local.replica import Failure, Replica

EPISODE = 30.0  # seconds before the last failure in which others belong to the same trouble


def failed(replicas: Iterable[Replica], why: str = "") -> JobFailed:
    """Returns what has become of a job.

    Args:
        replicas: All its replicas, of which at least one has failed.
        why: What is to be added to the sentence.
    """
    failures = [replica.failure for replica in replicas if replica.failure]
    last = max(failure.ended for failure in failures)

    def innocence(failure: Failure) -> tuple[bool, bool, float]:
        old = failure.ended < last - EPISODE
        return dragged_down(failure.lines), old, failure.ended

    cause = min(failures, key=innocence)
    launcher = cause.replica.startswith("launcher")
    rank, lines = mpi.failed_rank(cause.lines) if launcher else (None, cause.lines)
    what = f"replica {cause.replica}" if rank is None else f"rank {rank} of {cause.replica}"
    # mpirun has exit statuses of its own above 128, which stand for no signal.
    ended = f"exited with status {cause.status}" if launcher else exit_in_words(cause.status)
    return JobFailed(f"{what} {ended}{why}", last_lines(cause.replica, lines))
