"""Checks that this machine has installed what a job needs."""

from importlib.util import find_spec

from trireme.errors import InputError
from trireme.job.job import TrainingJob
from trireme.process import extras


def check(job: TrainingJob) -> None:
    """Refuses a job whose framework is not there; its own command may bring its own Python."""
    module = job.plugin.module
    if module and not job.command and find_spec(module) is None:
        extra = extras.of(module)
        mend = extras.installing(extra) if extra else f"pip install {module}"
        raise InputError(
            f"framework {job.framework}: {module} is not installed here; install it with: {mend}"
        )
