"""How the replicas of a TrainJob find each other: the variables that v1 operators would set.

Trainer has no runtime that sets them for each role, so they are in our own. JobSet gives every pod
a stable name, and labels with its place in the set
(https://github.com/kubernetes-sigs/jobset/blob/v0.12.0/pkg/controllers/jobset_controller.go).
"""

import json
from typing import Any

from trireme.components.training.description.job import TrainingJob

INDEX = "TRIREME_TASK_INDEX"
"""The variable with a replica's place in its role."""

PORTS = {"pytorch": "23456", "custom": "23456", "tensorflow": "2222"}
"""Those of the training operator."""


def replicated_job(job: TrainingJob, role: str) -> str:
    """Returns the name of a role in the JobSet; Trainer looks for MPI workers by theirs."""
    return "node" if job.framework == "mpi" and role == "worker" else role


def host(job: TrainingJob, role: str, index: int) -> str:
    """Returns the host name of a replica."""
    return f"{job.name}-{replicated_job(job, role)}-{index}-0"


def variables(job: TrainingJob, role: str) -> list[dict[str, Any]]:
    """Returns the environment that a role's replicas find each other with.

    Args:
        job: The job.
        role: The role.
    """
    if job.framework == "tensorflow":
        return _tf_config(job, role)
    if job.framework == "mpi":
        return []  # Trainer makes hostfile and keys
    return _torch(job)


def _torch(job: TrainingJob) -> list[dict[str, Any]]:
    replicas = sum(replica.count for replica in job.roles.values())
    address = f"{host(job, job.first_role, 0)}.{job.name}"
    port = PORTS[job.framework]
    values = {"PET_NPROC_PER_NODE": str(job.processes_per_worker)}
    if job.elastic:
        values |= {
            "PET_NNODES": f"{job.elastic.min}:{job.elastic.max}",
            "PET_MAX_RESTARTS": str(job.elastic.max_restarts),
            "PET_RDZV_BACKEND": "c10d",
            "PET_RDZV_ENDPOINT": f"{address}:{port}",
            "PET_RDZV_ID": job.name,
        }
        return [*_entries(values), {"name": INDEX} | _from_label("job-index")]
    values |= {
        "PET_NNODES": str(replicas),
        "MASTER_ADDR": address,
        "MASTER_PORT": port,
        "PET_MASTER_ADDR": address,
        "PET_MASTER_PORT": port,
        "WORLD_SIZE": str(replicas * job.processes_per_worker),
    }
    # Its place among the replicas of all roles.
    rank = _from_label("job-global-index")
    return [*_entries(values), {"name": "RANK"} | rank, {"name": "PET_NODE_RANK"} | rank]


def _tf_config(job: TrainingJob, role: str) -> list[dict[str, Any]]:
    """Returns ``TF_CONFIG``; none where there is one replica, as of a TFJob."""
    if sum(replica.count for replica in job.roles.values()) == 1:
        return []
    port = PORTS[job.framework]
    cluster = {
        other: [f"{host(job, other, index)}.{job.name}:{port}" for index in range(replica.count)]
        for other, replica in sorted(job.roles.items())
    }
    config = {"cluster": cluster, "task": {"type": role, "index": 0}, "environment": "cloud"}
    text = json.dumps(config, separators=(",", ":"))
    # Kubernetes puts the place in, in any image.
    text = text.replace('"index":0', f'"index":$({INDEX})')
    return [
        {"name": INDEX} | _from_label("job-index"),
        {"name": "TF_CONFIG", "value": text},
    ]


def _entries(values: dict[str, str]) -> list[dict[str, Any]]:
    return [{"name": name, "value": value} for name, value in values.items()]


def _from_label(name: str) -> dict[str, Any]:
    return {
        "valueFrom": {"fieldRef": {"fieldPath": f"metadata.labels['jobset.sigs.k8s.io/{name}']"}}
    }
