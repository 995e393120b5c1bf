"""Render a training job as an MPIJob."""

from typing import Any

from trireme.components import images
from trireme.components.training.description.job import TrainingJob
from trireme.components.training.kinds import MPIJOB
from trireme.components.training.manifests import command, pod

AS_ROOT = [
    {"name": "OMPI_ALLOW_RUN_AS_ROOT", "value": "1"},
    {"name": "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM", "value": "1"},
]
"""Without these OpenMPI refuses to run as the user that most images have."""

_TELL_RANKS = """\
exec 2>/dev/null
ranks=
for process in /proc/[0-9]*; do
    parent=$(grep -s ^PPid: $process/status)
    case $(cat /proc/${parent##*[!0-9]}/comm) in
    orted|prted) ranks="$ranks ${process#/proc/}" ;;
    esac
done
for rank in $ranks; do kill $rank; done
for rank in $ranks; do while kill -0 $rank; do sleep 0.1; done; done
"""
BEFORE_STOP = {"preStop": {"exec": {"command": ["sh", "-c", _TELL_RANKS]}}}
"""A worker's first process is an SSH server, which ends at SIGTERM and tells nobody.

So the ranks, whose parent is OpenMPI's daemon, are told before it is, and have the pod's time to
save and to end.
"""


def mpijob(job: TrainingJob) -> dict[str, Any]:
    """Returns the MPIJob (``kubeflow.org/v2beta1``, MPI operator v0.6 to v0.8) of a training job.

    The launcher runs mpirun over the hostfile that the operator writes. The operator makes the
    SSH keys of each job; a worker without a command runs an SSH server.

    Fields: https://github.com/kubeflow/mpi-operator/blob/v0.8.0/pkg/apis/kubeflow/v2beta1/types.go

    Args:
        job: An ``mpi`` job.
    """
    variables = [entry["name"] for entry in pod.environment(job)]
    launcher, worker = job.roles["launcher"], job.roles["worker"]
    replicas = {
        "Launcher": pod.replica_spec(
            job, "launcher", MPIJOB.container, command.mpirun(job, launcher, variables)
        ),
        "Worker": pod.replica_spec(
            job, "worker", MPIJOB.container, (worker.command or [], worker.args or [])
        ),
    }
    replicas["Launcher"]["template"]["spec"]["containers"][0]["env"] += [
        entry for entry in AS_ROOT if entry["name"] not in variables
    ]
    replicas["Worker"]["template"]["spec"]["containers"][0]["lifecycle"] = BEFORE_STOP
    spec: dict[str, Any] = {
        "slotsPerWorker": job.processes_per_worker,
        "runPolicy": pod.run_policy(job),
        "launcherCreationPolicy": "WaitForWorkersReady",
        "mpiImplementation": "OpenMPI",
        MPIJOB.replicas: replicas,
    }
    if job.runs_in_ours:
        spec["sshAuthMountPath"] = images.MPI_KEYS  # by default /root/.ssh, for root alone
    return {
        "apiVersion": MPIJOB.api_version,
        "kind": MPIJOB.name,
        "metadata": pod.metadata(job),
        "spec": spec,
    }
