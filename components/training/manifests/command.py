"""What a replica runs, in such a way that the program gets its arguments untouched."""

from trireme.components.training.description.fields import Replica
from trireme.components.training.description.job import TrainingJob


def literal(text: str) -> str:
    """Returns text that an expansion of ``$`` gives back as it was: Kubernetes', torchrun's."""
    return text.replace("$", "$$")


def python(job: TrainingJob, replica: Replica) -> tuple[list[str], list[str]]:
    """Returns command and arguments of a replica that is one Python process."""
    if replica.command:
        return _given(replica)
    return ["python3", *_literals(_program(job))], _literals(replica.args)


def torchrun(job: TrainingJob, replica: Replica) -> tuple[list[str], list[str]]:
    """Returns command and arguments of a replica whose processes torchrun starts.

    torchrun passes program and arguments through ``string.Template``, to put in the local rank.
    """
    if replica.command:
        return _given(replica)
    program, arguments = _literals(_program(job)), _literals(replica.args)
    return ["torchrun", *_literals(program)], _literals(arguments)


def mpirun(job: TrainingJob, replica: Replica, variables: list[str]) -> tuple[list[str], list[str]]:
    """Returns command and arguments of the launcher of an MPI job.

    A rank is started over ssh and sees none of its container's variables, so mpirun hands them
    on by name (https://docs.open-mpi.org/en/v5.0.x/man-openmpi/man1/mpirun.1.html, -x).

    Args:
        job: The job.
        replica: Its launcher.
        variables: Names of the variables that every rank gets.
    """
    if replica.command:
        return _given(replica)
    handed_on = [part for name in dict.fromkeys(["PATH", *variables]) for part in ("-x", name)]
    command = ["mpirun", "-np", str(job.world_size), "--bind-to", "none", *handed_on]
    return [*command, "python3", *_literals(_program(job))], _literals(replica.args)


def _program(job: TrainingJob) -> list[str]:
    return ["-m", job.module] if job.module else [str(job.entrypoint)]


def _given(replica: Replica) -> tuple[list[str], list[str]]:
    """A command that the user wrote may refer to variables: it is left as it is."""
    return list(replica.command or []), list(replica.args or [])


def _literals(arguments: list[str] | None) -> list[str]:
    return [literal(argument) for argument in arguments or []]
