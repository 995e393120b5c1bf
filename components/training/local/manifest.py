"""Read a training job's manifest: the operators' defaults filled in, the rest refused by name."""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from trireme.components.errors import InputError
from trireme.components.training.kinds import KINDS, MPIJOB, PYTORCHJOB, TFJOB, Kind

ROLES = {
    PYTORCHJOB.name: ("Master", "Worker"),
    TFJOB.name: ("Chief", "Master", "PS", "Worker", "Evaluator"),
    MPIJOB.name: ("Launcher", "Worker"),
}
"""The roles that an operator knows, the one that others look up to first."""

_POLICIES = {
    PYTORCHJOB.name: ("Never", "OnFailure", "Always", "ExitCode"),
    TFJOB.name: ("Never", "OnFailure", "Always", "ExitCode"),
    MPIJOB.name: ("Never", "OnFailure"),
}
_LABEL = re.compile(r"[a-z]([-a-z0-9]{0,61}[a-z0-9])?")


@dataclass(frozen=True)
class Pod:
    """One pod that the operator would create.

    Attributes:
        role: Its replica type, as in ``Worker``.
        index: Its index among those of its role.
        host: Its name and host name, as in ``job-worker-0``.
        restart_policy: Never, OnFailure, Always or ExitCode.
        container: Its only container, as in the manifest.
    """

    role: str
    index: int
    host: str
    restart_policy: str
    container: Mapping[str, Any]

    @property
    def name(self) -> str:
        """What the replica is called in messages and logs, as in ``worker-0``."""
        return f"{self.role.lower()}-{self.index}"


@dataclass(frozen=True)
class Job:
    """A training job as this runner sees it.

    Attributes:
        kind: Its kind.
        name: Its name.
        namespace: Its namespace.
        spec: Its ``spec``.
        policy: The ``runPolicy`` in it.
        pods: Its pods, in the order of ``ROLES``.
    """

    kind: Kind
    name: str
    namespace: str
    spec: Mapping[str, Any]
    policy: Mapping[str, Any]
    pods: tuple[Pod, ...]

    def of(self, *roles: str) -> list[Pod]:
        """Returns the pods of some roles."""
        return [pod for pod in self.pods if pod.role in roles]


def read(manifest: Mapping[str, Any]) -> Job:
    """Reads a manifest.

    Args:
        manifest: A PyTorchJob, TFJob or MPIJob as its operator takes it.

    Raises:
        InputError: It is none, or asks for something that cannot be done on one machine.
    """
    kind = _kind(manifest)
    metadata, spec = manifest.get("metadata") or {}, manifest.get("spec") or {}
    name = metadata.get("name")
    if not isinstance(name, str) or not _LABEL.fullmatch(name):
        raise InputError(
            f"metadata.name {name!r}: must be up to 63 lower-case letters, digits and dashes, "
            "the first one a letter"
        )
    policy = spec.get("runPolicy") or {}
    if policy.get("suspend"):
        raise InputError(
            "runPolicy.suspend true: a suspended job waits for somebody to resume it, which "
            "nobody can here; set it to false"
        )
    pods = tuple(_pods(kind, name, spec.get(kind.replicas) or {}))
    return Job(kind, name, metadata.get("namespace") or "default", spec, policy, pods)


def _kind(manifest: Mapping[str, Any]) -> Kind:
    runnable = {name: KINDS[name] for name in ROLES}
    kind = runnable.get(str(manifest.get("kind")))
    if not kind:
        raise InputError(
            f"kind {manifest.get('kind')!r} cannot run here; {', '.join(runnable)} can"
        )
    if manifest.get("apiVersion") != kind.api_version:
        raise InputError(
            f"apiVersion {manifest.get('apiVersion')!r} of kind {kind.name}: must be "
            f"{kind.api_version}"
        )
    return kind


def _pods(kind: Kind, job: str, specs: Mapping[str, Any]) -> list[Pod]:
    names = {role.lower(): role for role in ROLES[kind.name]}
    roles = {}
    for given, spec in specs.items():
        if given.lower() not in names:
            raise InputError(
                f"{kind.replicas} {given!r}: must be one of {', '.join(ROLES[kind.name])}"
            )
        roles[names[given.lower()]] = spec or {}
    if kind is MPIJOB and "Launcher" not in roles:
        raise InputError(f"{kind.replicas} needs a Launcher")
    if not set(roles) - {"PS", "Evaluator"}:
        raise InputError(
            f"{kind.replicas} {list(roles)}: there is no role that the job could succeed by"
        )
    return [
        pod
        for role in ROLES[kind.name]
        if role in roles
        for pod in _pods_of_role(kind, job, role, roles[role])
    ]


def _pods_of_role(kind: Kind, job: str, role: str, spec: Mapping[str, Any]) -> list[Pod]:
    count = 1 if spec.get("replicas") is None else spec["replicas"]
    if not isinstance(count, int) or count < 1:
        raise InputError(f"replicas {count!r} of {role}: must be a number of at least 1")
    if role in ("Master", "Chief", "Launcher") and count > 1:
        raise InputError(f"replicas {count} of {role}: there can be only 1")
    default = "OnFailure" if role == "Launcher" else "Never"  # the operators' SetDefaults
    restart_policy = spec.get("restartPolicy") or default
    if restart_policy not in _POLICIES[kind.name]:
        raise InputError(
            f"restartPolicy {restart_policy!r} of {role}: must be one of "
            f"{', '.join(_POLICIES[kind.name])}"
        )
    container = _container(kind, role, (spec.get("template") or {}).get("spec") or {})
    prefix = f"{job}-{role.lower()}"
    hosts = [prefix] if role == "Launcher" else [f"{prefix}-{index}" for index in range(count)]
    if not _LABEL.fullmatch(hosts[-1]):
        raise InputError(f"metadata.name {job!r}: too long for a pod called {hosts[-1]!r}")
    return [Pod(role, at, host, restart_policy, container) for at, host in enumerate(hosts)]


def _container(kind: Kind, role: str, spec: Mapping[str, Any]) -> Mapping[str, Any]:
    """Returns the only container of a role's pods."""
    if spec.get("initContainers"):
        raise InputError(f"initContainers of {role} cannot run here: a replica is one process")
    containers = spec.get("containers") or []
    if len(containers) != 1:
        raise InputError(
            f"containers of {role}: {len(containers)} cannot run here, a replica is one process"
        )
    container = containers[0]
    if kind is not MPIJOB and container.get("name") != kind.container:
        raise InputError(
            f"container {container.get('name')!r} of {role}: must be called {kind.container!r}"
        )
    if not container.get("command") and not (kind is MPIJOB and role == "Worker"):
        raise InputError(
            f"command of {role} is missing: the one in its image is not known on this machine"
        )
    if container.get("envFrom"):
        raise InputError(f"envFrom of {role} cannot be done here; name each variable in env")
    directory = container.get("workingDir")
    if directory and not Path(directory).is_dir():
        raise InputError(f"workingDir {directory!r} of {role} does not exist on this machine")
    _check_mounts(role, container, spec.get("volumes") or [])
    return container


def _check_mounts(role: str, container: Mapping[str, Any], volumes: list[Any]) -> None:
    """What a volume would bring has to be where it would be; an empty one brings nothing."""
    empty = {volume.get("name") for volume in volumes if "emptyDir" in volume}
    for mount in container.get("volumeMounts") or []:
        path = mount.get("mountPath")
        if mount.get("name") not in empty and not Path(path).exists():
            raise InputError(
                f"volume {mount.get('name')!r} of {role} is mounted at {path}, which does not "
                "exist on this machine"
            )
