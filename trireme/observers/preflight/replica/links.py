"""The links between replicas: who reaches whom, how soon, and how much goes through.

Each is connected to the next one and to the one after that, as the rings of an all-reduce are, so
that it takes as long for 64 replicas as for 3, and every replica sends to two others and hears of
two: what is wrong with all of its links is its own fault.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import socket
import struct
import threading
import time
from pathlib import Path
from typing import Any

from trireme.observers.preflight.replica.meeting import TRY, WORD, Meeting, close, listener
from trireme.observers.preflight.replica.place import STRIDES, Place
from trireme.observers.preflight.replica.said import Failed

PINGS = 8
TIME = 0.7  # seconds in which each sends to another
BLOCK = b"\0" * (1 << 20)

_SIOCGIFADDR = 0x8915
# Of struct tcp_info (linux/tcp.h).
_RESENT, _SENT = 100, 136


class Links:
    """The links of one replica."""

    def __init__(self, place: Place, meeting: Meeting) -> None:
        self._place, self._meeting = place, meeting
        self.address, self.interface = own_address(place, meeting.connection.getsockname()[0])
        # Any port, as the backends of an all-reduce take.
        self._listener = listener(self.address, 0)
        self._received: dict[int, float] = {}
        self._arrived = threading.Condition()
        threading.Thread(target=self._accept, daemon=True).start()

    @property
    def port(self) -> int:
        """Where others reach it."""
        port: int = self._listener.getsockname()[1]
        return port

    def measure(self, peers: list[dict[str, Any]]) -> list[dict[str, Any]]:
        """Returns what its links to others are like; all replicas call this at once.

        Args:
            peers: ``name``, ``address`` and ``port`` of each replica, by rank.
        """
        rank, size = self._place.rank, self._place.size
        strides = [stride for stride in STRIDES if stride < size]
        links = [self._connect(peers[(rank + stride) % size]) for stride in strides]
        reached = self._meeting.exchange([link.get("error") for link in links])
        connections = [link.pop("socket", None) for link in links]
        if any(error for errors in reached for error in errors):
            return [link for link in links if "error" in link]
        for link, connection in zip(links, connections):
            link["answer"] = _answers(connection)
        for link, connection, stride in zip(links, connections, strides):
            self._meeting.exchange(None)
            link["resent"] = _fill(connection)
            received = self._wait_for((rank - stride) % size)
            sent = self._meeting.exchange(received)
            link["rate"] = sent[(rank + stride) % size]
        return links

    def _connect(self, peer: dict[str, Any]) -> dict[str, Any]:
        link: dict[str, Any] = {"from": self._place.name, "to": peer["name"]}
        for _ in range(2):
            try:
                link["socket"] = socket.create_connection((peer["address"], peer["port"]), TRY)
                link["socket"].sendall(struct.pack("!I", self._place.rank))
                link.pop("error", None)
                break
            except OSError as error:
                is_late = isinstance(error, socket.timeout)
                link["error"] = "no answer" if is_late else error.strerror or str(error)
                link["port"] = peer["port"]
        return link

    def _accept(self) -> None:
        while True:
            try:
                connection, _ = self._listener.accept()
            except OSError:
                return
            threading.Thread(target=self._receive, args=(connection,), daemon=True).start()

    def _receive(self, connection: socket.socket) -> None:
        """Answers what is small at once; counts what is large."""
        with connection, contextlib.suppress(OSError, struct.error):
            connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            (rank,) = struct.unpack("!I", _exactly(connection, 4))
            for _ in range(PINGS):
                connection.sendall(_exactly(connection, 1))
            _exactly(connection, 1)
            buffer, count, began = bytearray(1 << 20), 0, time.perf_counter()
            connection.settimeout(0.1)
            while (elapsed := time.perf_counter() - began) < TIME:
                with contextlib.suppress(socket.timeout):
                    if not (more := connection.recv_into(buffer)):
                        break
                    count += more
            with self._arrived:
                self._received[rank] = count / max(elapsed, 1e-9)
                self._arrived.notify_all()

    def _wait_for(self, rank: int) -> float:
        with self._arrived:
            self._arrived.wait_for(lambda: rank in self._received, WORD)
            return self._received.pop(rank, 0.0)

    def close(self) -> None:
        """Gives the port back."""
        close(self._listener)


def own_address(place: Place, default: str) -> tuple[str, str]:
    """Returns the address that others are to reach this replica by, and its interface if given."""
    for variable in ("NCCL_SOCKET_IFNAME", "GLOO_SOCKET_IFNAME"):
        selector = os.environ.get(variable, "")
        if not selector or (variable.startswith("NCCL") and not Path("/dev/nvidiactl").exists()):
            continue
        names = [name for _, name in socket.if_nameindex()]
        fitting = [name for name in names if _fits(name, selector)]
        addresses = {name: address for name in fitting if (address := _address(name))}
        others = ", ".join(name for name in names if _address(name) and name != "lo") or "none"
        if not addresses:
            raise Failed(
                "interface",
                place.name,
                f"replica {place.name} has no network interface {selector!r} with an address, "
                f"which {variable} names (network.interface); it has {others}",
            )
        name, address = next(iter(addresses.items()))
        if address.startswith("127.") and not default.startswith("127."):
            raise Failed(
                "interface",
                place.name,
                f"replica {place.name} is to be reached at its loopback interface {name!r}, "
                f"which {variable} names (network.interface); it has {others}",
            )
        return address, name
    return default, ""


def _fits(name: str, selector: str) -> bool:
    """Tells whether NCCL or gloo take an interface: ``^`` is none of these, ``=`` exactly."""
    # https://docs.nvidia.com/deeplearning/nccl/user-guide/docs/env.html#nccl-socket-ifname
    names = [prefix.strip() for prefix in selector.lstrip("^=").split(",")]
    if selector.startswith("="):
        return name in names
    fits = any(name.startswith(prefix) for prefix in names)
    return not fits if selector.startswith("^") else fits


def _address(name: str) -> str:
    """Returns the IPv4 address of an interface; empty where it has none."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as asking:
        try:
            request = struct.pack("256s", name.encode()[:15])
            return socket.inet_ntoa(fcntl.ioctl(asking, _SIOCGIFADDR, request)[20:24])
        except OSError:
            return ""


def _answers(connection: socket.socket) -> float:
    """Returns how long an answer takes, in seconds: the best of several."""
    connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    connection.settimeout(WORD)
    best = float("inf")
    for _ in range(PINGS):
        began = time.perf_counter()
        connection.sendall(b"p")
        _exactly(connection, 1)
        best = min(best, time.perf_counter() - began)
    return best


def _fill(connection: socket.socket) -> float:
    """Sends as much as goes through; returns the share of the packets that were sent again."""
    connection.settimeout(0.1)
    until = time.perf_counter() + TIME
    resent = 0.0
    with connection:
        with contextlib.suppress(OSError):
            connection.sendall(b"g")
            while time.perf_counter() < until:
                resent = _resent(connection)
                with contextlib.suppress(socket.timeout):
                    connection.send(BLOCK)
        with contextlib.suppress(OSError):
            resent = _resent(connection)
    return resent


def _resent(connection: socket.socket) -> float:
    info = connection.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, 256)
    if len(info) < _SENT + 4:
        return 0.0
    again, sent = (struct.unpack_from("I", info, at)[0] for at in (_RESENT, _SENT))
    return float(again) / max(sent, 1) if again >= 3 else 0.0


def _exactly(connection: socket.socket, count: int) -> bytes:
    data = b""
    while len(data) < count:
        more = connection.recv(count - len(data))
        if not more:
            raise OSError("closed")
        data += more
    return data
