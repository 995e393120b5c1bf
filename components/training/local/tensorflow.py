"""What the training operator adds to the environment of a TFJob's pods: ``TF_CONFIG``.

Value for value as in pkg/controller.v1/tensorflow/{tensorflow,util}.go of training operator
v1.9, https://github.com/kubeflow/training-operator/tree/v1.9.0/pkg/controller.v1/tensorflow.
"""

import json
from typing import Any

from trireme.components.training.local.manifest import Job, Pod
from trireme.components.training.local.network import Network, declared_port

PORT_NAME, PORT = "tfjob-port", 2222


def injected(job: Job, pod: Pod, network: Network) -> dict[str, str]:
    """Returns the variables of a pod: none where it is the only one.

    Args:
        job: The TFJob.
        pod: The pod.
        network: Where its pods find each other.
    """
    if len(job.pods) == 1:
        return {}
    cluster = _cluster(job, network)
    task = {"type": pod.role.lower(), "index": pod.index}
    config: dict[str, Any]
    if job.spec.get("enableDynamicWorker"):
        config = {"cluster": _sparse(cluster, pod), "task": task}
    else:
        config = {"cluster": cluster, "task": task, "environment": "cloud"}
    return {"TF_CONFIG": json.dumps(config, separators=(",", ":"))}


def _cluster(job: Job, network: Network) -> dict[str, list[str]]:
    """Returns the addresses by role, the evaluator's too; Go writes the roles in order."""
    cluster: dict[str, list[str]] = {}
    for pod in sorted(job.pods, key=lambda pod: (pod.role.lower(), pod.index)):
        address = network.at(f"{pod.host}.{job.namespace}.svc")
        port = network.port(pod, declared_port(pod, PORT_NAME, PORT))
        cluster.setdefault(pod.role.lower(), []).append(f"{address}:{port}")
    return cluster


def _sparse(cluster: dict[str, list[str]], pod: Pod) -> dict[str, Any]:
    """Returns what a replica has to know when workers come and go: itself and the servers."""
    if pod.role == "PS":
        return {"worker": {}, "ps": [cluster["ps"][pod.index]]}
    if pod.role == "Worker":
        worker = {str(pod.index): cluster["worker"][pod.index]}
        return {"worker": worker, "ps": cluster.get("ps")}
    return {"worker": {}, "ps": []}
