"""Render the runtime of a training job's TrainJob: all that there is to say of its pods."""

from typing import Any

from trireme.errors import InputError
from trireme.frameworks.kinds import ROLE, TRAINJOB
from trireme.job.fields import Replica
from trireme.job.job import TrainingJob
from trireme.job.rules import MANAGED_BY
from trireme.manifests import pod

ANY_NUMBER = 2**31 - 1

_SCHEDULERS = {"coscheduling": "scheduler-plugins-scheduler", "volcano": "volcano"}
"""What the schedulers call themselves by default, as Trainer leaves that to the runtime."""

VOLCANO_QUEUE = "scheduling.volcano.sh/queue-name"
"""The annotation of a runtime that has the queue of Volcano."""

BY_ITSELF = list(range(1, 128))
"""Exit statuses of a program that nobody has killed, as the training operator sees it."""


def training_runtime(job: TrainingJob) -> dict[str, Any]:
    """Returns the TrainingRuntime (``trainer.kubeflow.org/v1alpha1``) of a job.

    Each role is a replicated job of its JobSet, and each replica a Job of one pod: it then has a
    rank among all of them, and retries of its own.

    Fields: https://github.com/kubeflow/trainer/blob/v2.3.0/pkg/apis/trainer/v1alpha1/trainingruntime_types.go
    and https://github.com/kubernetes-sigs/jobset/blob/v0.12.0/api/jobset/v1alpha2/jobset_types.go
    """
    _check(job)
    plugin = job.plugin
    jobset: dict[str, Any] = {
        # Of an elastic job fewer may train than there are replicas, and they end together.
        "successPolicy": {
            "operator": "Any" if job.elastic else "All",
            "targetReplicatedJobs": [plugin.role(job.deciding_role).in_jobset],
        },
        # What others wait for is before them.
        "replicatedJobs": [
            _replicated_job(job, role)
            for role in sorted(job.roles, key=lambda role: bool(plugin.role(role).waits_for))
        ],
    }
    ttl = 0 if job.clean_up == "All" else job.time_to_live
    if ttl is not None:
        jobset["ttlSecondsAfterFinished"] = ttl
    template: dict[str, Any] = {"spec": jobset}
    if job.scheduling.gang and job.scheduling.queue:
        # https://github.com/kubeflow/trainer/blob/v2.3.0/pkg/runtime/framework/plugins/volcano/volcano.go
        template = {"metadata": {"annotations": {VOLCANO_QUEUE: job.scheduling.queue}}} | template
    spec: dict[str, Any] = {"template": template}
    if job.scheduling.gang:
        spec = {"podGroupPolicy": {str(job.scheduling.gang): {}}} | spec
    if policy := plugin.ml_policy(job):
        spec = {"mlPolicy": policy} | spec
    return {
        "apiVersion": TRAINJOB.api_version,
        "kind": "TrainingRuntime",
        "metadata": {"name": job.name, "labels": MANAGED_BY | job.labels},
        "spec": spec,
    }


def _check(job: TrainingJob) -> None:
    _check_gang(job)
    if job.clean_up == "None":
        raise InputError(
            "clean_up None: the pods of a TrainJob that still run are removed when it has ended; "
            "give Running or All"
        )
    for role, replica in job.roles.items():
        if replica.restart_policy == "Always":
            raise InputError(
                f"restart_policy Always of the {role}: a TrainJob's replicas take Never, "
                "OnFailure or ExitCode"
            )
        last = f"{job.plugin.host(job, role, replica.count - 1)}-xxxxx"
        if len(last) > 63:
            raise InputError(
                f"name {job.name!r}: must be {len(last) - 63} characters shorter, because the "
                f"name of the {role}'s pod in a TrainJob is made from it"
            )


def _check_gang(job: TrainingJob) -> None:
    gang, waiting = job.scheduling.gang, [job.plugin.role(role).waits_for for role in job.roles]
    if gang is True:
        raise InputError(
            "scheduling.gang true: a TrainJob names its gang scheduler; give volcano or "
            "coscheduling, whichever the cluster has"
        )
    if gang and (job.elastic or any(waiting)):
        whose = "an elastic job" if job.elastic else f"an {job.framework} job"
        raise InputError(
            f"scheduling.gang: all replicas of a TrainJob are its gang, and those of {whose} do "
            "not start together; leave it out"
        )
    if gang == "coscheduling" and job.scheduling.queue:
        raise InputError(
            f"scheduling.queue {job.scheduling.queue!r}: coscheduling has no queues; leave it out, "
            "or gang"
        )


def _replicated_job(job: TrainingJob, role: str) -> dict[str, Any]:
    replica, plugin = job.roles[role], job.plugin
    variables = [entry["name"] for entry in pod.environment(job)]
    command = plugin.trainjob_command(job, role, variables)
    rendezvous = plugin.rendezvous(job, role)
    template = pod.template(job, role, TRAINJOB.container, command, rendezvous)
    template["metadata"]["labels"][ROLE] = role
    template["spec"]["restartPolicy"] = "OnFailure" if _stays(replica) else "Never"
    if job.scheduling.gang:
        template["spec"].setdefault("schedulerName", _SCHEDULERS[str(job.scheduling.gang)])
    replicated_job: dict[str, Any] = {
        "name": plugin.role(role).in_jobset,
        "replicas": replica.count,
        "template": {
            "spec": {
                "parallelism": 1,
                "completions": 1,
                "backoffLimit": _backoff(job, replica),
                "template": template,
            }
        },
    }
    if replica.restart_policy == "ExitCode":
        replicated_job["template"]["spec"]["podFailurePolicy"] = _only_if_killed()
    if before := plugin.role(role).waits_for:
        replicated_job["dependsOn"] = [{"name": plugin.role(before).in_jobset, "status": "Ready"}]
    return replicated_job


def _stays(replica: Replica) -> bool:
    """Tells whether a replica that fails is started again in the same pod."""
    return replica.restart_policy == "OnFailure"


def _backoff(job: TrainingJob, replica: Replica) -> int:
    limit = 0 if replica.restart_policy == "Never" else job.restart_limit
    if limit is None:
        return ANY_NUMBER
    # A Job whose pod stays fails *at* this number of restarts, and at the first where it is zero
    # (pastBackoffLimitOnFailure in Kubernetes' pkg/controller/job/job_controller.go).
    return limit + 1 if limit and _stays(replica) else limit


def _only_if_killed() -> dict[str, Any]:
    """Returns the policy that is the training operator's ``ExitCode``."""
    # A pod that was removed from its node is made anew, and not counted.
    return {
        "rules": [
            {
                "action": "Ignore",
                "onPodConditions": [{"type": "DisruptionTarget", "status": "True"}],
            },
            {
                "action": "FailJob",
                "onExitCodes": {
                    "containerName": TRAINJOB.container,
                    "operator": "In",
                    "values": BY_ITSELF,
                },
            },
        ]
    }
