"""The rules over several fields of a training job.

Each refuses what the API server or an operator would refuse later, or take and do otherwise than
meant; a ``ValueError`` names the field, what was given and what would be accepted.
"""

import re
from collections.abc import Callable
from pathlib import PurePosixPath
from typing import TYPE_CHECKING, NamedTuple

from trireme.frameworks import FRAMEWORKS
from trireme.images import for_gpus
from trireme.job import names

if TYPE_CHECKING:
    from trireme.job.job import TrainingJob

ANNOTATIONS_LIMIT = 250_000
"""Bytes; the API server stops at 262144, and the operators add some of their own."""

GPU = "nvidia.com/gpu"
"""NVIDIA's device plugin."""

DIRECTORIES = ("code_dir", "data_dir", "checkpoint_dir", "model_dir")
"""Fields that the variable of the same name, in capitals, is made from."""

MANAGED_BY = {"app.kubernetes.io/managed-by": "trireme"}
"""The label by which Trireme finds its jobs again."""

READ_ONLY = "which is read-only"

_NAME = re.compile(r"[a-z]([-a-z0-9]*[a-z0-9])?")


class Mount(NamedTuple):
    """A place in the container that something is mounted at.

    Attributes:
        closed: Why nothing else can be mounted inside it; empty: it can.
    """

    field: str
    path: str
    closed: str

    def holds(self, path: str) -> bool:
        """Tells whether a path is this place or inside it."""
        return PurePosixPath(path).is_relative_to(self.path)


def mounts(job: "TrainingJob") -> list[Mount]:
    """Returns the places in a job's containers that something is mounted at."""
    places = [Mount("shared_memory", "/dev/shm", "")]
    places += [Mount("the operator's mount", path, READ_ONLY) for path in job.plugin.mounts]
    if job.code:
        places.append(Mount("code_dir", job.code_dir, "which the repository is checked out to"))
    if job.dataset:
        is_written = job.dataset.way == "stage" and not job.dataset.cache
        closed = "which the dataset is written to" if is_written else READ_ONLY
        places.append(Mount("data_dir", job.data_dir, closed))
    for index, volume in enumerate(job.volumes):
        read_only = volume.read_only or volume.secret or volume.config_map
        closed = READ_ONLY if read_only else ""
        places.append(Mount(f"volumes.{index}.mount", volume.mount, closed))
    return places


def check(job: "TrainingJob") -> None:
    """Applies every rule to a job whose fields are right by themselves."""
    for rule in _RULES:
        rule(job)


def _name(job: "TrainingJob") -> None:
    if len(job.name) > names.LIMIT or not _NAME.fullmatch(job.name):
        raise ValueError(
            f"name {job.name!r}: must be at most {names.LIMIT} lower-case letters, digits and "
            "dashes, starting with a letter and ending with none of the dashes, because the names "
            "of the job's pods are made from it"
        )


def _program(job: "TrainingJob") -> None:
    starts = [name for name in ("entrypoint", "module", "command") if getattr(job, name)]
    if len(starts) > 1:
        raise ValueError(f"give only one of {' and '.join(starts)}")
    for role in job.roles:
        specified = job.replicas.get(role)
        if job.plugin.role(role).has_program and not (starts or (specified and specified.command)):
            raise ValueError("needs an entrypoint, a module or a command")


def _dataset(job: "TrainingJob") -> None:
    if job.dataset and job.dataset.holdout is not None:
        raise ValueError("dataset.holdout goes with a pipeline, whose evaluation reads that part")


def _roles(job: "TrainingJob") -> None:
    known = {role.name: role for role in job.plugin.roles}
    for role, replica in job.replicas.items():
        if role not in known:
            raise ValueError(
                f"replicas.{role}: a {job.framework} job has the roles {', '.join(known)}"
            )
        if known[role].is_single and replica.count > 1:
            raise ValueError(f"replicas.{role}.count {replica.count}: there is one {role}")
    worker = job.replicas.get("worker")
    if job.workers is not None and worker and "count" in worker.model_fields_set:
        raise ValueError(
            f"workers {job.workers} and replicas.worker.count {worker.count}: give one of them"
        )
    job.plugin.check(job)
    if all(known[role].is_optional for role in job.roles):
        raise ValueError("workers 0: the job has no replica that trains")


def _processes(job: "TrainingJob") -> None:
    if job.processes_per_worker > 1 and not job.plugin.has_processes:
        raise ValueError(
            f"processes_per_worker {job.processes_per_worker}: a replica of a {job.framework} job "
            "is one process"
        )


def _elastic(job: "TrainingJob") -> None:
    if not job.elastic:
        return
    if not job.plugin.is_elastic:
        frameworks = [framework.name for framework in FRAMEWORKS.values() if framework.is_elastic]
        raise ValueError(
            f"elastic: only {' and '.join(frameworks)} jobs can be elastic, this one is "
            f"{job.framework}"
        )
    if "master" in job.replicas:
        raise ValueError(
            "elastic: a master would fix the world size; give workers only, which find each other"
        )
    workers = job.roles["worker"].count
    if not job.elastic.min <= workers <= job.elastic.max:
        raise ValueError(
            f"workers {workers}: must be from {job.elastic.min} to {job.elastic.max}, as elastic "
            "says"
        )


def _restarts(job: "TrainingJob") -> None:
    if job.restart_policies == {"Never"} and job.retries:
        raise ValueError(
            f"retries {job.retries}: nothing is restarted with restart_policy Never; give "
            "OnFailure or ExitCode"
        )
    if job.scheduling.spot and "Never" in job.restart_policies:
        raise ValueError(
            "restart_policy Never: a job on spot nodes would end with the first node; give "
            "OnFailure or ExitCode"
        )
    for role, replica in job.roles.items():
        policy = replica.restart_policy
        allowed = job.plugin.restart_policies
        if policy not in allowed:
            raise ValueError(
                f"restart_policy {policy}: {job.framework} jobs take {' or '.join(allowed)}"
            )
        if policy == "Always" and role == job.deciding_role:
            raise ValueError(
                f"restart_policy Always: the job would never end, because its {role} is started "
                "again when it has succeeded; give OnFailure"
            )


def _topology(job: "TrainingJob") -> None:
    if job.scheduling.topology and (job.scheduling.gang or not job.scheduling.queue):
        raise ValueError(
            "scheduling.topology: Kueue places the replicas by it; give the queue of Kueue, and no "
            "gang"
        )


def _success(job: "TrainingJob") -> None:
    if job.success_policy == "Default":
        return
    if job.success_policy not in job.plugin.success_policies:
        frameworks = [
            framework.name
            for framework in FRAMEWORKS.values()
            if len(framework.success_policies) > 1
        ]
        raise ValueError(
            f"success_policy {job.success_policy}: only {' and '.join(frameworks)} jobs have one"
        )
    if "chief" in job.roles:
        raise ValueError(
            f"success_policy {job.success_policy}: a job with a chief succeeds with that alone"
        )


def _devices(job: "TrainingJob") -> None:
    for role, replica in job.roles.items():
        if replica.gpu is not None and GPU in (replica.devices or {}):
            raise ValueError(f"devices.{GPU} of the {role}: give gpu or this, not both")
        lacks_image = not job.plugin.has_gpu_image
        if replica.gpu and lacks_image and replica.image == for_gpus(job.plugin.image):
            raise ValueError(
                f"gpu {replica.gpu}: there is no {job.framework} image for GPUs; give one"
            )


def _variables(job: "TrainingJob") -> None:
    directories = {name.upper(): name for name in DIRECTORIES}
    for field, variables in {"env": job.env, "secret_env": job.secret_env}.items():
        for name in variables:
            if name in directories:
                raise ValueError(f"{field}.{name}: give {directories[name]} instead")
            if re.fullmatch(job.plugin.injected, name):
                raise ValueError(
                    f"{field}.{name}: is set for each replica of a {job.framework} job"
                )
    both = job.env.keys() & job.secret_env.keys()
    if both:
        raise ValueError(f"{min(both)} is in env and in secret_env: give it in one of them")


def _mounts(job: "TrainingJob") -> None:
    places = mounts(job)
    fields: dict[str, str] = {}
    for mount in places:
        if ":" in mount.path or mount.path == "/":
            raise ValueError(f"{mount.field} {mount.path!r}: must not be / or hold a colon")
        if mount.path in fields:
            raise ValueError(
                f"{mount.field} {mount.path}: is mounted twice, by {fields[mount.path]} as well"
            )
        fields[mount.path] = mount.field
    for mount in places:
        for other in places:
            if other is not mount and other.closed and other.holds(mount.path):
                raise ValueError(
                    f"{mount.field} {mount.path}: is inside {other.path} of {other.field}, "
                    f"{other.closed}"
                )
    for field in ("checkpoint_dir", "model_dir"):
        path = getattr(job, field)
        for mount in places:
            if mount.closed == READ_ONLY and mount.holds(path):
                raise ValueError(
                    f"{field} {path}: is inside {mount.path} of {mount.field}, {READ_ONLY}"
                )


def _labels(job: "TrainingJob") -> None:
    for name in MANAGED_BY:
        if name in job.labels:
            raise ValueError(f"labels.{name}: is reserved for Trireme")
    size = sum(len(part.encode()) for item in job.annotations.items() for part in item)
    if size > ANNOTATIONS_LIMIT:
        raise ValueError(
            f"annotations: {size} bytes are more than the {ANNOTATIONS_LIMIT} that are stored"
        )


_RULES: tuple[Callable[["TrainingJob"], None], ...] = (
    _name,
    _roles,
    _program,
    _dataset,
    _processes,
    _elastic,
    _restarts,
    _success,
    _topology,
    _devices,
    _variables,
    _mounts,
    _labels,
)
