"""Render a training job as the manifest that the Kubeflow training operator takes."""

from typing import Any

from components.training.job import TrainingJob

CONTAINER = "pytorch"
"""The container that the operator injects the rendezvous into (``DefaultContainerName``)."""


def render(job: TrainingJob) -> dict[str, Any]:
    """Returns the PyTorchJob (``kubeflow.org/v1``, training operator v1.9) of a training job.

    Fields: https://github.com/kubeflow/training-operator/blob/v1.9.0/pkg/apis/kubeflow.org/v1/pytorch_types.go

    Args:
        job: The job.
    """
    replicas = {"Master": _replica(job, 1)}
    if job.workers:
        replicas["Worker"] = _replica(job, job.workers)
    run_policy: dict[str, Any] = {"cleanPodPolicy": "Running", "backoffLimit": 0}
    if job.time_limit:
        run_policy["activeDeadlineSeconds"] = job.time_limit
    return {
        "apiVersion": "kubeflow.org/v1",
        "kind": "PyTorchJob",
        "metadata": {
            "name": job.name,
            "labels": {"app.kubernetes.io/managed-by": "trireme"},
        },
        "spec": {
            "nprocPerNode": str(job.processes_per_worker),
            "runPolicy": run_policy,
            "pytorchReplicaSpecs": replicas,
        },
    }


def _replica(job: TrainingJob, count: int) -> dict[str, Any]:
    return {
        "replicas": count,
        "restartPolicy": "Never",
        "template": {
            # A sidecar that never ends would keep the job from ending.
            "metadata": {"annotations": {"sidecar.istio.io/inject": "false"}},
            "spec": {
                "automountServiceAccountToken": False,
                "containers": [
                    {
                        "name": CONTAINER,
                        "image": job.image,
                        "workingDir": job.code_dir,
                        "command": _launcher(job),
                        "args": [_literal(argument) for argument in _arguments(job)],
                        "env": [
                            {"name": name, "value": value}
                            for name, value in _environment(job).items()
                        ],
                    }
                ],
            },
        },
    }


def _launcher(job: TrainingJob) -> list[str]:
    """Returns torchrun where a replica has several processes, plain Python where it has one.

    The operator sets all that one process needs, and torchrun would import PyTorch once more
    only to wait.
    """
    if job.processes_per_worker > 1:
        return ["torchrun", job.entrypoint]
    return ["python3", job.entrypoint]


def _arguments(job: TrainingJob) -> list[str]:
    """Returns the arguments in such a way that the program gets them untouched.

    torchrun passes them through ``string.Template``, to put in the local rank.
    """
    if job.processes_per_worker > 1:
        return [_literal(argument) for argument in job.args]
    return job.args


def _environment(job: TrainingJob) -> dict[str, str]:
    directories = {
        "CODE_DIR": job.code_dir,
        "DATA_DIR": job.data_dir,
        "CHECKPOINT_DIR": job.checkpoint_dir,
        "MODEL_DIR": job.model_dir,
        # Python itself puts only the program's own folder on its path.
        "PYTHONPATH": job.code_dir,
    }
    # What torchrun would set and the operator does not.
    local = {"LOCAL_RANK": "0", "LOCAL_WORLD_SIZE": "1"} if job.processes_per_worker == 1 else {}
    return directories | local | {name: _literal(value) for name, value in job.env.items()}


def _literal(text: str) -> str:
    """Returns text that an expansion of ``$`` gives back as it was: Kubernetes', torchrun's."""
    return text.replace("$", "$$")
