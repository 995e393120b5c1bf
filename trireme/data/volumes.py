"""Volumes that datasets are in: where pods have them, and what a cluster needs to have for them."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from trireme.data.description import Dataset
from trireme.data.uri import CLAIM, Place
from trireme.errors import InputError

SHARED = Path("/var/lib/trireme")
"""Below this a pipeline's pods have what other runs see, too; training only reads it."""

DATASETS = SHARED / "datasets"
"""Where a pipeline's pods have the claims it was compiled with, each under its name."""

CACHE = SHARED / "cache"
"""Where they have the claim with the cache of all runs."""

NAME = "dataset"
"""Of the volume in a training job's pod."""

SIZE = "1Pi"
"""Kubernetes wants a size; the drivers ignore it."""


def mounts(dataset_claims: Sequence[str], cache_claim: str) -> dict[str, Path]:
    """Returns where the pods of a pipeline have claims mounted, by the claims' names."""
    places = {}
    claims = [("--dataset-claim", claim, DATASETS / claim) for claim in dataset_claims]
    claims += [("--cache-claim", cache_claim, CACHE)] if cache_claim else []
    for option, claim, path in claims:
        # The pod's volume is called like the claim, and volumes have no dots.
        if not CLAIM.fullmatch(claim) or "." in claim or len(claim) > 63:
            raise InputError(
                f"{option} {claim!r}: must be the name of a PersistentVolumeClaim, of small "
                "letters, digits and -"
            )
        if claim in places:
            raise InputError(f"{option} {claim!r}: this claim is given twice")
        places[claim] = path
    return places


def volume(dataset: Dataset, path: str) -> tuple[dict[str, Any], dict[str, Any]]:
    """Returns a pod's volume for a mounted dataset, and its mount in a container."""
    place = dataset.place
    mount: dict[str, Any] = {"name": NAME, "mountPath": path, "readOnly": True}
    if place.kind == "nfs":
        return {"name": NAME, "nfs": _export(place)}, mount
    if place.path:
        mount["subPath"] = place.path
    claim = {"claimName": place.host, "readOnly": True}
    return {"name": NAME, "persistentVolumeClaim": claim}, mount


def persistent(dataset: Dataset, name: str, namespace: str) -> list[dict[str, Any]]:
    """Returns the PersistentVolume and the claim for an export, or a bucket that a driver mounts.

    https://github.com/kubernetes-sigs/alibaba-cloud-csi-driver/blob/master/docs/oss.md
    https://github.com/awslabs/mountpoint-s3-csi-driver/blob/main/docs/CONFIGURATION.md

    Args:
        namespace: Where that is, and the pods, and the Secret. The volume's name has to be the
            only one in the cluster, so it begins with this.
    """
    full_name = f"{namespace}-{name}"
    modes = {"accessModes": ["ReadOnlyMany"]}
    source = {"nfs": _nfs, "oss": _oss, "s3": _s3}[dataset.place.kind]
    volume: dict[str, Any] = {
        "apiVersion": "v1",
        "kind": "PersistentVolume",
        "metadata": {"name": full_name},
        "spec": modes
        | {
            "capacity": {"storage": SIZE},
            "claimRef": {"namespace": namespace, "name": name},
            "persistentVolumeReclaimPolicy": "Retain",
            **source(dataset, full_name, namespace),
        },
    }
    claim = {
        "apiVersion": "v1",
        "kind": "PersistentVolumeClaim",
        "metadata": {"name": name, "namespace": namespace},
        "spec": modes
        | {
            "storageClassName": "",  # or a default one would make a volume
            "resources": {"requests": {"storage": SIZE}},
            "volumeName": full_name,
        },
    }
    return [volume, claim]


def _nfs(dataset: Dataset, name: str, namespace: str) -> dict[str, Any]:
    place = dataset.place
    options = ["ro"]
    if place.host.endswith(".nas.aliyuncs.com"):
        # https://www.alibabacloud.com/help/en/nas/user-guide/mount-an-nfs-file-system-on-a-linux-ecs-instance
        options += ["vers=3", "nolock", "proto=tcp", "noresvport"]
    return {"mountOptions": options, "nfs": _export(place)}


def _export(place: Place) -> dict[str, Any]:
    return {"server": place.host, "path": f"/{place.path}", "readOnly": True}


def _oss(dataset: Dataset, name: str, namespace: str) -> dict[str, Any]:
    driver: dict[str, Any] = {
        "driver": "ossplugin.csi.alibabacloud.com",
        "volumeHandle": name,  # the driver wants the volume's name
        "readOnly": True,
        "volumeAttributes": {
            "bucket": dataset.place.host,
            "url": dataset.endpoint or f"https://oss-{dataset.region}-internal.aliyuncs.com",
            "path": f"/{dataset.place.path}",
            # Whoever the pod's program runs as may read; nobody may write.
            "otherOpts": "-o ro -o allow_other -o umask=022",
        },
    }
    if dataset.secret:
        driver["nodePublishSecretRef"] = {"name": dataset.secret, "namespace": namespace}
    return {"csi": driver}


def _s3(dataset: Dataset, name: str, namespace: str) -> dict[str, Any]:
    # https://github.com/awslabs/mountpoint-s3/blob/main/doc/CONFIGURATION.md
    options = ["read-only", "allow-other"]
    if dataset.region:
        options.append(f"region {dataset.region}")
    if dataset.endpoint:
        endpoint = dataset.endpoint if "://" in dataset.endpoint else f"https://{dataset.endpoint}"
        options += [f"endpoint-url {endpoint}", "force-path-style"]
    if dataset.place.path:
        options.append(f"prefix {dataset.place.path}/")
    driver = {
        "driver": "s3.csi.aws.com",
        "volumeHandle": name,
        "volumeAttributes": {"bucketName": dataset.place.host},
    }
    return {"mountOptions": options, "csi": driver}
