"""Errors, as types: raised where the cause is known, shown to a person in one place."""

import signal
from collections.abc import Mapping
from types import MappingProxyType
from typing import ClassVar

from trireme.plain import plain

LONGEST = 2000  # characters of a message that are shown


class TriremeError(Exception):
    """Something a person can act on; its message is one clear sentence.

    Attributes:
        code: What it is, in a word for scripts, which stays.
        exit_status: What the process exits with when this ends it.
        detail: Further lines worth showing under the sentence, such as the end of a log.
    """

    code: ClassVar[str] = "failed"
    exit_status = 1

    def __init__(self, message: str, detail: str = "", exit_status: int | None = None) -> None:
        shown = message
        if len(message) > LONGEST:
            shown = f"{message[: LONGEST - 500]} … {message[-500:]}"
        # What somebody has given may be in it, and must not move the cursor of who reads it.
        super().__init__(plain(shown))
        self.detail = detail
        if exit_status is not None:  # otherwise that of its kind
            self.exit_status = exit_status

    def shown(self) -> str:
        """Returns the sentence as programs print it, below its detail."""
        return "\n".join(filter(None, [self.detail, f"error: {self}"]))


class InputError(TriremeError):
    """The input is at fault: names the field, what was given, and what would be accepted."""

    code = "invalid-input"
    exit_status = 2


class NoSuchJob(InputError):
    """There is no job of this name."""

    code = "not-found"


class JobFailed(TriremeError):
    """A training job ended without success; ``detail`` holds the first failing replica's end.

    Attributes:
        replica_seconds: How long each of its replicas had run by then, by name.
    """

    code = "job-failed"
    replica_seconds: Mapping[str, float] = MappingProxyType({})


class ReplicaLost(JobFailed):
    """A job failed as its cluster took a replica away: no fault of the program's."""

    code = "replica-lost"


class Cancelled(JobFailed):
    """The job was stopped before its end by a person or a signal."""

    code = "cancelled"
    exit_status = 143


class StepFailed(TriremeError):
    """A step did what was asked and the result is not acceptable."""

    code = "step-failed"


class PodLost(SystemExit):
    """This process's pod is taken away while its run goes on, which starts the step in another.

    It is no failure, so that nothing that looks for one records it.
    """

    def __init__(self) -> None:
        super().__init__(128 + signal.SIGTERM)


def exit_in_words(status: int) -> str:
    """Says how a process ended.

    Args:
        status: Its exit status; 128 + N, or as ``subprocess`` has it -N, where signal N ended
            it, 127 where it did not start.
    """
    if status < 0:
        status = 128 - status
    if status == 127:
        return "could not be started"
    try:
        return f"was ended by {signal.Signals(status - 128).name}"
    except ValueError:
        return f"exited with status {status}"


class TrackingUnavailable(TriremeError):
    """The MLflow tracking server does not answer."""

    code = "tracking-unavailable"


class TrackingRefused(TrackingUnavailable):
    """The MLflow tracking server does not let us in."""

    code = "tracking-refused"


def first_line(error: BaseException) -> str:
    """Returns the first line of what an error says, or its type where it says nothing."""
    return (str(error).strip().splitlines() or [type(error).__name__])[0]
