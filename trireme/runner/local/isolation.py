"""A host of its own for each pod: network namespace, address and host name, as in a cluster.

Every host is a process that holds the namespaces, joined to the others by a bridge in one more
namespace; nothing of it is on the machine itself. The processes are supervised, so however the
runner ends, the kernel takes the namespaces with everything in them.
"""

import os
import shlex
import shutil
import subprocess
from collections.abc import Mapping
from contextlib import ExitStack
from typing import Self

from trireme.errors import InputError
from trireme.runner.local.manifest import Job, Pod
from trireme.runner.local.supervised import supervised

SUBNET = "10.77"
GRACE = 1.0  # seconds; what holds the namespaces has nothing to put away

_SWITCH = """set -e
ip link add pods type bridge
ip link set pods up
echo $$
exec sleep infinity
"""
# A file in a tmpfs that is no longer mounted anywhere else lasts as long as the namespace.
_HOST = """set -e
echo "$1" > /proc/sys/kernel/hostname
ip link set lo up
mount -t tmpfs trireme /mnt
printf '%s' "$2" > /mnt/hosts
mount --bind /mnt/hosts /etc/hosts
echo "$1" > /mnt/hostname
if [ -e /etc/hostname ]; then mount --bind /mnt/hostname /etc/hostname; fi
umount -l /mnt
echo $$
exec sleep infinity
"""


class Isolated:
    """The hosts of a job's pods, and the bridge between them."""

    shared = False

    def __init__(self, job: Job) -> None:
        self._job = job
        self._number = {pod.name: number for number, pod in enumerate(job.pods)}
        self._pids: dict[str, int] = {}
        self._switch = 0
        self._holders = ExitStack()

    def __enter__(self) -> Self:
        missing = [tool for tool in ("ip", "nsenter", "unshare") if not shutil.which(tool)]
        if os.geteuid() != 0:
            raise InputError("isolation needs root: only root may make network namespaces")
        if missing:
            raise InputError(f"isolation needs {', '.join(missing)}: install iproute2, util-linux")
        with self._holders:
            self._switch = self._hold("--net", script=_SWITCH)
            for pod in self._job.pods:
                self._pids[pod.name] = self._hold(
                    "--net", "--uts", "--mount", script=_HOST, arguments=(pod.host, self._hosts())
                )
                self._connect(pod)
            self._holders = self._holders.pop_all()  # kept only if all of them came to be
        return self

    def __exit__(self, *_: object) -> None:
        self._holders.close()

    def at(self, name: str) -> str:
        """Returns the name itself, which every host knows."""
        return name

    def port(self, pod: Pod, declared: int) -> int:
        """Returns the declared port."""
        return declared

    def address(self, pod: Pod) -> str:
        """Returns a pod's IP address."""
        number = self._number[pod.name] + 1
        return f"{SUBNET}.{number >> 8}.{number & 255}"

    def inside(self, pod: Pod, command: list[str], directory: str) -> list[str]:
        """Returns the command that runs one on a pod's host, in a directory."""
        namespaces = ["--net", "--uts", "--mount", f"--wdns={directory}"]
        return ["nsenter", f"--target={self._pids[pod.name]}", *namespaces, "--", *command]

    def hide(self, pod: Pod, directory: str, files: Mapping[str, bytes]) -> None:
        """Puts a directory in memory with these files in the place of one of a pod's host."""
        pid = self._pids[pod.name]
        _run(pid, "--mount", ["mount", "-t", "tmpfs", "-o", "mode=755", "trireme", directory])
        for name, content in files.items():
            script = 'umask 77; mkdir -p -m 755 "${1%/*}"; cat > "$1"'
            _run(pid, "--mount", ["sh", "-c", script, "sh", f"{directory}/{name}"], content)

    def _hosts(self) -> str:
        """Returns what every host has as /etc/hosts: the names that cluster DNS would know."""
        lines = ["127.0.0.1 localhost"]
        for pod in self._job.pods:
            names = f"{pod.host} {pod.service} {self._job.dns_name(pod)}"
            lines.append(f"{self.address(pod)} {names}")
        return "\n".join(lines) + "\n"

    def _hold(self, *namespaces: str, script: str, arguments: tuple[str, ...] = ()) -> int:
        """Starts a process that makes namespaces and keeps them; returns its id."""
        command = ["unshare", *namespaces, "sh", "-c", script, "sh", *arguments]
        holder = supervised(command, GRACE, {"PATH": os.environ["PATH"]})
        self._holders.callback(_end, holder)
        assert holder.stdout is not None
        line = holder.stdout.readline()
        if not line.strip().isdigit():
            raise InputError(f"isolation is not possible here: {line.decode().strip()}")
        return int(line)

    def _connect(self, pod: Pod) -> None:
        port, pid = f"host{self._number[pod.name]}", self._pids[pod.name]
        self._in_switch(
            f"ip link add {port} type veth peer name eth0 netns {pid}",
            f"ip link set {port} master pods up",
        )
        address = f"ip address add {self.address(pod)}/16 dev eth0"
        _in_network(pid, address, "ip link set eth0 up")

    def _in_switch(self, *commands: str) -> None:
        _in_network(self._switch, *commands)


def _in_network(pid: int, *commands: str) -> None:
    for command in commands:
        _run(pid, "--net", shlex.split(command))


def _run(pid: int, namespace: str, command: list[str], content: bytes = b"") -> None:
    """Runs a command in a namespace of a process, with this on its standard input."""
    subprocess.run(
        ["nsenter", f"--target={pid}", namespace, "--", *command], check=True, input=content
    )


def _end(holder: subprocess.Popen[bytes]) -> None:
    with holder:
        holder.terminate()
