"""What can go wrong, as types: raised where it is known, shown to a person in one place."""


class TriremeError(Exception):
    """Something a person can act on; its message is one clear sentence.

    Attributes:
        exit_status: What the process exits with when this ends it.
        detail: Further lines worth showing under the sentence, such as the end of a log.
    """

    exit_status = 1

    def __init__(self, message: str, detail: str = "") -> None:
        super().__init__(message)
        self.detail = detail


class InputError(TriremeError):
    """The input is at fault: names the field, what was given, and what would be accepted."""

    exit_status = 2


class JobFailed(TriremeError):
    """A training job ended without success; ``detail`` holds the first failing replica's end."""


class StepFailed(TriremeError):
    """A step did what was asked and the result is not acceptable."""


class TrackingUnavailable(TriremeError):
    """The MLflow tracking server does not answer."""
