"""The class of a framework, which every other file of this folder fills in."""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

from trireme.errors import InputError, exit_in_words
from trireme.frameworks.kinds import Kind

if TYPE_CHECKING:
    from trireme.job.job import TrainingJob
    from trireme.runner.local.manifest import Job, Pod
    from trireme.runner.local.network import Network

Command = tuple[list[str], list[str]]  # command and arguments of a container
Variables = list[dict[str, Any]]  # as in a container's env

WAITING = {"OMP_WAIT_POLICY": "PASSIVE"}
"""How threads wait for each other on a machine that does something else, too: those that spin take
the time of the one they wait for, and a small network trains twenty times slower."""

INDEX = "TRIREME_TASK_INDEX"
"""The variable of a TrainJob's replica with its place in its role."""


@dataclass(frozen=True)
class Role:
    """A role of a framework's replicas.

    Attributes:
        name: As a description has it, such as ``worker``.
        title: As a manifest has it; by default the name with a capital.
        default: How many there are where the description does not say.
        is_leader: It is one replica, whose success is the job's.
        is_single: There is at most one replica of it.
        is_optional: The others can end without it: a job never succeeds with it.
        is_idle: It does not compute: it gets no devices unless it asks for them itself.
        has_program: The job's program is what it runs.
        saves: It may write checkpoints, rather than only read them.
        is_batch_job: The operator makes a batch/v1 Job of it, not a pod.
        waits_for: The role whose pods have to be there before.
        in_jobset: What a TrainJob's runtime calls it; by default its name.
    """

    name: str
    title: str = ""
    default: int = 0
    is_leader: bool = False
    is_single: bool = False
    is_optional: bool = False
    is_idle: bool = False
    has_program: bool = True
    saves: bool = True
    is_batch_job: bool = False
    waits_for: str = ""
    in_jobset: str = ""

    def __post_init__(self) -> None:
        object.__setattr__(self, "title", self.title or self.name.capitalize())
        object.__setattr__(self, "in_jobset", self.in_jobset or self.name)

    @property
    def trains(self) -> bool:
        """Whether its processes count in the world size."""
        return not (self.is_optional or self.is_idle)


@dataclass
class Start:
    """How a pod's process is started on this machine.

    Attributes:
        image: What stands for the variables of its image.
        command: What runs where the manifest has no command.
        is_command_only: Whether to ignore what the manifest says of the container.
    """

    image: dict[str, str]
    command: list[str] = field(default_factory=list)
    is_command_only: bool = False


class Framework:
    """A framework: what connects the replicas of a job, and what is to be known of that.

    A file of this folder makes one and lists it in its ``FRAMEWORKS``; another package has an entry
    point for it.
    What an operator does is said value for value as in its source, which each file names.
    """

    name: str
    """As in a description's ``framework``."""

    connects_by: str
    """What connects the replicas, for the description's schema."""

    kind: Kind
    """What a job becomes where the cluster has that; else it is a TrainJob."""

    image: str
    """What replicas run in by default."""

    has_gpu_image: bool = True
    """Whether there is an image of ours for GPUs, too."""

    roles: tuple[Role, ...]
    """In the order that they are started in."""

    port: int = 0
    """The port that replicas find each other by."""

    injected: str
    """Pattern of the variables that are set for each replica, so that no job may set them."""

    inherited: str = ""
    """Pattern of more variables that whoever started this process may have from a job like it."""

    meeting: ClassVar[Mapping[str, str]] = {}
    """How the replicas meet, for their preflight; none: they make none.

    ``rank``, ``address`` and ``port`` name variables, several for the first that is set, or
    ``config`` one like TF_CONFIG, or ``hostfile`` mpirun's. ``all_reduce`` is the package that
    they do that with, of those that ``preflight/replica/all_reduce.py`` knows.
    """

    settings: ClassVar[Mapping[str, str]] = {}
    """Variables that every replica gets unless the job says otherwise."""

    restart_policies: tuple[str, ...] = ("Never", "OnFailure", "Always", "ExitCode")
    """Those that the operator takes."""

    backoff_limit: int | None = None
    """The restarts that a job survives which says nothing; None: any number."""

    has_processes: bool = False
    """Whether a replica can be several processes."""

    is_elastic: bool = False
    """Whether replicas may come and go."""

    success_policies: tuple[str, ...] = ("Default",)
    """Those of a description that it has."""

    mounts: tuple[str, ...] = ()
    """What the operator mounts in every pod."""

    ends_together: bool = False
    """Whether all replicas do the same: when one has succeeded the others are about to."""

    module: str = ""
    """What a job without a command of its own imports, which this machine has to have."""

    trainer: str = ""
    """The reference program that learns to classify, among those that Trireme carries."""

    runtime_jobs: tuple[str, ...] = ()
    """The jobs of a ClusterTrainingRuntime that is made for it; none: there is no such runtime."""

    peer_lost: str = ""
    """Pattern of what a replica says that failed because another one was gone."""

    report: str = ""
    """Pattern of the line with which a launcher's own report on a failure begins."""

    workers_shown: int = 1
    """Workers that a pipeline runs its reference program with by default."""

    # The description.

    def default_counts(self, job: "TrainingJob") -> dict[str, int]:
        """Returns how many replicas each role has where the description does not say."""
        return {role.name: role.default for role in self.roles}

    def check(self, job: "TrainingJob") -> None:
        """Refuses what this framework does not do.

        Raises:
            ValueError: One sentence that names the field, what is given and what would be taken.
        """

    def role(self, name: str) -> Role:
        """Returns a role by its name in a description or a manifest."""
        return next(role for role in self.roles if name in (role.name, role.title))

    # The manifest.

    def command(self, job: "TrainingJob", role: str, variables: list[str]) -> Command:
        """Returns what a replica runs for an operator of this kind.

        Args:
            variables: The names of its environment, without what an operator adds.
        """
        return python(job, role)

    def variables(self, job: "TrainingJob", role: str) -> Variables:
        """Returns variables that a replica needs besides, unless the job sets them itself."""
        return []

    def lifecycle(self, role: str) -> dict[str, Any]:
        """Returns a container's ``lifecycle``."""
        return {}

    def spec(
        self, job: "TrainingJob", policy: dict[str, Any], replicas: dict[str, Any]
    ) -> dict[str, Any]:
        """Returns the ``spec`` of the operator's kind, of its run policy and its replicas."""
        return {"runPolicy": policy, self.kind.replicas: replicas}

    def least_replicas(self, spec: Mapping[str, Any]) -> int | None:
        """Returns how many replicas an elastic job needs by its manifest; None: it is not."""
        return None

    def scaled(self, spec: Mapping[str, Any], count: int) -> dict[str, Any]:
        """Returns the change of a ``spec`` that gives an elastic job so many workers.

        Returns:
            Nothing where the job is not elastic.

        Raises:
            InputError: It does not take as many, or as few.
        """
        return {}

    # The manifest for Trainer v2: of a runtime of our own, or patching one of the cluster's.

    def rendezvous(self, job: "TrainingJob", role: str) -> Variables:
        """Returns what the replicas of a TrainJob find each other by, as under this operator."""
        raise self._lacks("rendezvous", "become a TrainJob")

    def trainjob_command(self, job: "TrainingJob", role: str, variables: list[str]) -> Command:
        """Returns what a replica of a TrainJob with our runtime runs."""
        return self.command(job, role, variables)

    def node_command(self, job: "TrainingJob", variables: list[str]) -> Command:
        """Returns what the nodes of a TrainJob run that patches a runtime of the cluster's."""
        raise self._lacks("node_command", "run in a runtime of the cluster's")

    def ml_policy(self, job: "TrainingJob") -> dict[str, Any]:
        """Returns the ``mlPolicy`` of our runtime."""
        return {}

    def host(self, job: "TrainingJob", role: str, index: int) -> str:
        """Returns the host name of a TrainJob's replica."""
        return f"{job.name}-{self.role(role).in_jobset}-{index}-0"

    def address(self, job: "TrainingJob", role: str, index: int = 0) -> str:
        """Returns the DNS name of a TrainJob's replica, which others find it by."""
        return f"{self.host(job, role, index)}.{job.name}"

    # This machine.

    def environment(self, job: "Job", pod: "Pod", network: "Network") -> dict[str, str]:
        """Returns the variables that the operator adds to a pod.

        Raises:
            InputError: The operator would have none for this job.
        """
        raise self._lacks("environment", "run on this machine")

    def check_here(self) -> None:
        """Refuses to run on this machine where there is no environment for that."""
        if type(self).environment is Framework.environment:
            raise self._lacks("environment", "run on this machine")

    def processes(self, job: "Job") -> int:
        """Returns how many processes of a job share this machine's cores."""
        return len(job.pods)

    def as_in_image(self, threads: str) -> dict[str, str]:
        """Returns variables for a process here, which has other libraries and cores beside it."""
        return {"OMP_NUM_THREADS": threads} | WAITING

    def starts(
        self,
        job: "Job",
        network: "Network",
        logs: Path,
        temporary: Path,
        images: Mapping[str, dict[str, str]],
    ) -> Callable[["Pod"], Start]:
        """Returns how the pods of a job are started.

        Args:
            logs: Directory for files of the run.
            temporary: Directory for what only this run needs.
            images: The variables of each pod's image, by its name.

        Raises:
            InputError: It cannot run here.
        """
        return lambda pod: Start(images[pod.name])

    def shown(self, lines: str) -> str:
        """Returns what is to be shown of lines."""
        return lines

    def explain_failure(
        self, replica: str, status: int, lines: Iterable[str]
    ) -> tuple[str, list[str]]:
        """Says how a job failed by a replica, and returns what matters of its last lines."""
        return f"replica {replica} {exit_in_words(status)}", list(lines)

    # When a job has succeeded or failed here.

    def has_succeeded(self, job: "Job", succeeded: list["Pod"]) -> bool:
        """Tells whether a job without a leader has succeeded though not all workers have."""
        return False

    def is_fatal(self, job: "Job", pod: "Pod") -> bool:
        """Tells whether a job fails with a replica that is not started again."""
        return True

    def serves(self, job: "Job", pod: "Pod") -> bool:
        """Tells whether a replica only serves others, and so never ends by itself."""
        return False

    def _lacks(self, method: str, action: str) -> InputError:
        return InputError(f"framework {self.name}: it does not {action}, as it has no {method}()")


def literal(text: str) -> str:
    """Returns text that Kubernetes' expansion of ``$`` gives back as it was."""
    return text.replace("$", "$$")


def program(
    job: "TrainingJob", role: str, launcher: list[str], escaped: Callable[[str], str] = str
) -> Command:
    """Returns what starts a job's program; ``$(NAME)`` in its arguments is Kubernetes' to expand.

    Args:
        launcher: What runs a Python file, or ``-m`` and a module.
        escaped: Guards text against what the launcher itself would replace in it.
    """
    replica = job.roles[role]
    arguments = list(replica.args or [])
    if replica.command:
        return list(replica.command), arguments
    start = ["-m", job.module] if job.module else [str(job.entrypoint)]
    return [*launcher, *(escaped(literal(word)) for word in start)], [*map(escaped, arguments)]


def python(job: "TrainingJob", role: str) -> Command:
    """Returns command and arguments of a replica that is one Python process."""
    return program(job, role, ["python3"])


def without(names: Iterable[str], start: list[str]) -> list[str]:
    """Returns a command that takes variables away which an operator adds to every pod."""
    return ["sh", "-c", f'unset {" ".join(names)}; exec "$0" "$@"', *start]


def entries(values: Mapping[str, str]) -> Variables:
    """Returns variables as a container's ``env`` has them."""
    return [{"name": name, "value": value} for name, value in values.items()]


def from_label(name: str, label: str) -> dict[str, Any]:
    """Returns the variable whose value is a label that JobSet gives a pod, its place in the set."""
    # https://github.com/kubernetes-sigs/jobset/blob/v0.12.0/pkg/controllers/jobset_controller.go
    path = f"metadata.labels['jobset.sigs.k8s.io/{label}']"
    return {"name": name, "valueFrom": {"fieldRef": {"fieldPath": path}}}


RANK_LABEL, INDEX_LABEL = "job-global-index", "job-index"
"""The labels with a replica's place among all of its job, and among those of its role."""
