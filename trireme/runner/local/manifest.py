"""A training job's manifest on this machine: its pods, and what it asks for that is not here."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from trireme.errors import InputError
from trireme.frameworks import framework_of
from trireme.frameworks.base import Framework, Role
from trireme.observers import hangs, incidents
from trireme.text.variables import expand

NAMESPACE = "default"


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

    @property
    def service(self) -> str:
        """The DNS name of its own service."""
        return f"{self.host}.{NAMESPACE}.svc"

    def variable(self, name: str) -> str:
        """Returns the value that its container declares for a variable; empty where it does not."""
        declared = self.container.get("env") or []
        values = [
            str(variable.get("value") or "") for variable in declared if variable["name"] == name
        ]
        return expand(values[-1], {}) if values else ""


@dataclass(frozen=True)
class Job:
    """A training job as this runner sees it, its pods in the order that they are started in."""

    framework: Framework
    name: str
    spec: Mapping[str, Any]
    pods: tuple[Pod, ...]
    retries: int | None

    @property
    def policy(self) -> Mapping[str, Any]:
        """Its ``runPolicy``."""
        return self.spec["runPolicy"]

    def of(self, role: str) -> list[Pod]:
        """Returns the pods of a role."""
        return [pod for pod in self.pods if pod.role == role]

    def dns_name(self, pod: Pod) -> str:
        """Returns what a pod is called by others where its job has a headless service."""
        return f"{pod.host}.{self.name}.{NAMESPACE}.svc"


def read(manifest: Mapping[str, Any]) -> Job:
    """Reads the manifest of a job of a framework's kind, as ``render`` makes it."""
    framework, spec = framework_of(manifest), manifest["spec"]
    assert framework
    framework.check_here()
    if spec["runPolicy"].get("suspend"):
        raise InputError(
            "runPolicy.suspend true: a suspended job waits to be resumed, which is not possible "
            "on this machine; set it to false"
        )
    name, replicas = manifest["metadata"]["name"], spec[framework.kind.replicas]
    pods = tuple(
        pod
        for role in framework.roles
        if role.title in replicas
        for pod in _pods(name, role, replicas[role.title])
    )
    hangs.answer(manifest)  # what it cannot be is refused before anything runs
    return Job(framework, name, spec, pods, incidents.allowed(manifest))


def _pods(job: str, role: Role, replicas: Mapping[str, Any]) -> Iterator[Pod]:
    pod, host = replicas["template"]["spec"], f"{job}-{role.title.lower()}"
    (container,) = pod["containers"]
    directory = container.get("workingDir")
    if directory and not Path(directory).is_dir():
        raise InputError(f"workingDir {directory!r} of {role.title} does not exist on this machine")
    _check_mounts(role.title, container, pod.get("volumes") or [])
    for index in range(replicas["replicas"]):
        name = host if role.is_batch_job else f"{host}-{index}"
        yield Pod(role.title, index, name, replicas["restartPolicy"], container)


def _check_mounts(role: str, container: Mapping[str, Any], volumes: list[Any]) -> None:
    """What a volume would bring has to be where it would be; an empty one brings nothing."""
    empty = {volume["name"] for volume in volumes if "emptyDir" in volume}
    for mount in container.get("volumeMounts") or []:
        path = mount["mountPath"]
        if mount["name"] not in empty and not Path(path).exists():
            raise InputError(
                f"volume {mount['name']!r} of {role} is mounted at {path}, which does not "
                "exist on this machine"
            )
