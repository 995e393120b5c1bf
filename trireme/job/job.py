"""The description of a distributed training job."""

from pathlib import PurePosixPath
from typing import Annotated, Any, Literal, Self

from pydantic import AfterValidator, Field, ValidationError, field_validator, model_validator

from trireme.code import data_link
from trireme.errors import InputError
from trireme.frameworks import DEFAULT, FRAMEWORKS
from trireme.frameworks.base import Framework, Role
from trireme.images import USER, for_gpus, is_ours
from trireme.job import reading, rules
from trireme.job.fields import (
    Code,
    Elastic,
    Network,
    Replica,
    Resources,
    Scheduling,
    Tracking,
    Volume,
)
from trireme.job.values import (
    CONNECTIONS,
    AbsolutePath,
    Argument,
    Bytes,
    Cpu,
    DatasetOrUri,
    FrameworkName,
    Image,
    LabelKey,
    LabelValue,
    ModuleName,
    ObjectName,
    RestartPolicy,
    Seconds,
    SecretKey,
    Text,
    VariableName,
)


class TrainingJob(Resources):
    """A distributed training job, wherever it runs.

    Enough for a first one: image, entrypoint and workers.
    """

    name: str = "train"
    """Name of the job: lower-case letters, digits and dashes."""

    framework: Annotated[
        FrameworkName,
        Field(
            description=f"The framework, and how its replicas connect: {'; '.join(CONNECTIONS)}."
        ),
    ] = DEFAULT

    image: Image = ""
    """Container image of the replicas; empty: Trireme's for the framework, or for its GPUs."""

    entrypoint: str | None = None
    """The training program: a .py file, relative to code_dir."""

    module: ModuleName | None = None
    """The training program as a Python module, instead of entrypoint."""

    command: list[Argument] | None = None
    """The command of every replica (of an MPI job: of its launcher), instead of entrypoint."""

    args: list[Argument] = []
    """Arguments of the program. $(NAME) in them, in command and in env stands for a variable, $$
    for a dollar, as in Kubernetes."""

    env: Annotated[dict[VariableName, Argument], Field(max_length=1000)] = {}
    """More environment variables for every replica."""

    images: dict[Image, Image] = {}
    """Images to pull in place of Trireme's, by name, such as copies in another registry. The field
    image, also of replicas, is not replaced."""

    secret_env: dict[VariableName, SecretKey] = {}
    """Environment variables from Secrets, as in {"MLFLOW_TRACKING_PASSWORD": "mlflow/password"}."""

    workers: Annotated[int, Field(ge=0, le=999)] | None = None
    """Replicas of the role worker. PyTorch, XGBoost and custom jobs have a master besides them (and
    default to none), the others default to 1."""

    replicas: dict[str, Replica] = {}
    """The replicas of each role, if roles differ or there are others than workers."""

    processes_per_worker: Annotated[int, Field(ge=1, le=1024)] = 1
    """Processes in each PyTorch replica, the master included; slots of each MPI worker."""

    elastic: Elastic | None = None
    """PyTorch only: the number of workers may change while the job runs. It has no master then."""

    cpu: Cpu | None = None
    """CPUs of each replica, such as 4 or 500m: its request and its limit. Default: a request of
    250m and a limit of 2."""

    memory: Bytes | None = None
    """Memory of each replica, such as 16Gi: its request and its limit. Default: a request of 1Gi
    and a limit of 4Gi."""

    retries: Annotated[int, Field(ge=0, le=1000)] | None = None
    """Incidents that the job survives: replicas that fail together, or because another one has, are
    one; a node that goes is none. A pipeline's step, submit --wait and a job on this machine count
    them; without them the operator counts restarts, and allows retries times replicas. Of an MPI
    job the restarts of its launcher. Default: any number; for an elastic job its max_restarts; with
    restart_policy Never none."""

    restart_policy: RestartPolicy | None = None
    """Which replicas are started again: ExitCode those that ended with 128 to 255 (by a signal, for
    instance). Default: OnFailure with retries or elastic, ExitCode on spot nodes (OnFailure for an
    MPI job), else Never. With ExitCode the training operator itself counts no restarts."""

    preflight: bool = True
    """Whether the replicas of a job that has several first test, for some seconds, whether they
    reach each other, how fast, and whether their disks and versions are as they should be; on this
    machine only 'trireme job preflight --local' does."""

    on_hang: Literal["report", "restart", "fail"] = "report"
    """What becomes of a job that hangs: none of its replicas prints, saves a checkpoint or uses a
    processor, and no NVIDIA GPU of the machine is in use, for five times as long as ever before,
    and at least five minutes. Where each replica stands is put into its log; restart starts the
    programs again, on a cluster in a new job of the same name, three times without a new
    checkpoint. On a cluster a pipeline's step and submit --wait look, and need pods/exec."""

    time_limit: Seconds | None = None
    """Seconds the job may run."""

    queued_limit: Seconds | None = None
    """Seconds the job may wait in the queue of Kueue or a gang scheduler. On a cluster a pipeline's
    step and submit --wait enforce it."""

    starting_limit: Seconds | None = None
    """Seconds its pods may take to start after that, likewise."""

    time_to_live: Annotated[int, Field(ge=0, le=2**31 - 1)] | None = None
    """Seconds after its end until the job is deleted."""

    clean_up: Literal["Running", "All", "None"] = "Running"
    """Which pods are removed when the job has ended."""

    success_policy: Literal["Default", "AllWorkers"] = "Default"
    """TensorFlow only: a job without a chief succeeds with its first worker, or with all."""

    suspend: bool = False
    """Create the job without starting it."""

    scheduling: Scheduling = Scheduling()
    """When and on which nodes the replicas run: queue, gang, priority, selectors, spot."""

    network: Network = Network()
    """How replicas talk to each other: interface, NCCL's settings, RDMA."""

    code: Code | None = None
    """A repository to check out into code_dir; without one, code_dir has to exist already."""

    dataset: DatasetOrUri | None = None
    """The dataset in DATA_DIR, by its URI or with the fields of Dataset; without one, data_dir
    exists already or is not needed."""

    tracking: Tracking | None = None
    """Where the program finds MLflow."""

    metrics_port: Annotated[int, Field(ge=1024, le=65535)] | None = None
    """Port on which rank 0 serves its metrics to Prometheus: METRICS_PORT, and the annotation
    trireme/metrics-port of the pods of its role."""

    volumes: list[Volume] = []
    """Volumes of every replica."""

    code_dir: AbsolutePath = "/root/code"
    """Directory of the training code, and the working directory: CODE_DIR."""

    data_dir: AbsolutePath = "/workspace/data"
    """Directory of the dataset: DATA_DIR."""

    data_at: Annotated[str, AfterValidator(data_link.check)] | None = None
    """A path in the code that is to be a link to DATA_DIR, for a program that looks for its data
    there, such as data, or ../data elsewhere in the repository; of code that is checked out for the
    job or by a pipeline."""

    checkpoint_dir: AbsolutePath = "/workspace/checkpoints"
    """Directory of the checkpoints, which should be on a volume: CHECKPOINT_DIR."""

    model_dir: AbsolutePath = "/workspace/model"
    """Directory that the program writes its result to: MODEL_DIR."""

    packages: AbsolutePath | None = None
    """Directory of more Python packages, such as pip install --target makes: the program can import
    them, and finds their commands first in PATH."""

    labels: dict[LabelKey, LabelValue] = {}
    """More labels of the job and its pods."""

    annotations: dict[LabelKey, Text] = {}
    """More annotations of the job and its pods."""

    image_pull_secrets: list[ObjectName] = []
    """Secrets to pull the image with."""

    service_account: ObjectName | None = None
    """Service account of the pods; its token is mounted only if this is given."""

    run_as_user: Annotated[int, Field(ge=1, le=2**31 - 1)] | None = None
    """Numeric user to run as, if the image allows it. Default: 1000 in Trireme's images, otherwise
    the image's."""

    operator: Literal["auto", "training-operator", "trainer"] = "auto"
    """What runs the job on a cluster: training-operator makes it the kind of its framework, such as
    a PyTorchJob (or the MPI operator's MPIJob), trainer a TrainJob. auto: the second if the cluster
    has Trainer and a TrainJob can say all of the job, otherwise the first. It has no effect on this
    machine."""

    runtime: ObjectName | None = None
    """TrainJob only: a ClusterTrainingRuntime of the cluster to patch; by default the job has its
    own runtime."""

    @classmethod
    def create(cls, **fields: Any) -> Self:
        """Makes a job from its fields.

        Args:
            **fields: The attributes of this class.

        Raises:
            InputError: One sentence on the first field that is wrong.
        """
        return cls._of(fields)

    @classmethod
    def of_pipeline(cls, fields: dict[str, Any]) -> Self:
        """Makes a job from its fields, of which kfp gives those as text that stand for a parameter.

        Raises:
            InputError: One sentence on the first field that is wrong.
        """
        return cls._of(fields, strict=False)

    @classmethod
    def _of(cls, fields: dict[str, Any], *, strict: bool | None = None) -> Self:
        try:
            return cls.model_validate_json(reading.as_json(fields), strict=strict)
        except ValidationError as error:
            raise InputError(reading.in_words(error, cls)) from None

    @classmethod
    def from_yaml(cls, text: str, changes: dict[str, Any]) -> Self:
        """Makes a job from YAML.

        Args:
            text: A mapping of field names to values.
            changes: Fields that win over those in the text, as in ``reading.merged``.

        Raises:
            InputError: It is not YAML, or a field is wrong.
        """
        return cls.create(**reading.merged(reading.from_yaml(text), changes))

    @property
    def roles(self) -> dict[str, Replica]:
        """Every role that has replicas, complete, in the order that they are started in."""
        counts = self.plugin.default_counts(self)
        for role, replica in self.replicas.items():
            if not (self.elastic and "count" not in replica.model_fields_set):
                counts[role] = replica.count
        if self.workers is not None:
            counts["worker"] = self.workers
        return {
            role.name: self._complete(role, counts[role.name])
            for role in self.plugin.roles
            if counts.get(role.name)
        }

    @property
    def plugin(self) -> Framework:
        """What is known of its framework."""
        return FRAMEWORKS[self.framework]

    @property
    def world_size(self) -> int:
        """Processes that train, of the whole job."""
        return sum(self.roles[role].count for role in self._training) * self.processes_per_worker

    @property
    def notes(self) -> list[str]:
        """What a person should know before the job runs on a cluster, though it is allowed."""
        mounts = [PurePosixPath(volume.mount) for volume in self.volumes]
        return [
            f"{name} {path} is on no volume: its files are lost with the pod"
            for name, path in (
                ("CHECKPOINT_DIR", self.checkpoint_dir),
                ("MODEL_DIR", self.model_dir),
            )
            if not any(PurePosixPath(path).is_relative_to(mount) for mount in mounts)
        ]

    @property
    def deciding_role(self) -> str:
        """The role whose success is the job's."""
        return next(role for role in self.roles if not self.plugin.role(role).is_optional)

    @property
    def leader(self) -> str:
        """The replica that leads, and whose success is the job's, as in ``master-0``."""
        counts = self.replica_counts
        return f"{self.deciding_role if self.deciding_role in counts else 'node'}-0"

    @property
    def replica_counts(self) -> dict[str, int]:
        """How many replicas there are of each role, by the name that its replicas have."""
        counts = {role: replica.count for role, replica in self.roles.items()}
        if not self.runtime:
            return counts
        # A runtime of the cluster calls all of them nodes, but for the launcher of MPI.
        others = {role: count for role, count in counts.items() if role in self.plugin.runtime_jobs}
        return others | {"node": self.nodes}

    @property
    def nodes(self) -> int:
        """How many nodes a runtime of the cluster makes of its replicas."""
        return self.world_size // self.processes_per_worker

    @property
    def first_role(self) -> str:
        """The role in which rank 0 is."""
        return self._training[0]

    @property
    def _training(self) -> list[str]:
        return [role for role in self.roles if self.plugin.role(role).trains]

    @property
    def user(self) -> int | None:
        """The user that the replicas run as; ``None``: what their images say.

        With RDMA that is left to the images: memory is registered with a capability that only
        root has.
        """
        are_ours = self.uses_trireme_images and not self.network.rdma
        return self.run_as_user or (USER if are_ours else None)

    @property
    def uses_trireme_images(self) -> bool:
        """Whether all replicas run in Trireme's own images, or what is pulled in place of them."""
        used = {replica.image or "" for replica in self.roles.values()}
        return all(is_ours(image) or image in self.images.values() for image in used)

    @property
    def restart_limit(self) -> int | None:
        """Restarts of replicas that the job survives; ``None``: any number."""
        if self.retries is not None or self.restart_policies == {"Never"}:
            return self.retries or 0
        return self.elastic.max_restarts * self.elastic.max if self.elastic else None

    @property
    def survived_incidents(self) -> int:
        """Incidents that the job survives, where whoever follows it counts them; 0: nobody does."""
        if not self.restart_limit or self.plugin.backoff_limit is not None:
            return 0
        return self.retries or (self.elastic.max_restarts if self.elastic else 0)

    @property
    def restart_policies(self) -> set[RestartPolicy | None]:
        """The restart policies of all roles."""
        return {replica.restart_policy for replica in self.roles.values()}

    @property
    def _default_restart_policy(self) -> RestartPolicy:
        """The policy of the roles that say nothing of their own."""
        if self.restart_policy:
            return self.restart_policy
        if self.scheduling.spot and "ExitCode" in self.plugin.restart_policies:
            return "ExitCode"
        return "OnFailure" if self.retries or self.elastic or self.scheduling.spot else "Never"

    def _complete(self, role: Role, count: int) -> Replica:
        """Returns the replicas of a role with everything they take over from the job."""
        override = self.replicas.get(role.name, Replica())
        devices = override.devices
        if not role.is_idle:
            devices = self.devices if devices is None else devices
            if self.network.rdma:
                devices = {self.network.rdma: 1} | (devices or {})
        gpu = self.gpu if override.gpu is None and not role.is_idle else override.gpu
        command, args = (self.command, self.args) if role.has_program else (None, [])
        return Replica(
            count=count,
            image=override.image or self.image or self._default_image(gpu=bool(gpu)),
            command=override.command or command,
            args=args if override.args is None else override.args,
            restart_policy=override.restart_policy or self._default_restart_policy,
            cpu=override.cpu or self.cpu,
            memory=override.memory or self.memory,
            gpu=gpu,
            devices=devices,
            shared_memory=override.shared_memory or self.shared_memory,
        )

    def _default_image(self, *, gpu: bool) -> str:
        """Returns what replicas run in where nothing else is given."""
        image = for_gpus(self.plugin.image) if gpu else self.plugin.image
        return self.images.get(image, image)

    @field_validator("entrypoint")
    @classmethod
    def _check_entrypoint(cls, entrypoint: str | None) -> str | None:
        if entrypoint is None:
            return None
        path = PurePosixPath(entrypoint)
        outside = path.is_absolute() or ".." in path.parts
        if path.suffix != ".py" or outside or entrypoint.startswith("-") or "\0" in entrypoint:
            raise ValueError("must be the path of a .py file inside the repository")
        return entrypoint

    @model_validator(mode="after")
    def _check_rules(self) -> Self:
        rules.check(self)
        return self
