"""Read a training job's manifest: the operators' defaults filled in, the rest refused by name."""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from trireme.components.errors import InputError
from trireme.components.training import hangs, incidents
from trireme.components.training.frameworks import KINDS, of_kind
from trireme.components.training.frameworks.base import Framework, Role
from trireme.components.variables import expand

_LABEL = re.compile(r"[a-z]([-a-z0-9]{0,61}[a-z0-9])?")


@dataclass(frozen=True)
class Pod:
    """One pod that the operator would create."""

    role: str
    index: int
    host: str
    restart_policy: str
    container: Mapping[str, Any]

    @property
    def name(self) -> str:
        """What the replica is called in messages and logs, as in ``worker-0``."""
        return f"{self.role.lower()}-{self.index}"

    def port(self, name: str, default: int) -> int:
        """Returns the port that its container declares under a name, else the operator's own."""
        ports = self.container.get("ports") or []
        return next((port["containerPort"] for port in ports if port.get("name") == name), default)

    def variable(self, name: str) -> str:
        """Returns the value that its container declares for a variable; empty where it does not."""
        declared = self.container.get("env") or []
        values = [str(each.get("value") or "") for each in declared if each["name"] == name]
        return expand(values[-1], {}) if values else ""


@dataclass(frozen=True)
class Job:
    """A training job as this runner sees it, its pods in the order that they are started in."""

    framework: Framework
    name: str
    namespace: str
    spec: Mapping[str, Any]
    policy: Mapping[str, Any]
    pods: tuple[Pod, ...]
    retries: int | None = None
    on_hang: str = "report"

    def of(self, *roles: str) -> list[Pod]:
        """Returns the pods of some roles."""
        return [pod for pod in self.pods if pod.role in roles]

    def dns_name(self, pod: Pod) -> str:
        """Returns what a pod is called by others where its job has a headless service."""
        return f"{pod.host}.{self.name}.{self.namespace}.svc"


def read(manifest: Mapping[str, Any]) -> Job:
    """Reads the manifest of a job of a framework's kind, as its operator takes it."""
    framework = _framework(manifest)
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
            "runPolicy.suspend true: a suspended job waits to be resumed, which is not possible "
            "on this machine; set it to false"
        )
    pods = tuple(_pods(framework, name, spec.get(framework.kind.replicas) or {}))
    namespace = metadata.get("namespace") or "default"
    retries, on_hang = incidents.allowed(manifest), hangs.answer(manifest)
    return Job(framework, name, namespace, spec, policy, pods, retries, on_hang)


def _framework(manifest: Mapping[str, Any]) -> Framework:
    name = str(manifest.get("kind"))
    framework = of_kind(name)
    if not framework:
        runnable = ", ".join(kind for kind in KINDS if of_kind(kind))
        raise InputError(f"kind {manifest.get('kind')!r} cannot run here; {runnable} can")
    wanted = framework.kind.api_version
    if manifest.get("apiVersion") != wanted:
        raise InputError(
            f"apiVersion {manifest.get('apiVersion')!r} of kind {name}: must be {wanted}"
        )
    return framework


def _pods(framework: Framework, job: str, specs: Mapping[str, Any]) -> list[Pod]:
    field, known = framework.kind.replicas, framework.manifest_roles
    titles = {role.title.lower(): role.title for role in known}
    given = {}
    for name, spec in specs.items():
        if name.lower() not in titles:
            raise InputError(f"{field} {name!r}: must be one of {', '.join(titles.values())}")
        given[titles[name.lower()]] = spec or {}
    for role in known:
        if role.is_required and role.title not in given:
            raise InputError(f"{field} needs a {role.title}")
    if all(framework.role(title).is_optional for title in given):
        raise InputError(f"{field} {list(given)}: no role of these can make the job succeed")
    return [
        pod
        for role in known
        if role.title in given
        for pod in _pods_of_role(framework, job, role, given[role.title])
    ]


def _pods_of_role(
    framework: Framework, job: str, role: Role, spec: Mapping[str, Any]
) -> Iterator[Pod]:
    count = 1 if spec.get("replicas") is None else spec["replicas"]
    if not isinstance(count, int) or count < 1:
        raise InputError(f"replicas {count!r} of {role.title}: must be a number of at least 1")
    if role.is_leader and count > 1:
        raise InputError(f"replicas {count} of {role.title}: there can be only 1")
    default = "OnFailure" if role.is_batch_job else "Never"  # ours always say
    restart_policy = spec.get("restartPolicy") or default
    if restart_policy not in framework.restart_policies:
        raise InputError(
            f"restartPolicy {restart_policy!r} of {role.title}: must be one of "
            f"{', '.join(framework.restart_policies)}"
        )
    container = _container(framework, role, (spec.get("template") or {}).get("spec") or {})
    prefix = f"{job}-{role.title.lower()}"
    hosts = [prefix] if role.is_batch_job else [f"{prefix}-{index}" for index in range(count)]
    if not _LABEL.fullmatch(hosts[-1]):
        raise InputError(f"metadata.name {job!r}: too long for a pod called {hosts[-1]!r}")
    for index, host in enumerate(hosts):
        yield Pod(role.title, index, host, restart_policy, container)


def _container(framework: Framework, role: Role, spec: Mapping[str, Any]) -> Mapping[str, Any]:
    """Returns the only container of a role's pods."""
    name = role.title
    if spec.get("initContainers"):
        raise InputError(f"initContainers of {name} cannot run here: a replica is one process")
    containers = spec.get("containers") or []
    if len(containers) != 1:
        raise InputError(
            f"containers of {name}: {len(containers)} cannot run here, a replica is one process"
        )
    container, wanted = containers[0], framework.kind.container
    if framework.checks_container and container.get("name") != wanted:
        raise InputError(
            f"container {container.get('name')!r} of {name}: must be called {wanted!r}"
        )
    if not container.get("command") and role.has_program:
        raise InputError(
            f"command of {name} is missing: the one in its image is not known on this machine"
        )
    if container.get("envFrom"):
        raise InputError(
            f"envFrom of {name} is not supported on this machine; list each variable in env"
        )
    directory = container.get("workingDir")
    if directory and not Path(directory).is_dir():
        raise InputError(f"workingDir {directory!r} of {name} does not exist on this machine")
    _check_mounts(name, container, spec.get("volumes") or [])
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
