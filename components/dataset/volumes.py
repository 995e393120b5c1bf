"""Datasets that are mounted: the volume of a pod, and what a cluster needs to have for it."""

from typing import Any

from components.dataset.description import Dataset

NAME = "dataset"
"""Of the volume in a pod."""

SIZE = "1Pi"
"""Kubernetes wants a size; the drivers ignore it."""


def volume(dataset: Dataset, path: str, claim: str = "") -> tuple[dict[str, Any], dict[str, Any]]:
    """Returns a pod's volume for a mounted dataset, and its mount in a container.

    Args:
        dataset: One whose ``way`` is ``mount``.
        path: Where the container sees it.
        claim: For ``oss://`` and ``s3://`` the claim that ``persistent`` made.
    """
    place = dataset.place
    mount: dict[str, Any] = {"name": NAME, "mountPath": path, "readOnly": True}
    if place.kind == "nfs":
        nfs = {"server": place.host, "path": f"/{place.path}", "readOnly": True}
        return {"name": NAME, "nfs": nfs}, mount
    if place.kind == "pvc" and place.path:
        mount["subPath"] = place.path
    held = {"claimName": place.host if place.kind == "pvc" else claim, "readOnly": True}
    return {"name": NAME, "persistentVolumeClaim": held}, mount


def persistent(dataset: Dataset, name: str, namespace: str) -> list[dict[str, Any]]:
    """Returns the PersistentVolume and the claim for a bucket that a CSI driver mounts.

    https://github.com/kubernetes-sigs/alibaba-cloud-csi-driver/blob/master/docs/oss.md
    https://github.com/awslabs/mountpoint-s3-csi-driver/blob/main/docs/CONFIGURATION.md

    Args:
        dataset: An ``oss://`` or ``s3://`` dataset whose ``way`` is ``mount``.
        name: Of both objects; of the volume it has to be unique in the cluster.
        namespace: Where the pods are, and the Secret.
    """
    common = {"accessModes": ["ReadOnlyMany"], "storageClassName": ""}
    is_oss = dataset.place.kind == "oss"
    volume: dict[str, Any] = {
        "apiVersion": "v1",
        "kind": "PersistentVolume",
        "metadata": {"name": name},
        "spec": common
        | {
            "capacity": {"storage": SIZE},
            "claimRef": {"namespace": namespace, "name": name},
            "persistentVolumeReclaimPolicy": "Retain",
            **(_oss(dataset, name, namespace) if is_oss else _s3(dataset, name)),
        },
    }
    claim = {
        "apiVersion": "v1",
        "kind": "PersistentVolumeClaim",
        "metadata": {"name": name, "namespace": namespace},
        "spec": common | {"resources": {"requests": {"storage": SIZE}}, "volumeName": name},
    }
    return [volume, claim]


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


def _s3(dataset: Dataset, name: str) -> dict[str, Any]:
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
