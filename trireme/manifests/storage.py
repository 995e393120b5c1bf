"""The volumes of a training job's pods."""

from pathlib import PurePosixPath
from typing import Any

from trireme.data import volumes as dataset_volumes
from trireme.data.description import Dataset
from trireme.data.uri import MOUNTED
from trireme.errors import InputError
from trireme.job.fields import Replica, Volume
from trireme.job.job import TrainingJob

FETCHED = "fetched"
"""Directory of a volume that what was fetched for a pod is in."""

LINKS = "links"
"""Directory of a shared cache with a link for each dataset that was asked for."""


def volumes(job: TrainingJob, replica: Replica) -> tuple[list[dict], list[dict]]:
    """Returns the volumes of a pod, and where its container mounts them."""
    shm: dict[str, Any] = {"medium": "Memory"}
    if replica.shared_memory:
        shm["sizeLimit"] = replica.shared_memory
    # The 64 MiB that a container has otherwise are too few for PyTorch's data loader and NCCL.
    sources: list[dict[str, Any]] = [{"name": "shm", "emptyDir": shm}]
    mounts: list[dict[str, Any]] = [{"name": "shm", "mountPath": "/dev/shm"}]
    if job.code:
        sources.append({"name": "code", "emptyDir": {}})
        fetched = str(PurePosixPath(FETCHED, job.code.directory))
        mounts.append({"name": "code", "mountPath": job.code_dir, "subPath": fetched})
        if job.code.secret:
            sources.append({"name": "code-secret", "secret": {"secretName": job.code.secret}})
    if job.dataset:
        source, mount = _dataset(job, job.dataset)
        sources.append(source)
        mounts.append(mount)
        if job.dataset.way == "stage" and job.dataset.secret:
            secret = {"secretName": job.dataset.secret}
            sources.append({"name": "dataset-secret", "secret": secret})
    for index, volume in enumerate(job.volumes):
        name = f"volume-{index}"
        sources.append({"name": name} | _source(volume))
        mount = {"name": name, "mountPath": volume.mount}
        if volume.sub_path:
            mount["subPath"] = volume.sub_path
        if volume.read_only:
            mount["readOnly"] = True
        mounts.append(mount)
    return sources, mounts


def staged_path(dataset: Dataset) -> str:
    """Returns where in its volume a staged dataset is: a pod's own, or one with a shared cache."""
    # There it is a link, which Kubernetes follows inside of a volume, and only there:
    # https://github.com/kubernetes/mount-utils and pkg/volume/util/subpath in Kubernetes.
    return f"{LINKS}/{dataset.key}" if dataset.cache else FETCHED


def _dataset(job: TrainingJob, dataset: Dataset) -> tuple[dict[str, Any], dict[str, Any]]:
    """Returns the volume that DATA_DIR is, and its mount."""
    kind = dataset.place.kind
    if dataset.way == "mount" and kind in MOUNTED:
        return dataset_volumes.volume(dataset, job.data_dir)
    if dataset.way == "stage" and kind != "file":
        mount = {"name": dataset_volumes.NAME, "mountPath": job.data_dir}
        mount["subPath"] = staged_path(dataset)
        if dataset.cache:
            source = {"persistentVolumeClaim": {"claimName": dataset.cache}}
            return {"name": dataset_volumes.NAME} | source, mount | {"readOnly": True}
        return {"name": dataset_volumes.NAME, "emptyDir": {}}, mount
    if kind == "file":
        raise InputError(
            f"dataset.uri {dataset.uri!r}: a cluster does not have what is on this machine; give "
            "pvc://claim/path, nfs://server/path, or a URI that it can be staged from"
        )
    raise InputError(
        f"dataset.access 'mount' of {dataset.uri!r}: a job mounts claims; make one with 'trireme "
        "dataset volume' and give pvc://claim, or leave access out to have the bucket copied"
    )


def _source(volume: Volume) -> dict[str, Any]:
    if volume.claim:
        return {"persistentVolumeClaim": {"claimName": volume.claim}}
    if volume.nfs:
        server, _, path = volume.nfs.partition(":")
        return {"nfs": {"server": server, "path": path}}
    if volume.secret:
        return {"secret": {"secretName": volume.secret}}
    if volume.config_map:
        return {"configMap": {"name": volume.config_map}}
    return {"hostPath": {"path": volume.host_path}}
