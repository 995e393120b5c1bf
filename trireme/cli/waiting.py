"""``--for STATE``: wait for a run or a job, as scripts do."""

import time
from collections.abc import Callable, Collection
from typing import Annotated

import typer

from trireme.errors import InputError

ENDED = "ended"
EVERY = 1.0  # seconds between two looks

For = Annotated[
    str,
    typer.Option(
        "--for",
        metavar="STATE",
        help="Wait for a state, such as running, or ended for any end; the exit status is 1 if it "
        "ends otherwise.",
    ),
]
Timeout = Annotated[
    float | None,
    typer.Option(
        min=0, metavar="SECONDS", help="With --for: the longest wait; then the exit status is 124."
    ),
]


def wait(
    state_of: Callable[[], tuple[str, bool]],
    state_wanted: str,
    timeout: float | None,
    states: Collection[str],
) -> int:
    """Waits until something is in a state, or has ended; returns the command's exit status.

    Args:
        look: Returns its state now, and whether it has ended.
        wanted: Empty for no wait.
        states: Those that can be waited for, besides ``ended``.
    """
    if not state_wanted:
        if timeout is not None:
            raise InputError(f"--timeout {timeout:g}: goes with --for")
        return 0
    accepted = [ENDED, *states]
    if state_wanted.lower() not in map(str.lower, accepted):
        raise InputError(f"--for {state_wanted!r}: must be one of {', '.join(accepted)}")
    limit = time.monotonic() + (timeout if timeout is not None else float("inf"))
    while True:
        state, has_ended = state_of()
        if state.lower() == state_wanted.lower() or (has_ended and state_wanted.lower() == ENDED):
            return 0
        if has_ended:
            return 1
        if time.monotonic() + EVERY > limit:
            return 124  # as timeout(1) has it
        time.sleep(EVERY)
