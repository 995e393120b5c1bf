"""Whom a job belongs to: what is deleted with its owner outlives no run."""

import json
import math
import os
import re
import socket
from datetime import UTC, datetime
from typing import Any

from trireme.errors import TriremeError
from trireme.kubernetes import pods
from trireme.kubernetes.connection import Cluster
from trireme.kubernetes.errors import NotFound
from trireme.kubernetes.resources import PODS, WORKFLOWS
from trireme.kubernetes.step_pods import node_of

TEMPLATE = "ARGO_TEMPLATE"
"""A variable of Argo's containers: the template that a pod is made from."""

POD_NAME = "POD_NAME"
"""The variable with the name of the pod that a step runs in, on Argo."""

FAILURES = ("OnFailure", "Always")
"""The policies by which Argo tries again what has failed, the default first."""

PATIENCE = 3.0  # seconds for each question; a pod that is told to end has 30, on Kubeflow about one
SLACK = 2.0  # seconds by which clocks may differ


def owners(cluster: Cluster) -> list[dict[str, Any]]:
    """Returns owner references for what this pod creates: what owns the pod, or the pod itself."""
    # On Kubeflow Pipelines and Argo a step's pod belongs to the run's Workflow, so that a job
    # survives a step that is started again and goes with the run.
    metadata = this_pod(cluster)["metadata"]
    controllers = [
        owner for owner in metadata.get("ownerReferences") or [] if owner.get("controller")
    ]
    owner = controllers[0] if controllers else {"apiVersion": "v1", "kind": "Pod"} | metadata
    # Not as its controller: the training operator is that of the job's pods, nobody of the job.
    return [{key: owner[key] for key in ("apiVersion", "kind", "name", "uid")}]


def this_pod(cluster: Cluster, patience: float | None = None) -> dict[str, Any]:
    """Returns the pod that this process runs in."""
    # A pod's host name is its own name, unless its spec says otherwise.
    name = os.environ.get(POD_NAME) or os.environ.get("KFP_POD_NAME") or socket.gethostname()
    return cluster.get(PODS, name, cluster.namespace, patience)


def workflow_of_this_pod(cluster: Cluster) -> str:
    """Returns the name of the Workflow that the pod is of; empty for none."""
    try:
        owners_of_pod = owners(cluster)
    except NotFound:  # deleted by force
        return ""
    return _workflow_of(owners_of_pod)


def is_stopped(spec: dict[str, Any]) -> bool:
    """Tells whether somebody has stopped the run, by its Workflow's spec."""
    # Argo sets ``shutdown``; Kubeflow Pipelines 2.17 gives the run a deadline of 0 seconds.
    return bool(spec.get("shutdown")) or spec.get("activeDeadlineSeconds") == 0


def starts_again(cluster: Cluster, job: dict[str, Any]) -> bool:
    """Tells whether the step of this pod will, as far as is known, be started in another one."""
    # So it is where the node is drained or the pod deleted, and neither the run was stopped, nor it
    # or the step have run out of time, and Argo tries the step again.
    name = _workflow_of(job["metadata"].get("ownerReferences") or [])
    if not name:
        return False
    try:
        workflow = cluster.get(WORKFLOWS, name, cluster.namespace, patience=PATIENCE)
        if _is_ending(workflow):
            return False
        try:
            pod = this_pod(cluster, PATIENCE)
        except NotFound:  # deleted by force
            return True
    except TriremeError:
        return False
    if not _has_attempts(pod):
        return False
    limit, started = pod["spec"].get("activeDeadlineSeconds"), pod["status"].get("startTime")
    return not _is_over(limit, started)


def tries_failures_again(pod: dict[str, Any]) -> bool:
    """Tells whether Argo tries the step of a pod once more if its program fails.

    An expression of it is taken for one that has lost pods alone tried again, as the steps' own
    has; see docs/how-to/tune-kubeflow.md.
    """
    strategy = _retry_strategy(pod)
    if strategy is None:
        return False
    is_of_failures = strategy.get("retryPolicy", FAILURES[0]) in FAILURES
    return is_of_failures and not strategy.get("expression") and _has_attempts(pod)


def _has_attempts(pod: dict[str, Any]) -> bool:
    """Tells whether Argo may make a further attempt of a step."""
    attempt = re.search(r"\((\d+)\)$", node_of(pod))
    if not attempt:
        return False
    strategy = _retry_strategy(pod)
    limit = str(strategy.get("limit")) if strategy is not None else ""
    return int(attempt[1]) < (float(limit) if limit.isdecimal() else math.inf)


def _retry_strategy(pod: dict[str, Any]) -> dict[str, Any] | None:
    """Returns how Argo tries a step again, as its pod's containers are told; None if they are not.

    Of a large template it does not tell them.
    """
    spec = pod["spec"]
    for container in [*(spec.get("initContainers") or []), *spec["containers"]]:
        for variable in container.get("env") or []:
            if variable["name"] == TEMPLATE and variable.get("value"):
                found: dict[str, Any] = json.loads(variable["value"]).get("retryStrategy") or {}
                return found
    return None


def _workflow_of(references: list[dict[str, Any]]) -> str:
    """Returns the name of the Workflow among owner references; empty for none."""
    return next((owner["name"] for owner in references if owner["kind"] == "Workflow"), "")


def _is_ending(workflow: dict[str, Any]) -> bool:
    status = workflow.get("status") or {}
    spec = (status.get("storedWorkflowTemplateSpec") or {}) | workflow["spec"]
    if is_stopped(spec) or status.get("finishedAt"):
        return True
    return _is_over(spec.get("activeDeadlineSeconds"), status.get("startedAt"))


def _is_over(limit: int | None, started: str | None) -> bool:
    """Whether a time limit of some seconds has been reached."""
    if limit is None or started is None:
        return False
    passed = datetime.now(UTC) - pods.moment(started)
    return passed.total_seconds() > limit - SLACK
