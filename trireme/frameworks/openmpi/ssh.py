"""Passwordless SSH between the isolated hosts of an MPIJob, by a key that only this job has.

The key is made in memory and lies in file systems in memory, which only the hosts see and which
go with them: https://github.com/kubeflow/mpi-operator/tree/v0.8.0 keeps it in a Secret.
"""

import shlex
import shutil
from collections.abc import Mapping
from typing import TYPE_CHECKING

from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ec

from trireme.errors import InputError

if TYPE_CHECKING:
    from trireme.runner.local.isolation import Isolated
    from trireme.runner.local.manifest import Job

_CLIENT = """Host *
    IdentityFile /etc/ssh/job_key
    StrictHostKeyChecking no
    UserKnownHostsFile /dev/null
    LogLevel ERROR
"""
_SERVER = """HostKey /etc/ssh/job_key
AuthorizedKeysFile /etc/ssh/job_key.pub
AuthenticationMethods publickey
PidFile none
ForceCommand env {variables} sh -c "$SSH_ORIGINAL_COMMAND"
"""
# By a command because a user's own .bashrc on this machine, which no image has, undoes SetEnv.


def set_up(
    job: "Job", hosts: "Isolated", sessions: Mapping[str, Mapping[str, str]], sshd: str
) -> None:
    """Lets the pods of a job log in to each other.

    Args:
        sessions: The variables of a session, by the name of the pod that it is in.
    """
    for program in (sshd, "ssh"):
        if not shutil.which(program):
            raise InputError(f"an isolated MPIJob needs {program}: install OpenSSH")
    key = ec.generate_private_key(ec.SECP521R1())
    files = {
        "ssh_config": _CLIENT.encode(),
        "job_key": key.private_bytes(
            serialization.Encoding.PEM,
            serialization.PrivateFormat.OpenSSH,
            serialization.NoEncryption(),
        ),
        "job_key.pub": key.public_key().public_bytes(
            serialization.Encoding.OpenSSH, serialization.PublicFormat.OpenSSH
        ),
    }
    for pod in job.pods:
        settings = shlex.join(f"{name}={value}" for name, value in sessions[pod.name].items())
        server = _SERVER.format(variables=settings).encode()
        hosts.hide(pod, "/etc/ssh", files | {"sshd_config": server})
        hosts.hide(pod, "/run", {"sshd/.keep": b""})  # sshd wants a directory of its own
