"""Whom a job belongs to: what is deleted with its owner outlives no run."""

import os
import socket
from typing import Any

from components.training.cluster.connection import Cluster
from components.training.cluster.resources import PODS


def owners(cluster: Cluster) -> list[dict[str, Any]]:
    """Returns owner references for what this pod creates: what owns the pod, or the pod itself.

    On Kubeflow Pipelines and Argo a step's pod belongs to the run's Workflow, so that a job
    survives a step that is started again and goes with the run.

    Args:
        cluster: The cluster that this is a pod of.

    Raises:
        Refused: This pod may not read itself.
    """
    metadata = this_pod(cluster)["metadata"]
    controllers = [
        owner for owner in metadata.get("ownerReferences") or [] if owner.get("controller")
    ]
    owner = controllers[0] if controllers else {"apiVersion": "v1", "kind": "Pod"} | metadata
    # Not as its controller: the training operator is that of the job's pods, nobody of the job.
    return [{key: owner[key] for key in ("apiVersion", "kind", "name", "uid")}]


def this_pod(cluster: Cluster) -> dict[str, Any]:
    """Returns the pod that this process runs in.

    Args:
        cluster: The cluster that it is a pod of.

    Raises:
        Refused: This pod may not read itself.
    """
    # A pod's host name is its own name, unless its spec says otherwise.
    name = os.environ.get("POD_NAME") or os.environ.get("KFP_POD_NAME") or socket.gethostname()
    return cluster.get(PODS, name, cluster.namespace)
