"""The network in which the pods of a job find each other."""

from typing import Protocol, Self

from trireme.runner.local.manifest import Pod
from trireme.runner.local.ports import Ports


class Network(Protocol):
    """Where pods find each other: a ``Loopback``, or hosts of their own that are ``Isolated``."""

    shared: bool

    def at(self, name: str) -> str:
        """Returns what a pod is reached by whose DNS name in the cluster is given."""

    def port(self, pod: Pod, declared: int) -> int:
        """Returns the port of a pod whose manifest declares one."""

    def inside(self, pod: Pod, command: list[str], directory: str) -> list[str]:
        """Returns the command that runs one on a pod's host, in a directory."""


class Loopback:
    """All pods share 127.0.0.1, so every one has a port of its own."""

    shared = True

    def __init__(self) -> None:
        self._free = Ports()
        self._ports: dict[str, int] = {}

    def at(self, name: str) -> str:
        """Returns the address that all pods share."""
        return "127.0.0.1"

    def port(self, pod: Pod, declared: int) -> int:
        """Returns a free port in place of the declared one, always the same for a pod."""
        if pod.name not in self._ports:
            self._ports[pod.name] = self._free.take()
        return self._ports[pod.name]

    def inside(self, pod: Pod, command: list[str], directory: str) -> list[str]:
        """Returns the command as it is."""
        return command

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._free.close()
