"""What the MPI operator makes of an MPIJob: a launcher with a hostfile, workers to log in to.

Values as in pkg/controller/mpi_job_controller.go of MPI operator v0.8,
https://github.com/kubeflow/mpi-operator/tree/v0.8.0/pkg/controller. OpenMPI 4.1 only.
"""

import os
import re
import secrets
import shlex
import shutil
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path

from trireme.components.errors import InputError
from trireme.components.training.local import environment, mpi_host, mpi_rsh, mpi_ssh
from trireme.components.training.local.isolation import Isolated
from trireme.components.training.local.manifest import Job, Pod
from trireme.components.training.local.network import Network

_TAG = re.compile(r"\[\d+,(\d+)\]<std(?:out|err)>:")
# What mpirun says of the first rank that failed.
_FAILED = re.compile(
    r"mpirun noticed that process rank (\d+) |MPI_ABORT was invoked on rank (\d+) |"
    r"Process name: \[\[\d+,\d+\],(\d+)\]"
)
# A session of a real worker has few variables: sshd knows nothing of its container's.
_SESSION = ("PATH", "HOME", "USER", "LOGNAME", "SHELL", "LANG", "OMP_NUM_THREADS")
# OpenMPI's temporary files go where they go away with the host, however it ends.
_ISOLATED = {"OMPI_MCA_orte_tmpdir_base": "/run"}

Process = tuple[Pod, list[str], dict[str, str]]


def processes(job: Job, network: Network, logs: Path, temporary: Path) -> Iterator[Process]:
    """Yields each pod with its command and environment; writes the hostfile.

    Args:
        job: The MPIJob.
        network: Where its pods find each other.
        logs: Directory for the hostfile.
        temporary: Directory for what only this run needs.

    Raises:
        InputError: It cannot run here.
    """
    _check(job)
    slots = job.spec.get("slotsPerWorker") or 1
    image = environment.image(job, slots * max(1, len(_hosts(job))))
    hostfile = logs / "hostfile"
    lines = [f"{host}.{job.name}.{job.namespace}.svc slots={slots}\n" for host in _hosts(job)]
    hostfile.write_text("".join(lines))
    launcher_sees = _openmpi(hostfile, slots)
    if not job.spec.get("runLauncherAsWorker"):
        launcher_sees |= {"NVIDIA_VISIBLE_DEVICES": "", "NVIDIA_DRIVER_CAPABILITIES": ""}
    run = f"trireme-mpi-{secrets.token_hex(8)}-"
    launcher_has = (
        image | _this_machine() | (_shared(run, temporary) if network.shared else _ISOLATED)
    )
    if isinstance(network, Isolated):
        mpi_ssh.set_up(job, network, {name: image[name] for name in _SESSION if name in image})
    for pod in job.pods:
        role = {"K_MPI_JOB_ROLE": pod.role.lower()}
        declared = environment.declared(job, pod, network.address(pod))
        if pod.role == "Launcher":
            visible = declared | role | launcher_sees
            command = environment.command(pod, visible)
            yield pod, command, environment.inside(launcher_has, visible)
        elif network.shared:
            name = f"{run}{pod.host}.{job.name}.{job.namespace}.svc"
            session = {variable: image[variable] for variable in _SESSION if variable in image}
            yield pod, [sys.executable, "-S", "-I", mpi_host.__file__, name], session
        else:
            visible = declared | role
            command = environment.command(pod, visible) or mpi_ssh.COMMAND
            yield pod, command, environment.inside(image, visible)


def untagged(line: str) -> str:
    """Returns what a rank printed, without the mark that mpirun puts before it."""
    return _TAG.sub("", line)


def failed_rank(lines: Iterable[str]) -> tuple[int | None, list[str]]:
    """Returns the rank that an MPI job failed by, if mpirun names one, and its lines of these.

    Args:
        lines: What the launcher printed last, each rank's lines with mpirun's mark.
    """
    kept = list(lines)
    reports = [match for match in map(_FAILED.search, kept) if match]
    if not reports:
        return None, [untagged(line) for line in kept]
    rank = int(next(filter(None, reports[0].groups())))
    said = [line for line in kept if (tag := _TAG.match(line)) and int(tag[1]) == rank]
    return rank, [untagged(line) for line in said or kept]


def _check(job: Job) -> None:
    implementation = job.spec.get("mpiImplementation") or "OpenMPI"
    if implementation != "OpenMPI":
        raise InputError(f"mpiImplementation {implementation!r} cannot run here; OpenMPI can")
    if not shutil.which("mpirun"):
        raise InputError("an MPIJob needs mpirun on this machine: install OpenMPI (openmpi-bin)")
    for pod in job.of("Worker"):
        command = pod.container.get("command")
        if command and Path(str(command[0])).name != "sshd":
            raise InputError(
                f"command of Worker {command[0]!r} cannot run here: mpirun starts the ranks, so "
                "leave it out, or make it sshd"
            )


def _hosts(job: Job) -> list[str]:
    """Returns the pods that ranks run on."""
    launcher = job.of("Launcher") if job.spec.get("runLauncherAsWorker") else []
    return [pod.host for pod in [*launcher, *job.of("Worker")]]


def _openmpi(hostfile: Path, slots: int) -> dict[str, str]:
    """Returns what the operator gives a launcher for OpenMPI; there, the file is in /etc/mpi."""
    return {
        "OMPI_MCA_orte_keep_fqdn_hostnames": "true",
        "OMPI_MCA_orte_default_hostfile": str(hostfile.resolve()),
        "OMPI_MCA_plm_rsh_args": "-o ConnectionAttempts=10",
        "OMPI_MCA_orte_set_default_slots": str(slots),
    }


def _this_machine() -> dict[str, str]:
    """Returns what an image would set, and what it takes to share cores between the workers."""
    variables = {
        "OMPI_MCA_orte_tag_output": "1",  # which rank a line is from; taken off again
        "OMPI_MCA_hwloc_base_binding_policy": "none",
        "OMPI_MCA_mpi_yield_when_idle": "1",
    }
    if os.geteuid() == 0:
        variables |= {"OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1"}
    return variables


def _shared(run: str, temporary: Path) -> dict[str, str]:
    """Returns what it takes for all workers to be on one host, and to stay on its loopback.

    Their shared memory would have the same names, so they talk by TCP.
    """
    agent = temporary / "rsh"
    # By its whole path: PATH is the job's, where there may be another Python or none.
    python = shlex.quote(sys.executable)
    agent.write_text(f'#!/bin/sh\nexec {python} -I -m {mpi_rsh.__name__} "$@"\n')
    agent.chmod(0o700)
    return {
        "OMPI_MCA_plm_rsh_agent": str(agent),
        mpi_rsh.PREFIX: run,
        "OMPI_MCA_btl": "tcp,self",
        "OMPI_MCA_btl_tcp_if_include": "lo",
        "OMPI_MCA_oob_tcp_if_include": "lo",
    }
