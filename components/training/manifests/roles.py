"""The pods that a training job's manifest asks for, role by role, whatever its kind."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

from trireme.components.training.description.values import quantity
from trireme.components.training.frameworks import kind_of
from trireme.components.training.kinds import ROLE


@dataclass(frozen=True)
class Role:
    """The pods of one role, which are all alike.

    Attributes:
        name: As the manifest has it, such as ``Worker``; ``node`` where a cluster's runtime is
            patched.
        count: How many.
        pod: Their spec; where a cluster's runtime is patched what the TrainJob says itself.
    """

    name: str
    count: int
    pod: dict[str, Any]

    @property
    def image(self) -> str:
        """The image of the container that trains."""
        return str(self.pod["containers"][0].get("image", ""))

    @property
    def selector(self) -> dict[str, str]:
        """The labels that their nodes have to have."""
        return self.pod.get("nodeSelector") or {}


def roles(manifest: Mapping[str, Any]) -> list[Role]:
    """Returns the roles of a job.

    Args:
        manifest: The job, as ``render`` makes it.
    """
    kind, spec = kind_of(manifest), manifest["spec"]
    if "runtime" in manifest:
        return [
            Role(pods["metadata"]["labels"][ROLE], each["replicas"], pods["spec"])
            for each in manifest["runtime"]["spec"]["template"]["spec"]["replicatedJobs"]
            for pods in [each["template"]["spec"]["template"]]
        ]
    if not kind.replicas:
        return [Role("node", spec["trainer"]["numNodes"], _node(spec))]
    return [
        Role(name, replicas["replicas"], replicas["template"]["spec"])
        for name, replicas in spec[kind.replicas].items()
    ]


def requests(pod: Mapping[str, Any]) -> dict[str, Decimal]:
    """Returns what the scheduler sets aside for a pod, by resource.

    That is what its containers ask for together, those that run beside them included, or, where
    that is more, what a container asks for that runs before them
    (https://kubernetes.io/docs/concepts/workloads/pods/sidecar-containers/#resource-sharing-within-containers).

    Args:
        pod: Its spec.
    """
    return _together(pod, "requests")


def limits(pod: Mapping[str, Any]) -> dict[str, Decimal]:
    """Returns what a pod may use at most, by resource, counted as its requests are."""
    return _together(pod, "limits")


def amounts(container: Mapping[str, Any], which: str) -> dict[str, Decimal]:
    """Returns what a container asks for, by resource.

    Args:
        container: As in a pod's spec.
        which: ``requests``, which are its limits where it has only these, or ``limits``.
    """
    resources = container.get("resources") or {}
    both = resources.get("limits") or {}
    if which == "requests":
        both = both | (resources.get("requests") or {})
    return {name: quantity(str(amount)) for name, amount in both.items()}


def shown(resource: str, amount: Decimal) -> str:
    """Returns an amount of a resource as a person writes it, as in ``16Gi``.

    Args:
        resource: Its name, also as a quota has it.
        amount: How much.
    """
    is_bytes = resource.rpartition(".")[2] in ("memory", "storage", "ephemeral-storage")
    return f"{float(amount) / 2**30:.4g}Gi" if is_bytes else f"{amount.normalize():f}"


def _together(pod: Mapping[str, Any], which: str) -> dict[str, Decimal]:
    total: dict[str, Decimal] = {}
    before = [amounts(each, which) for each in pod.get("initContainers") or []]
    for container in [*_beside(pod), *pod["containers"]]:
        for name, amount in amounts(container, which).items():
            total[name] = total.get(name, Decimal(0)) + amount
    return _most([total, *before])


def _beside(pod: Mapping[str, Any]) -> Iterable[Mapping[str, Any]]:
    return (
        each for each in pod.get("initContainers") or [] if each.get("restartPolicy") == "Always"
    )


def _most(several: Iterable[Mapping[str, Decimal]]) -> dict[str, Decimal]:
    most: dict[str, Decimal] = {}
    for each in several:
        for name, amount in each.items():
            most[name] = max(most.get(name, Decimal(0)), amount)
    return most


def _node(spec: Mapping[str, Any]) -> dict[str, Any]:
    """Returns the pod of a TrainJob's nodes, as far as the TrainJob says."""
    trainer = spec["trainer"]
    (patch,) = spec["runtimePatches"]
    template = patch["trainingRuntimeSpec"]["template"]["spec"]["replicatedJobs"][0]["template"]
    pod: dict[str, Any] = template["spec"]["template"]["spec"]
    main = {
        "image": trainer["image"],
        "env": trainer["env"],
        "resources": trainer["resourcesPerNode"],
    }
    return pod | {"containers": [pod["containers"][0] | main]}
