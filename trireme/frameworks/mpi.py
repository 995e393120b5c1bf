"""MPI: MPIJob of the MPI operator v0.6 to v0.8.

Fields: https://github.com/kubeflow/mpi-operator/blob/v0.8.0/pkg/apis/kubeflow/v2beta1/types.go
Values: pkg/controller/mpi_job_controller.go, https://github.com/kubeflow/mpi-operator/tree/v0.8.0
OpenMPI 4.1 only.
"""

import os
import re
import secrets
import shlex
import shutil
import sys
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, cast

from trireme.errors import InputError, exit_in_words
from trireme.frameworks import base
from trireme.frameworks.kinds import Kind
from trireme.frameworks.openmpi import host, rsh
from trireme.images import MPI, MPI_KEYS

if TYPE_CHECKING:
    from trireme.runner.local.isolation import Isolated

AS_ROOT = {"OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1"}
"""Without these OpenMPI refuses to run as the user that most images have."""

_STOP_RANKS = """\
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
BEFORE_STOP = {"preStop": {"exec": {"command": ["sh", "-c", _STOP_RANKS]}}}
"""A worker's first process is an SSH server, which ends at SIGTERM and tells nobody.

So the ranks, whose parent is OpenMPI's daemon, are told before it is, and have the pod's time to
save and to end.
"""

SSHD = ["/usr/sbin/sshd", "-De"]
"""What the operator has a worker do that has no command of its own."""

KEYS = "/etc/mpi-keys"
"""Where the keys of a TrainJob are mounted in an image that is not ours."""

_COPY_KEYS = (
    "mkdir -p ~/.ssh && cp "
    f'{KEYS}/* ~/.ssh && chmod 700 ~/.ssh && chmod 600 ~/.ssh/id_rsa && exec "$0" "$@"'
)
"""Trainer mounts a private key that its group may read, which ssh does not accept from root."""

_TAG = re.compile(r"\[\d+,(\d+)\]<std(?:out|err)>:")
# What mpirun says of the first rank that failed.
_FAILED = re.compile(
    r"mpirun noticed that process rank (\d+) |MPI_ABORT was invoked on rank (\d+) |"
    r"Process name: \[\[\d+,\d+\],(\d+)\]"
)
# A session of a real worker has few variables: sshd knows nothing of its container's. There it sees
# its own GPUs only; here a variable says which they are.
_SESSION = (
    *("PATH", "HOME", "USER", "LOGNAME", "SHELL", "LANG", "OMP_NUM_THREADS"),
    *("CUDA_VISIBLE_DEVICES", *base.WAITING),
)
# OpenMPI's temporary files go where they go away with the host, however it ends.
_ISOLATED = {"OMPI_MCA_orte_tmpdir_base": "/run"}


class Mpi(base.Framework):
    """MPI: the launcher runs mpirun, which starts the ranks on the workers over SSH."""

    name = "mpi"
    connects_by = "mpirun"
    kind = Kind(
        *("kubeflow.org", "v2beta1", "mpijobs", "MPIJob", "mpiReplicaSpecs", "mpi"),
        longest_end="-launcher-xxxxx",  # the launcher is a batch/v1 Job
        provider="Kubeflow Trainer v2.2 or newer, or the Kubeflow MPI operator v0.8 with its own "
        "CRD mpijobs.kubeflow.org, in place of the training operator's, which has another version "
        "(docs/how-to/set-up-a-cluster.md)",
    )
    image = MPI
    roles = (
        base.Role(
            "launcher",
            default=1,
            is_leader=True,
            is_single=True,
            is_idle=True,
            is_batch_job=True,
            waits_for="worker",
        ),
        base.Role("worker", default=1, has_program=False, in_jobset="node"),
    )
    injected = (
        r"K_MPI_JOB_ROLE|OMPI_MCA_(plm_rsh_args|orte_(keep_fqdn_hostnames|default_hostfile|"
        r"set_default_slots))"
    )
    meeting: ClassVar = {"hostfile": "OMPI_MCA_orte_default_hostfile", "all_reduce": "mpi4py"}
    inherited = r"(OMPI|PMIX|PRTE|I_MPI|HYDRA)_\w+"
    restart_policies = ("Never", "OnFailure")
    backoff_limit = 6  # of a batch Job
    has_processes = True
    mounts = ("/root/.ssh", "/etc/mpi")
    trainer = "trainers/mpi_classifier.py"
    runtime_jobs = ("node", "launcher")
    peer_lost = "ORTE has lost communication|lost connection to (a )?(remote|daemon)"

    def check(self, job: "base.TrainingJob") -> None:
        """Refuses what mpirun and ssh leave no room for."""
        worker = job.replicas.get("worker")
        if worker and worker.args and not worker.command:
            raise ValueError(
                "replicas.worker.args: a worker of an mpi job waits for mpirun; give the "
                "launcher args, or the worker a command as well"
            )
        if "worker" not in job.roles:
            raise ValueError("workers 0: an mpi job needs at least one worker")
        if job.run_as_user:
            raise ValueError(
                f"run_as_user {job.run_as_user}: ssh between the hosts of an mpi job needs the "
                "user that the image was made for"
            )

    def command(self, job: "base.TrainingJob", role: str, variables: list[str]) -> base.Command:
        """Returns what a replica runs; a worker without a command runs an SSH server."""
        replica = job.roles[role]
        if role == "worker":
            return list(replica.command or []), list(replica.args or [])
        return self.node_command(job, variables)

    def node_command(self, job: "base.TrainingJob", variables: list[str]) -> base.Command:
        # A rank is started over ssh and sees none of its container's variables, so mpirun passes
        # them on by name (https://docs.open-mpi.org/en/v5.0.x/man-openmpi/man1/mpirun.1.html, -x).
        handed_on = [part for name in dict.fromkeys(["PATH", *variables]) for part in ("-x", name)]
        mpirun = ["mpirun", "-np", str(job.world_size), "--bind-to", "none"]
        return base.program(job, "launcher", [*mpirun, *handed_on, "python3"])

    def variables(self, job: "base.TrainingJob", role: str) -> base.Variables:
        return base.entries(AS_ROOT) if role == "launcher" else []

    def lifecycle(self, role: str) -> dict[str, Any]:
        return BEFORE_STOP if role == "worker" else {}

    def spec(
        self, job: "base.TrainingJob", policy: dict[str, Any], replicas: dict[str, Any]
    ) -> dict[str, Any]:
        """Returns the specification; the operator makes the SSH keys of each job."""
        spec = {
            "slotsPerWorker": job.processes_per_worker,
            "runPolicy": policy,
            "launcherCreationPolicy": "WaitForWorkersReady",
            "mpiImplementation": "OpenMPI",
            self.kind.replicas: replicas,
        }
        if job.uses_trireme_images:
            spec["sshAuthMountPath"] = MPI_KEYS  # by default /root/.ssh, for root alone
        return spec

    def rendezvous(self, job: "base.TrainingJob", role: str) -> base.Variables:
        """Returns nothing: Trainer makes hostfile and keys, for workers that it calls nodes."""
        return []

    def trainjob_command(
        self, job: "base.TrainingJob", role: str, variables: list[str]
    ) -> base.Command:
        """Returns what a replica runs, which Trainer says of no worker."""
        start, arguments = self.command(job, role, variables)
        taking = [] if job.uses_trireme_images else ["sh", "-c", _COPY_KEYS]
        return [*taking, *(start or SSHD)], arguments

    def ml_policy(self, job: "base.TrainingJob") -> dict[str, Any]:
        """Returns what has Trainer make keys and hostfile."""
        policy = {
            "numProcPerNode": job.processes_per_worker,
            "mpiImplementation": "OpenMPI",
            "sshAuthMountPath": MPI_KEYS if job.uses_trireme_images else KEYS,
            "runLauncherAsNode": False,
        }
        return {"mpi": policy}

    def environment(
        self, job: "base.Job", pod: "base.Pod", network: "base.Network"
    ) -> dict[str, str]:
        """Returns what the operator adds to a pod, but for the place of the hostfile."""
        variables = {"K_MPI_JOB_ROLE": pod.role.lower()}
        if pod.role == "Launcher":
            variables |= {
                "OMPI_MCA_orte_keep_fqdn_hostnames": "true",
                "OMPI_MCA_plm_rsh_args": "-o ConnectionAttempts=10",
                "OMPI_MCA_orte_set_default_slots": str(job.spec["slotsPerWorker"]),
                "NVIDIA_VISIBLE_DEVICES": "",
                "NVIDIA_DRIVER_CAPABILITIES": "",
            }
        return variables

    def processes(self, job: "base.Job") -> int:
        return int(job.spec["slotsPerWorker"]) * len(job.of("Worker"))

    def starts(
        self,
        job: "base.Job",
        network: "base.Network",
        logs: Path,
        temporary: Path,
        images: Mapping[str, dict[str, str]],
    ) -> "Callable[[base.Pod], base.Start]":
        """Returns how the pods are started; writes the hostfile."""
        # On a shared host a worker is what stands for its SSH server, and knows no more than a
        # session.
        _check(job)
        sessions = {
            pod: {name: image[name] for name in _SESSION if name in image}
            for pod, image in images.items()
        }
        run = f"trireme-mpi-{secrets.token_hex(8)}-"
        hostfile = logs / "hostfile"
        slots, hosts = job.spec["slotsPerWorker"], map(job.dns_name, job.of("Worker"))
        hostfile.write_text("".join(f"{name} slots={slots}\n" for name in hosts))
        launcher = _this_machine() | {"OMPI_MCA_orte_default_hostfile": str(hostfile.resolve())}
        if network.shared:
            launcher |= _shared(run, temporary)
        else:
            from trireme.frameworks.openmpi import ssh

            ssh.set_up(job, cast("Isolated", network), sessions, SSHD[0])
            launcher |= _ISOLATED

        def start(pod: "base.Pod") -> base.Start:
            if pod.role == "Launcher":
                return base.Start(images[pod.name] | launcher)
            if network.shared:
                name = f"{run}{job.dns_name(pod)}"
                command = [sys.executable, "-S", "-I", host.__file__, name]
                return base.Start(sessions[pod.name], command, True)
            return base.Start(images[pod.name], SSHD)

        return start

    def shown(self, lines: str) -> str:
        """Returns what ranks printed, without the mark that mpirun puts before each line."""
        return _TAG.sub("", lines)

    def explain_failure(
        self, replica: str, status: int, lines: Iterable[str]
    ) -> tuple[str, list[str]]:
        """Blames the rank that mpirun names, whose own exit statuses stand for no signal."""
        if not replica.startswith("launcher"):
            return f"replica {replica} {exit_in_words(status)}", list(lines)
        rank, lines = failed_rank(lines)
        subject = f"replica {replica}" if rank is None else f"rank {rank} of {replica}"
        return f"{subject} exited with status {status}", lines

    def is_fatal(self, job: "base.Job", pod: "base.Pod") -> bool:
        """Only the launcher's failure is: mpirun notices what its workers do."""
        return pod.role == "Launcher"

    def serves(self, job: "base.Job", pod: "base.Pod") -> bool:
        return pod.role == "Worker"


def failed_rank(lines: Iterable[str]) -> tuple[int | None, list[str]]:
    """Returns the rank that an MPI job failed by, if mpirun names one, and its lines of these."""
    all_lines = list(lines)
    reports = [match for match in map(_FAILED.search, all_lines) if match]
    if not reports:
        return None, [_TAG.sub("", line) for line in all_lines]
    rank = int(next(filter(None, reports[0].groups())))
    rank_lines = [line for line in all_lines if (tag := _TAG.match(line)) and int(tag[1]) == rank]
    return rank, [_TAG.sub("", line) for line in rank_lines or all_lines]


def _check(job: "base.Job") -> None:
    if not shutil.which("mpirun"):
        raise InputError("an MPIJob needs mpirun on this machine: install OpenMPI (openmpi-bin)")
    for pod in job.of("Worker"):
        command = pod.container.get("command")
        if command and Path(str(command[0])).name != "sshd":
            raise InputError(
                f"command of Worker {command[0]!r} cannot run here: mpirun starts the ranks, so "
                "leave it out, or make it sshd"
            )


def _this_machine() -> dict[str, str]:
    """Returns what an image would set, and what it takes to share cores between the workers."""
    variables = {
        "OMPI_MCA_orte_tag_output": "1",  # which rank a line is from; taken off again
        "OMPI_MCA_hwloc_base_binding_policy": "none",
        "OMPI_MCA_mpi_yield_when_idle": "1",
    }
    return variables | (AS_ROOT if os.geteuid() == 0 else {})


def _shared(run: str, temporary: Path) -> dict[str, str]:
    """Returns what it takes for all workers to be on one host, and to stay on its loopback."""
    # Their shared memory would have the same names, so they talk by TCP.
    agent = temporary / "rsh"
    # By its whole path: PATH is the job's, where there may be another Python or none.
    command = shlex.join([sys.executable, "-S", "-I", rsh.__file__])
    agent.write_text(f'#!/bin/sh\nexec {command} "$@"\n')
    agent.chmod(0o700)
    return {
        "OMPI_MCA_plm_rsh_agent": str(agent),
        rsh.PREFIX: run,
        "OMPI_MCA_btl": "tcp,self",
        "OMPI_MCA_btl_tcp_if_include": "lo",
        "OMPI_MCA_oob_tcp_if_include": "lo",
    }


FRAMEWORKS = (Mpi(),)
