"""What this machine needs to have installed for a job to run on it."""

from importlib.util import find_spec

from trireme.components.errors import InputError
from trireme.components.training.description.job import TrainingJob

_MODULES = {"pytorch": "torch", "tensorflow": "tensorflow"}


def check(job: TrainingJob) -> None:
    """Refuses a job whose framework is not there.

    Args:
        job: The job; one that gives its own command may bring its own Python.

    Raises:
        InputError: The framework's package is not installed.
    """
    module = _MODULES.get(job.framework)
    if module and not job.command and find_spec(module) is None:
        raise InputError(
            f"framework {job.framework}: {module} is not installed here; "
            f"install it with: pip install 'trireme[{job.framework}]'"
        )
