"""Kueue: whether it holds a job back that asks for one of its queues."""

from typing import Any

from trireme.errors import InputError
from trireme.frameworks import kind_of
from trireme.frameworks.kinds import QUEUE, TRAINJOB
from trireme.runner.cluster.status import is_suspended


def check_is_held(manifest: dict[str, Any], answered: dict[str, Any]) -> None:
    """Refuses a job that would start at once though it asks for a queue.

    Args:
        manifest: The job as it was sent.
        answered: The job as the API server would make it: Kueue's webhook suspends what it manages.
    """
    queue, kind = manifest["metadata"].get("labels", {}).get(QUEUE), kind_of(manifest)
    if not queue or is_suspended(answered):
        return
    # Kueue 0.19 manages no kind of the training operator unless its configuration says so.
    name = f"{kind.group}/{kind.name.lower()}"
    other = "" if kind == TRAINJOB else ", or give --operator trainer"
    raise InputError(
        f"scheduling.queue {queue!r}: Kueue does not hold back a {kind.name} here, so it would "
        "start at once, outside of every quota; install Kueue, or have it manage this namespace "
        f"and {name!r} (integrations.frameworks of its configuration){other}"
    )
