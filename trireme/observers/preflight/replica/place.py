"""The place of this replica among all, and where they meet, by what the operator injects."""

from __future__ import annotations

import json
import os
import socket
import time
from typing import Any, Mapping, NamedTuple

from trireme.observers.preflight.replica.said import Skipped, problem

YOUNG = 20.0  # seconds that a name may take to be known

STRIDES = (1, 2)
"""To which others a replica is connected, by how much further they are in rank."""

EACH = 0.5  # seconds for each replica by which limits are longer: one connects to all others


class Place(NamedTuple):
    """A replica among the others.

    Attributes:
        role: As the others call it, such as ``worker``.
        rank: Its place among all ``size`` replicas; 0 is where they meet.
        address: The host where they meet, and the port of their rendezvous.
        peers: Host names of all replicas by rank, if its framework has it look them up.
    """

    role: str
    number: int
    rank: int
    size: int
    address: str
    port: int
    peers: list[str]

    @property
    def name(self) -> str:
        """As in ``worker-0``."""
        return f"{self.role}-{self.number}"


def find(config: Mapping[str, Any], environment: Mapping[str, str] = os.environ) -> Place:
    """Returns the place of this process.

    Args:
        config: ``meeting`` names the variables, several for the first that is set; ``counts`` has
            the replicas of each role, in the order of their ranks.
    """
    meeting, counts, role = config["meeting"], config["counts"], config["role"]
    size = sum(counts.values())
    if "hosts" in config:  # a rank of mpirun
        rank = int(environment["OMPI_COMM_WORLD_RANK"])
        return Place(role, rank, rank, size, config["hosts"][0], config["port"], config["hosts"])
    if "config" in meeting:
        return _of_tensorflow(json.loads(environment[meeting["config"]]), counts)
    rank = int(_first(environment, meeting["rank"]))
    address, port = _first(environment, meeting["address"]), _first(environment, meeting["port"])
    return Place(role, rank - _before(counts, role), rank, size, address, int(port), [])


def lookup_error(name: str, until: float) -> socket.gaierror | None:
    """Looks a name up until a point of time: that of a pod is known some seconds after it runs."""
    while True:
        try:
            socket.getaddrinfo(name.strip("[]"), None)
            return None
        except socket.gaierror as error:
            if time.monotonic() >= until:
                return error
        time.sleep(0.5)


def unknown(place: Place) -> list[dict[str, Any]]:
    """Returns a problem where the name of one of the next peers cannot be looked up."""
    # Each name is looked up by two replicas: by all, DNS would be asked the square of their number.
    until, count = time.monotonic() + YOUNG, len(place.peers)
    for stride in STRIDES if count else ():
        peer = place.peers[(place.rank + stride) % count]
        if error := lookup_error(peer, until):
            sentence = (
                f"replica {place.name} cannot look up the name {peer} of another replica "
                f"({error.strerror}): see whether the cluster's DNS answers in its pod"
            )
            return [problem("name", place.name, sentence, is_fatal=True)]
    return []


def _of_tensorflow(config: Mapping[str, Any], counts: Mapping[str, int]) -> Place:
    """Returns the place by TF_CONFIG; all meet at the port of the first replica."""
    cluster, task = config["cluster"], config["task"]
    role, index = task["type"], int(task["index"])
    first = next(iter(counts))
    host, _, port = cluster[first][0].rpartition(":")
    addresses = [address for name in counts for address in cluster.get(name, [])]
    peers = [address.rpartition(":")[0] for address in addresses]
    rank = _before(counts, role) + index
    return Place(role, index, rank, sum(counts.values()), host.strip("[]"), int(port), peers)


def _before(counts: Mapping[str, int], role: str) -> int:
    names = list(counts)
    return sum(counts[name] for name in names[: names.index(role)])


def _first(environment: Mapping[str, str], names: str) -> str:
    for name in names.split():
        if environment.get(name):
            return environment[name]
    raise Skipped(f"{' and '.join(names.split())} are not set")
