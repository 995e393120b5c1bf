"""Render a training job as a TrainJob of Kubeflow Trainer v2."""

import json
from typing import Any

from trireme.errors import InputError
from trireme.frameworks import FRAMEWORKS
from trireme.frameworks.base import literal
from trireme.frameworks.kinds import GANG, LEAST_REPLICAS, REPLICAS, TRAINJOB
from trireme.job.fields import Replica
from trireme.job.job import TrainingJob
from trireme.manifests import pod, storage
from trireme.manifests.runtime import training_runtime

MOST = 128
"""Items that a list of a TrainJob can have."""

LONGEST_IMAGE = 500
"""Characters that the name of a TrainJob's image can have."""

MANAGER = "trireme.dev/job"
"""Whose the patches of the runtime are."""


def trainjob(job: TrainingJob) -> dict[str, Any]:
    """Returns the TrainJob (``trainer.kubeflow.org/v1alpha1``, Trainer v2.2 and newer) of a job.

    A TrainJob can say little of its pods itself, so that it comes with a TrainingRuntime that
    says all, under the key ``runtime``, which is no field of the API. A job that names a
    ClusterTrainingRuntime patches that instead.

    Fields: https://github.com/kubeflow/trainer/blob/v2.3.0/pkg/apis/trainer/v1alpha1/trainjob_types.go
    """
    if job.runtime:
        spec, more = _patched(job, job.runtime), {}
    else:
        more = {"runtime": training_runtime(job)}
        spec = {"runtimeRef": {"kind": "TrainingRuntime", "name": job.name}}
        if job.plugin.ml_policy(job):
            # Trainer would make it the number of GPUs otherwise.
            spec["trainer"] = {"numProcPerNode": job.processes_per_worker}
    if job.suspend:
        spec["suspend"] = True
    metadata = pod.metadata(job)
    if more:
        counts = {role: replica.count for role, replica in job.roles.items()}
        annotations = {REPLICAS: json.dumps(counts)}
        if job.elastic:
            annotations[LEAST_REPLICAS] = str(job.elastic.min)
        if job.scheduling.gang:
            annotations[GANG] = str(job.scheduling.gang)
        metadata["annotations"] = metadata.get("annotations", {}) | annotations
    return {
        "apiVersion": TRAINJOB.api_version,
        "kind": TRAINJOB.name,
        "metadata": metadata,
        "spec": spec,
    } | more


def _patched(job: TrainingJob, runtime: str) -> dict[str, Any]:
    """Returns the specification of a TrainJob that patches a ClusterTrainingRuntime."""
    # The nodes are the workers and, with PyTorch, the master; all are alike. Of an MPI job the
    # first node is the launcher, and the others run the image of the runtime. Whether the pods get
    # a token of their service account is the runtime's to say.
    _check(job)
    node = job.roles[job.first_role]
    environment = pod.environment(job)
    start, arguments = job.plugin.node_command(job, [entry["name"] for entry in environment])
    trainer = {
        "image": node.image,
        "numNodes": job.nodes,
        "numProcPerNode": job.processes_per_worker,
        # A TrainJob has no working directory.
        "command": [
            "sh",
            "-c",
            'cd "$0" && exec "$@"',
            literal(job.code_dir),
            *pod.with_late_variables(job, job.first_role, pod.with_packages(job, start)),
        ],
        "args": arguments,
        "env": environment,
        "resourcesPerNode": pod.resources(node),
    }
    _check_size(job, trainer, node)
    return {
        "runtimeRef": {"name": runtime},
        "trainer": trainer,
        "runtimePatches": [_patch(job, node)],
    }


def _check(job: TrainingJob) -> None:
    """Refuses what the field of a TrainJob's runtime would have to say."""
    if not job.plugin.runtime_jobs:
        names = " and ".join(
            framework.name for framework in FRAMEWORKS.values() if framework.runtime_jobs
        )
        raise InputError(
            f"runtime {job.runtime!r}: is for {names} jobs, this one is {job.framework}; "
            "leave it out"
        )
    unsupported = {
        "replicas": job.replicas,
        "elastic": job.elastic,
        "retries": job.retries is not None,
        "restart_policy": job.restart_policy,
        "time_to_live": job.time_to_live is not None,
        "clean_up": job.clean_up != "Running",
        "code": job.code,
        "dataset": job.dataset and job.dataset.way == "stage",
        "scheduling.priority": job.scheduling.priority,
        "scheduling.gang": job.scheduling.gang,
        "scheduling.scheduler": job.scheduling.scheduler,
        "scheduling.spot": job.scheduling.spot,
    }
    for field, value in unsupported.items():
        if value:
            raise InputError(
                f"{field}: runtime {job.runtime!r} would have to set this, because its TrainJob "
                "cannot; leave runtime out, or set it in the runtime"
            )


def _check_size(job: TrainingJob, trainer: dict[str, Any], node: Replica) -> None:
    """Refuses what is longer than the schema of a TrainJob allows."""
    image = trainer["image"]
    if len(image) > LONGEST_IMAGE:
        raise InputError(
            f"image: {len(image)} characters are more than the {LONGEST_IMAGE} that a TrainJob "
            "takes"
        )
    lists = {
        "command": trainer["command"],
        "args": trainer["args"],
        "env": trainer["env"],
        "volumes": storage.volumes(job, node)[0],
        "scheduling.tolerations": job.scheduling.tolerations,
    }
    for field, items in lists.items():
        if len(items) > MOST:
            raise InputError(
                f"{field}: {len(items)} are more than the {MOST} that a TrainJob takes"
            )


def _patch(job: TrainingJob, node: Replica) -> dict[str, Any]:
    """Returns what the runtime's pods get besides."""
    sources, mounts = storage.volumes(job, node)
    container = {
        "name": TRAINJOB.container,
        "volumeMounts": mounts,
        "securityContext": pod.container_security(job, node),
    }
    spec: dict[str, Any] = {
        "securityContext": pod.pod_security(job),
        **pod.placement(job),
        "containers": [container],
        "volumes": sources,
    }
    if job.service_account:
        spec["serviceAccountName"] = job.service_account
    if job.image_pull_secrets:
        spec["imagePullSecrets"] = pod.image_pull_secrets(job)
    template = {"template": {"metadata": pod.pod_metadata(job, has_rank_0=True), "spec": spec}}
    jobs = [{"name": name, "template": {"spec": template}} for name in job.plugin.runtime_jobs]
    return {
        "manager": MANAGER,
        "trainingRuntimeSpec": {"template": {"spec": {"replicatedJobs": jobs}}},
    }
