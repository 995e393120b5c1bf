"""Words for a person about what has been measured of a training."""

import math
from collections.abc import Iterator

from trireme.observers.advice.frames import COMMUNICATION, COMPUTE, DATA, KINDS
from trireme.observers.advice.measured import FEWEST, Measured
from trireme.observers.advice.suggestions import BOUND, MUCH_COMMUNICATION, MUCH_DATA

_BOUND_BY = {
    DATA: (MUCH_DATA, "its data come too slowly"),
    COMMUNICATION: (MUCH_COMMUNICATION, "its processes wait for each other"),
    COMPUTE: (BOUND, "it computes nearly all the time; faster or more processors make it faster"),
}


def about(measured: Measured) -> Iterator[str]:
    """Says how it was measured, and what GPUs did."""
    uses = measured.trainers.values()
    seconds = max((use.seconds for use in measured.replicas.values()), default=0.0)
    processes = sum(use.processes for use in uses)
    yield (
        f"{measured.looks} looks at {processes} {'process' if processes == 1 else 'processes'} "
        f"in {seconds:.0f} s; shares of time are estimates, mostly within {_error(measured)} points"
    )
    if measured.has_gpu:
        yield (
            "waiting for a GPU counts as computing in backward, where it may be communication, and "
            "as the rest where a result is read, as by item()"
        )
    for gpu in measured.gpus:
        yield f"GPU {gpu.name}: {gpu.busy:.0%} busy, {gpu.memory:.0%} of its memory in use"
    if measured.idle is not None:
        yield f"this machine's processors were idle {measured.idle:.0%} of the time"


def verdict(measured: Measured) -> str:
    """Says what the training is bound by."""
    if measured.looks < FEWEST:
        return f"{measured.looks} looks are too few to tell what it is bound by"
    busy = min((gpu.busy for gpu in measured.gpus), default=0.0)
    if busy >= BOUND:  # wherever the program waits for them, which its stacks seldom tell
        return f"bound by its GPUs, busy {busy:.0%} of the time: faster or more make it faster"
    shares = {kind: measured.share(kind) for kind in KINDS}
    over = [kind for kind, (least, _) in _BOUND_BY.items() if shares[kind] >= least]
    if not over:
        return "it is bound by nothing in particular"
    most = max(over, key=lambda kind: shares[kind] - _BOUND_BY[kind][0])
    return f"bound by {most}, {shares[most]:.0%} of the time: {_BOUND_BY[most][1]}"


def _error(measured: Measured) -> int:
    """Returns how many points a share may be off, by how many looks there were."""
    # Two standard errors of a share of a half; looks at several processes hang together.
    processes = sum(use.processes for use in measured.trainers.values())
    return math.ceil(100 / math.sqrt(max(1, measured.looks / max(1, processes))))
