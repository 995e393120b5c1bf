"""Render a training job as a TFJob."""

from typing import Any

from trireme.components.training.description.job import TrainingJob
from trireme.components.training.kinds import TFJOB
from trireme.components.training.manifests import command, pod

ROLES = {"chief": "Chief", "ps": "PS", "worker": "Worker", "evaluator": "Evaluator"}


def tfjob(job: TrainingJob) -> dict[str, Any]:
    """Returns the TFJob (``kubeflow.org/v1``, training operator v1.9) of a training job.

    Fields: https://github.com/kubeflow/training-operator/blob/v1.9.0/pkg/apis/kubeflow.org/v1/tensorflow_types.go

    Args:
        job: A ``tensorflow`` job.
    """
    spec: dict[str, Any] = {
        "runPolicy": pod.run_policy(job),
        TFJOB.replicas: {
            ROLES[role]: pod.replica_spec(job, role, TFJOB.container, command.python(job, replica))
            for role, replica in job.roles.items()
        },
    }
    if job.success_policy == "AllWorkers":
        spec["successPolicy"] = "AllWorkers"
    return {
        "apiVersion": TFJOB.api_version,
        "kind": TFJOB.name,
        "metadata": pod.metadata(job),
        "spec": spec,
    }
