"""The parts that the description of a training job is made of."""

import re
from pathlib import PurePosixPath
from typing import Annotated, Any, Literal, Self

from pydantic import AfterValidator, Field, model_validator

from trireme.code import git
from trireme.errors import InputError
from trireme.job.affinity import checked
from trireme.job.values import (
    AbsolutePath,
    Argument,
    Bytes,
    Count,
    Cpu,
    DeviceName,
    Image,
    Interfaces,
    LabelKey,
    LabelValue,
    NcclName,
    ObjectName,
    QueueName,
    RestartPolicy,
    TrackingUri,
)
from trireme.strict_model import StrictModel


class Resources(StrictModel):
    """Resources of one replica: each is its request and its limit."""

    cpu: Cpu | None = None
    """CPUs, such as 4 or 500m."""

    memory: Bytes | None = None
    """Memory, such as 16Gi."""

    gpu: Annotated[int, Field(ge=0, le=1024)] | None = None
    """NVIDIA GPUs."""

    devices: dict[DeviceName, Annotated[int, Field(ge=0, le=1024)]] | None = None
    """Other devices by their plugin's name, as in {"amd.com/gpu": 2}."""

    shared_memory: Bytes | None = None
    """Size limit of /dev/shm. Default: the replica's memory."""


class Replica(Resources):
    """The replicas of one role; fields that are not given here are the job's."""

    count: Count = 1
    """How many."""

    image: Image | None = None
    """Their container image."""

    command: list[Argument] | None = None
    """Their command, instead of the job's program."""

    args: list[Argument] | None = None
    """Arguments instead of the job's."""

    restart_policy: RestartPolicy | None = None
    """Their restart policy, instead of the job's."""


class Elastic(StrictModel):
    """How many workers a PyTorch job may have while it runs."""

    min: Count
    """The fewest workers; with fewer, training waits."""

    max: Count
    """The most workers."""

    max_restarts: Annotated[int, Field(ge=0, le=1000)] = 3
    """How often torchrun restarts the processes over the life of a replica."""

    @model_validator(mode="after")
    def _check_range(self) -> Self:
        if self.min > self.max:
            raise ValueError(f"min {self.min} must not be above max {self.max}")
        return self


class Code(StrictModel):
    """A git repository that every pod checks out before it starts."""

    url: str
    """An https, ssh or git URL; empty: the reference trainers that Trireme carries."""

    revision: str = ""
    """Branch, tag or commit; empty: the default branch."""

    secret: str = ""
    """The Secret that opens a private repository: username and password or token, or
    ssh-privatekey and known_hosts."""

    directory: str = ""
    """A directory in the repository that becomes CODE_DIR; empty: all of it."""

    submodules: str = "all"
    """The submodules that are checked out: all, none, or their paths with commas between."""

    @model_validator(mode="after")
    def _check_git(self) -> Self:
        try:
            git.check(self.url, self.revision, self.secret, self.directory, self.submodules)
        except InputError as error:
            raise ValueError(str(error).removeprefix("code_")) from None
        return self


class Volume(StrictModel):
    """A volume in every replica: exactly one of claim, nfs, secret, config_map, host_path."""

    mount: AbsolutePath
    """Path in the replicas."""

    claim: ObjectName | None = None
    """A PersistentVolumeClaim."""

    nfs: str | None = None
    """An NFS export, as in server:/export/path; Alibaba's NAS is one."""

    secret: ObjectName | None = None
    """A Secret, a file for each key."""

    config_map: ObjectName | None = None
    """A ConfigMap, a file for each key."""

    host_path: AbsolutePath | None = None
    """A directory of the node."""

    sub_path: str | None = None
    """A directory in the volume, to mount instead of its root."""

    read_only: bool = False
    """Whether it is mounted read-only."""

    @model_validator(mode="after")
    def _check_source(self) -> Self:
        sources = ("claim", "nfs", "secret", "config_map", "host_path")
        chosen = [name for name in sources if getattr(self, name) is not None]
        if len(chosen) != 1:
            raise ValueError(
                f"needs exactly one of {', '.join(sources)}, not {' and '.join(chosen) or 'none'}"
            )
        if self.nfs is not None and not re.fullmatch(r"[^:/\s]+:/[^\s\0]*", self.nfs):
            raise ValueError(f"nfs {self.nfs!r} must be server:/export/path")
        if self.sub_path is not None and "\0" in self.sub_path:
            raise ValueError("sub_path must not hold a NUL character")
        if self.sub_path is not None and (
            self.sub_path.startswith("/") or ".." in PurePosixPath(self.sub_path).parts
        ):
            raise ValueError(f"sub_path {self.sub_path!r} must stay inside the volume")
        return self


class Toleration(StrictModel):
    """A taint of a node that the replicas tolerate, as in Kubernetes."""

    key: LabelKey | None = None
    """The taint's key; without one, with operator Exists, every taint."""

    operator: Literal["Equal", "Exists"] = "Equal"
    """Whether the value counts."""

    value: LabelValue | None = None
    """The taint's value."""

    effect: Literal["NoSchedule", "PreferNoSchedule", "NoExecute"] | None = None
    """The taint's effect; without one, every effect."""

    tolerationSeconds: Annotated[int, Field(ge=0, le=2**63 - 1)] | None = None  # noqa: N815 - Kubernetes' own name
    """How long a NoExecute taint is tolerated, in seconds; without one, for ever."""

    @model_validator(mode="after")
    def _check_toleration(self) -> Self:
        if self.operator == "Exists" and self.value is not None:
            raise ValueError("value goes with operator Equal only")
        if self.operator == "Equal" and not self.key:
            raise ValueError("operator Equal needs a key")
        if self.tolerationSeconds is not None and self.effect != "NoExecute":
            raise ValueError("tolerationSeconds goes with effect NoExecute only")
        return self


class Topology(StrictModel):
    """A level of Kueue's topology whose one domain is to hold all replicas of a role."""

    required: LabelKey | None = None
    """The level, by its nodes' label: the job waits until one domain has room."""

    preferred: LabelKey | None = None
    """The level, by its nodes' label: several domains are used where none has room."""

    @model_validator(mode="after")
    def _check_level(self) -> Self:
        if (self.required is None) == (self.preferred is None):
            raise ValueError("give required or preferred, a level of the topology")
        return self


class Scheduling(StrictModel):
    """When and on which nodes the replicas run."""

    queue: QueueName | None = None
    """A Kueue LocalQueue or, with gang, a queue of Volcano."""

    priority: ObjectName | None = None
    """A PriorityClass."""

    gang: bool | Literal["coscheduling", "volcano"] = False
    """All replicas start together or none does: by Volcano or the coscheduling of scheduler-plugins
    as the cluster has one, or by the one that is named. The training operator knows only the one
    that it was started with."""

    scheduler: ObjectName | None = None
    """The scheduler of the pods. Default: volcano, or scheduler-plugins-scheduler for coscheduling,
    of a TrainJob with gang; else the cluster's, or what the training operator says."""

    topology: Topology | None = None
    """How near to each other Kueue places all replicas of a role."""

    node_selector: dict[LabelKey, LabelValue] = {}
    """Labels that a node has to have."""

    tolerations: list[Toleration] = []
    """Taints that a node may have."""

    affinity: Annotated[dict[str, Any], AfterValidator(checked)] | None = None
    """As in a pod's spec."""

    spot: Literal["aks", "eks", "gke", "karpenter"] | None = None
    """Run on nodes that may be reclaimed, by the labels and taints of this provider."""


class Network(StrictModel):
    """How replicas talk to each other."""

    interface: Interfaces | None = None
    """Network interface for NCCL and gloo. Default: they find it themselves."""

    nccl: dict[NcclName, Argument] = {}
    """Settings of NCCL, as in {"NCCL_DEBUG": "INFO"}."""

    rdma: DeviceName | None = None
    """The device plugin's name of an RDMA interface: each replica gets one, may lock memory,
    and has /dev/shm of its own."""


class Tracking(StrictModel):
    """Where the program finds MLflow."""

    uri: TrackingUri
    """MLflow's tracking URI, without a password: that is MLFLOW_TRACKING_PASSWORD in the Secret
    trireme-mlflow, if there is one, or in secret_env."""

    experiment: str | None = None
    """Name of the experiment."""
