"""The pods that a training job's manifest asks for, role by role, whatever its kind."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from trireme.frameworks import kind_of
from trireme.frameworks.kinds import ROLE


@dataclass(frozen=True)
class Role:
    """The pods of one role, such as ``Worker``; ``node`` for a patched runtime's.

    Attributes:
        pod: Their spec.
        metadata: Their labels and annotations; None where the cluster's runtime has them, and the
            rest of the spec.
    """

    name: str
    count: int
    pod: dict[str, Any]
    metadata: dict[str, Any] | None = None

    @property
    def image(self) -> str:
        """The image of the container that trains."""
        return str(self.pod["containers"][0].get("image", ""))

    @property
    def selector(self) -> dict[str, str]:
        """The labels that their nodes have to have."""
        return self.pod.get("nodeSelector") or {}


def roles(manifest: Mapping[str, Any]) -> list[Role]:
    """Returns the roles of a job."""
    kind, spec = kind_of(manifest), manifest["spec"]
    if "runtime" in manifest:
        return [
            Role(
                pods["metadata"]["labels"][ROLE],
                replicated_job["replicas"],
                pods["spec"],
                pods["metadata"],
            )
            for replicated_job in manifest["runtime"]["spec"]["template"]["spec"]["replicatedJobs"]
            for pods in [replicated_job["template"]["spec"]["template"]]
        ]
    if not kind.replicas:
        return [Role("node", (spec.get("trainer") or {}).get("numNodes", 1), _node(spec))]
    return [
        Role(name, replicas["replicas"], template["spec"], template.get("metadata", {}))
        for name, replicas in spec[kind.replicas].items()
        for template in [replicas["template"]]
    ]


def _node(spec: Mapping[str, Any]) -> dict[str, Any]:
    """Returns the pod of a TrainJob's nodes, as far as the TrainJob says."""
    trainer, pod = spec.get("trainer") or {}, {}
    for patch in spec.get("runtimePatches") or ():  # somebody else's TrainJob may have none
        template = patch["trainingRuntimeSpec"]["template"]["spec"]["replicatedJobs"][0]["template"]
        pod = template["spec"]["template"]["spec"]
    named = {"image": "image", "env": "env", "resources": "resourcesPerNode"}
    main = {field: trainer[key] for field, key in named.items() if key in trainer}
    container, *_ = pod.get("containers") or [{}]
    return pod | {"containers": [container | main]}
