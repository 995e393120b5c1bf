"""Render a training job as a PyTorchJob."""

from typing import Any

from trireme.components.training.description.job import TrainingJob
from trireme.components.training.kinds import PYTORCHJOB
from trireme.components.training.manifests import command, pod


def pytorchjob(job: TrainingJob) -> dict[str, Any]:
    """Returns the PyTorchJob (``kubeflow.org/v1``, training operator v1.9) of a training job.

    Fields: https://github.com/kubeflow/training-operator/blob/v1.9.0/pkg/apis/kubeflow.org/v1/pytorch_types.go

    Args:
        job: A ``pytorch`` or ``custom`` job.
    """
    # The operator sets all that one process needs, and torchrun would import PyTorch once more
    # only to wait.
    alone = job.processes_per_worker == 1 and not job.elastic
    start = command.python if alone else command.torchrun
    replicas = {}
    for role, replica in job.roles.items():
        spec = pod.replica_spec(job, role, PYTORCHJOB.container, start(job, replica))
        env = spec["template"]["spec"]["containers"][0]["env"]
        env += LOCAL if alone else []
        if job.elastic and ELASTIC["name"] not in {entry["name"] for entry in env}:
            env.append(ELASTIC)
        replicas[role.capitalize()] = spec
    spec = {
        "nprocPerNode": str(job.processes_per_worker),
        "runPolicy": pod.run_policy(job),
        PYTORCHJOB.replicas: replicas,
    }
    if job.elastic:
        spec["elasticPolicy"] = {
            "minReplicas": job.elastic.min,
            "maxReplicas": job.elastic.max,
            "maxRestarts": job.elastic.max_restarts,
            "rdzvBackend": "c10d",
            "rdzvId": job.name,
        }
    return {
        "apiVersion": PYTORCHJOB.api_version,
        "kind": PYTORCHJOB.name,
        "metadata": pod.metadata(job),
        "spec": spec,
    }


LOCAL = [{"name": "LOCAL_RANK", "value": "0"}, {"name": "LOCAL_WORLD_SIZE", "value": "1"}]
"""What torchrun would set and the operator does not."""

ELASTIC = {"name": "TORCH_DISABLE_SHARE_RDZV_TCP_STORE", "value": "1"}
"""Without it the processes use the store of the rendezvous in worker-0, and the others wait for
ever for one that is gone when worker-0 is started again
(https://github.com/pytorch/pytorch/blob/v2.13.0/torch/distributed/elastic/rendezvous/dynamic_rendezvous.py)."""
