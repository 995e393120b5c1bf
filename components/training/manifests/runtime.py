"""Render the runtime of a training job's TrainJob: all that there is to say of its pods."""

from typing import Any

from trireme.components import images
from trireme.components.errors import InputError
from trireme.components.training.description.fields import Replica
from trireme.components.training.description.job import TrainingJob
from trireme.components.training.description.rules import MANAGED_BY
from trireme.components.training.kinds import ROLE, TRAINJOB
from trireme.components.training.manifests import command, pod, rendezvous
from trireme.components.training.manifests.mpijob import AS_ROOT, BEFORE_STOP
from trireme.components.training.manifests.pytorchjob import ELASTIC, LOCAL

ANY_NUMBER = 2**31 - 1

BY_ITSELF = list(range(1, 128))
"""Exit statuses of a program that nobody has killed, as the training operator sees it."""

KEYS = "/etc/mpi-keys"
"""Where the keys of an MPI job are mounted in an image that is not ours."""

SSHD = ["/usr/sbin/sshd", "-De"]
"""What a worker of an MPI job runs, as the MPI operator has it."""

_TAKE_KEYS = (
    "mkdir -p ~/.ssh && cp "
    f'{KEYS}/* ~/.ssh && chmod 700 ~/.ssh && chmod 600 ~/.ssh/id_rsa && exec "$0" "$@"'
)
"""Trainer mounts a private key that its group may read, which ssh does not accept from root."""


_HOLD_STORE = (
    f'[ "${rendezvous.INDEX}" != 0 ] || '
    'export PET_RDZV_CONF="${PET_RDZV_CONF:+$PET_RDZV_CONF,}is_host=true"; exec "$0" "$@"'
)
"""Without it torchrun tells by its address whether it is the one that all others connect to, and
the first pod's name may not be known yet when it asks for it."""


def training_runtime(job: TrainingJob) -> dict[str, Any]:
    """Returns the TrainingRuntime (``trainer.kubeflow.org/v1alpha1``) of a job.

    Each role is a replicated job of its JobSet, and each replica a Job of one pod: it then has a
    rank among all of them, and retries of its own.

    Fields: https://github.com/kubeflow/trainer/blob/v2.3.0/pkg/apis/trainer/v1alpha1/trainingruntime_types.go
    and https://github.com/kubernetes-sigs/jobset/blob/v0.12.0/api/jobset/v1alpha2/jobset_types.go

    Args:
        job: The job.

    Raises:
        InputError: The job asks for something that Trainer has nothing for.
    """
    _check(job)
    target = rendezvous.replicated_job(job, job.deciding_role)
    jobset: dict[str, Any] = {
        # Of an elastic job fewer may train than there are replicas, and they end together.
        "successPolicy": {
            "operator": "Any" if job.elastic else "All",
            "targetReplicatedJobs": [target],
        },
        "replicatedJobs": [_replicated_job(job, role) for role in _in_order(job)],
    }
    ttl = 0 if job.clean_up == "All" else job.time_to_live
    if ttl is not None:
        jobset["ttlSecondsAfterFinished"] = ttl
    spec: dict[str, Any] = {"template": {"spec": jobset}}
    if job.framework == "mpi":
        policy = {
            "numProcPerNode": job.processes_per_worker,
            "mpiImplementation": "OpenMPI",
            "sshAuthMountPath": images.MPI_KEYS if job.runs_in_ours else KEYS,
            "runLauncherAsNode": False,
        }
        spec = {"mlPolicy": {"mpi": policy}} | spec
    return {
        "apiVersion": TRAINJOB.api_version,
        "kind": "TrainingRuntime",
        "metadata": {"name": job.name, "labels": MANAGED_BY | job.labels},
        "spec": spec,
    }


def _check(job: TrainingJob) -> None:
    if job.scheduling.gang:
        raise InputError(
            "scheduling.gang: a TrainJob of ours has none, for its runtime would have to name the "
            "cluster's gang scheduler; give a runtime that does, or a queue of Kueue alone"
        )
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
        last = f"{rendezvous.host(job, role, replica.count - 1)}-xxxxx"
        if len(last) > 63:
            raise InputError(
                f"name {job.name!r}: must be {len(last) - 63} characters shorter, because the "
                f"name of the {role}'s pod in a TrainJob is made from it"
            )


def _in_order(job: TrainingJob) -> list[str]:
    """Returns the roles; what others wait for is before them."""
    return sorted(job.roles, key=lambda role: role == "launcher")


def _replicated_job(job: TrainingJob, role: str) -> dict[str, Any]:
    replica = job.roles[role]
    start = _command(job, role, replica)
    template = pod.replica_spec(job, role, TRAINJOB.container, start)["template"]
    template["metadata"]["labels"][ROLE] = role
    container = template["spec"]["containers"][0]
    container["env"] += rendezvous.variables(job, role) + _also(job, role, container["env"])
    if job.framework == "mpi" and role == "worker":
        container["lifecycle"] = BEFORE_STOP
    template["spec"]["restartPolicy"] = "OnFailure" if _stays(replica) else "Never"
    made: dict[str, Any] = {
        "name": rendezvous.replicated_job(job, role),
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
        made["template"]["spec"]["podFailurePolicy"] = _only_if_killed()
    if role == "launcher":
        workers = rendezvous.replicated_job(job, "worker")
        made["dependsOn"] = [{"name": workers, "status": "Ready"}]
    return made


def _command(job: TrainingJob, role: str, replica: Replica) -> tuple[list[str], list[str]]:
    if job.framework == "mpi":
        start, arguments = list(replica.command or SSHD), list(replica.args or [])
        if role == "launcher":
            variables = [entry["name"] for entry in pod.environment(job)]
            start, arguments = command.mpirun(job, replica, variables)
        taking = [] if job.runs_in_ours else ["sh", "-c", _TAKE_KEYS]
        return [*taking, *start], arguments
    if job.framework == "tensorflow" or _is_alone(job):
        return command.python(job, replica)
    start, arguments = command.torchrun(job, replica)
    return ["sh", "-c", _HOLD_STORE, *start] if job.elastic else start, arguments


def _is_alone(job: TrainingJob) -> bool:
    """Tells whether a PyTorch replica is one process, which needs no torchrun."""
    return job.processes_per_worker == 1 and not job.elastic


def _also(job: TrainingJob, role: str, given: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Returns the variables of the same job for another operator that are not given already."""
    wanted: list[dict[str, Any]] = []
    if job.framework in ("pytorch", "custom"):
        wanted = (LOCAL if _is_alone(job) else []) + ([ELASTIC] if job.elastic else [])
    if role == "launcher":
        wanted = AS_ROOT
    names = {entry["name"] for entry in given}
    return [entry for entry in wanted if entry["name"] not in names]


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
    """Returns the policy that is the training operator's ``ExitCode``.

    A pod that was taken off its node is made anew, and not counted.
    """
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
