"""A model's objects on a cluster: checked, applied, and put back as they were."""

from collections.abc import Iterable
from contextlib import suppress
from typing import Any

from trireme.deployment.manifests import MODEL
from trireme.errors import InputError, TriremeError
from trireme.kubernetes import access
from trireme.kubernetes.access import Right
from trireme.kubernetes.connection import Cluster
from trireme.kubernetes.errors import AlreadyThere, NotFound
from trireme.kubernetes.resources import DEPLOYMENTS, PODS, SERVICES, Resource
from trireme.process.patience import wait_for
from trireme.tracking.model_versions import ModelVersion

Manifest = dict[str, Any]

REPLICA_SETS = Resource("apps", "v1", "replicasets")
RESOURCES = {
    "Deployment": DEPLOYMENTS,
    "Service": SERVICES,
    "InferenceService": Resource("serving.kserve.io", "v1beta1", "inferenceservices"),
}

POLL = 1.0  # seconds between two looks at an object
DELETION_LIMIT = 120.0  # seconds that an object and its pods may take to go away

_VERBS = ("get", "create", "patch", "delete")
_WITH_PODS = ((PODS, "", "list"), (PODS, "log", "get"), (PODS, "proxy", "create"))
# Written by the cluster: who wrote it before us does so again.
REVISION = "deployment.kubernetes.io/revision"


def find(cluster: Cluster, manifest: Manifest) -> Manifest | None:
    """Returns the object of a manifest's kind and name; ``None`` if there is none."""
    try:
        return cluster.get(_resource(manifest), manifest["metadata"]["name"], cluster.namespace)
    except NotFound:
        return None


def check_rights(cluster: Cluster, manifests: list[Manifest]) -> None:
    """Asks the cluster whether this user may deploy objects."""
    needed = rights(manifest["kind"] for manifest in manifests)
    access.check_rights(cluster, cluster.namespace, needed)


def rights(kinds: Iterable[str]) -> list[Right]:
    """Returns what has to be allowed to whoever deploys objects of these kinds."""
    kinds = list(kinds)
    needed = [(RESOURCES[kind], "", verb) for kind in kinds for verb in _VERBS]
    sets = [(REPLICA_SETS, "", "list")] if "Deployment" in kinds else []
    return [*needed, *_WITH_PODS, *sets]


def check_pod(cluster: Cluster, deployment: Manifest) -> None:
    """Asks the cluster whether it would take a Deployment's pod, which is made only later."""
    if not access.may(cluster, cluster.namespace, PODS, "", "create"):
        return
    template = deployment["spec"]["template"]
    name = {"generateName": f"{deployment['metadata']['name']}-"}
    pod = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": template["metadata"] | name,
        "spec": template["spec"],
    }
    cluster.create(PODS, pod, cluster.namespace, dryRun="All")


def is_same(planned: Manifest, existing: Manifest | None) -> bool:
    """Tells whether an object is as it would be."""
    return existing is not None and _content(planned) == _content(existing)


def apply(cluster: Cluster, manifest: Manifest, **query: str) -> Manifest:
    """Has an object be as a manifest says; returns it as the server has it then."""
    try:
        return cluster.apply(_resource(manifest), manifest, cluster.namespace, **query)
    except AlreadyThere as conflict:
        raise InputError(
            f"{named(manifest)}: another field manager has set fields that this would change: "
            f"{conflict}"
        ) from None


def refuse_others(manifest: Manifest, existing: Manifest | None, model: ModelVersion) -> None:
    """Refuses to change an object that is there for something else."""
    if existing is None:
        return
    uri = served_by(existing)
    if uri.rpartition("/")[0] != model.uri.rpartition("/")[0]:
        raise InputError(
            f"{named(manifest)}: one of that name exists already and "
            f"{f'serves {uri}' if uri else 'was not created by Trireme'}; delete it first, or "
            "deploy into another namespace"
        )


def restore(cluster: Cluster, manifest: Manifest, before: Manifest | None) -> Manifest | None:
    """Puts an object back as it was; deletes it where there was none.

    Returns:
        The object as it is now; ``None`` if there is none any more.
    """
    if before is not None:
        return apply(cluster, manifest_of(before), force="true")
    existing = find(cluster, manifest)
    if existing is not None and served_by(existing) == served_by(manifest):
        _delete(cluster, existing)
    return None


def served_by(existing: Manifest) -> str:
    """Returns the model version that an object serves; empty if it is not one of ours."""
    return str(existing["metadata"].get("annotations", {}).get(MODEL, ""))


def named(manifest: Manifest) -> str:
    """Returns kind and name of an object."""
    return f"{manifest['kind']} {manifest['metadata']['name']}"


def _resource(manifest: Manifest) -> Resource:
    return RESOURCES[manifest["kind"]]


def _content(existing: Manifest) -> list[Any]:
    metadata = existing["metadata"]
    return [existing["spec"], metadata.get("labels"), metadata.get("annotations")]


def manifest_of(existing: Manifest) -> Manifest:
    """Returns the manifest that makes an object what it was, but for its scale."""
    metadata = existing["metadata"]
    annotations = {
        key: value for key, value in metadata.get("annotations", {}).items() if key != REVISION
    }
    fields = {"name": metadata["name"], "labels": metadata.get("labels", {})}
    spec = {key: value for key, value in existing["spec"].items() if key != "replicas"}
    return {
        "apiVersion": existing["apiVersion"],
        "kind": existing["kind"],
        "metadata": fields | {"annotations": annotations},
        "spec": spec,
    }


def _delete(cluster: Cluster, existing: Manifest) -> None:
    metadata, resource = existing["metadata"], _resource(existing)
    with suppress(NotFound, AlreadyThere):  # gone, or another one of that name
        cluster.delete(resource, metadata["name"], cluster.namespace, metadata["uid"])

    def is_gone() -> bool:
        now = find(cluster, existing)
        return now is None or now["metadata"]["uid"] != metadata["uid"]

    if not wait_for(is_gone, DELETION_LIMIT, POLL):
        raise TriremeError(f"{named(existing)} is being deleted, but still exists")
