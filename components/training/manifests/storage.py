"""The volumes of a training job's pods."""

import re
from pathlib import PurePosixPath
from typing import Any

from components.errors import InputError
from components.training.description.fields import Replica, Volume
from components.training.description.job import TrainingJob
from components.training.description.values import SUBDOMAIN

FETCHED = "fetched"
"""Directory of a volume that what was fetched for a pod is in."""

_CLAIM = re.compile(rf"pvc://({SUBDOMAIN})(?:/+(.*))?")
_NFS = re.compile(r"nfs://([A-Za-z0-9][-.A-Za-z0-9]*)(/\S*)?")


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
        source, mount = _dataset(job)
        sources.append(source)
        mounts.append(mount)
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


def _dataset(job: TrainingJob) -> tuple[dict[str, Any], dict[str, Any]]:
    """Returns the volume that DATA_DIR is, and its mount."""
    uri = str(job.dataset)
    mount: dict[str, Any] = {"name": "dataset", "mountPath": job.data_dir}
    if uri == "builtin://digits":
        return {"name": "dataset", "emptyDir": {}}, mount | {"subPath": FETCHED}
    mount["readOnly"] = True
    claim, nfs = _CLAIM.fullmatch(uri), _NFS.fullmatch(uri)
    if claim and ".." not in (claim[2] or "").split("/"):
        if claim[2]:
            mount["subPath"] = claim[2].rstrip("/")
        source = {"claimName": claim[1], "readOnly": True}
        return {"name": "dataset", "persistentVolumeClaim": source}, mount
    if nfs:
        source = {"server": nfs[1], "path": nfs[2] or "/", "readOnly": True}
        return {"name": "dataset", "nfs": source}, mount
    raise InputError(
        f"dataset {uri!r}: on a cluster it must be builtin://digits, pvc://claim/path or "
        "nfs://server/path"
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
