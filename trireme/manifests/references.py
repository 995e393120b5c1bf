"""References of a training job to what else has to be on the cluster."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from trireme.frameworks.kinds import QUEUE
from trireme.manifests.roles import roles
from trireme.manifests.runtime import VOLCANO_QUEUE


@dataclass(frozen=True)
class Needed:
    """An object that something refers to by name; a claim has to have one of the access modes."""

    kind: str
    name: str
    optional: bool = False
    modes: tuple[str, ...] = ()


def references(manifest: Mapping[str, Any]) -> list[Needed]:
    """Returns the objects that a job refers to, each once."""
    objects = [needed for role in roles(manifest) for needed in _of_pod(role.pod)]
    return list(dict.fromkeys([*objects, *_queue(manifest)]))


def _of_pod(pod: Mapping[str, Any]) -> Iterator[Needed]:
    if pod.get("priorityClassName"):
        yield Needed("PriorityClass", pod["priorityClassName"])
    if pod.get("serviceAccountName"):
        yield Needed("ServiceAccount", pod["serviceAccountName"])
    for secret in pod.get("imagePullSecrets", []):
        yield Needed("Secret", secret["name"])
    for volume in pod.get("volumes", []):
        yield from _of_volume(volume)
    for container in [*pod["containers"], *pod.get("initContainers", [])]:
        for variable in container.get("env", []):
            if secret := variable.get("valueFrom", {}).get("secretKeyRef"):
                yield Needed("Secret", secret["name"], secret.get("optional", False))


def _of_volume(volume: Mapping[str, Any]) -> Iterator[Needed]:
    if secret := volume.get("secret"):
        yield Needed("Secret", secret["secretName"], secret.get("optional", False))
    if config_map := volume.get("configMap"):
        yield Needed("ConfigMap", config_map["name"], config_map.get("optional", False))
    if claim := volume.get("persistentVolumeClaim"):
        yield Needed("PersistentVolumeClaim", claim["claimName"])


def _queue(manifest: Mapping[str, Any]) -> Iterator[Needed]:
    if queue := manifest["metadata"].get("labels", {}).get(QUEUE):
        yield Needed("LocalQueue", queue)
    if gang := manifest["spec"].get("runPolicy", {}).get("schedulingPolicy", {}).get("queue"):
        yield Needed("Queue", gang)
    if runtime := manifest.get("runtime"):
        annotations = runtime["spec"]["template"].get("metadata", {}).get("annotations", {})
        if VOLCANO_QUEUE in annotations:
            yield Needed("Queue", annotations[VOLCANO_QUEUE])
