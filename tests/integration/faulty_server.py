"""A proxy that brings the faults of a bad network to a real server on loopback."""

import contextlib
import socket
import threading
import time
from collections.abc import Callable, Iterator

SLOWLY = 32 * 1024  # bytes a second


@contextlib.contextmanager
def faulty(url: str, *faults: str) -> Iterator[tuple[str, list[str]]]:
    """Stands before a server; each connection meets the next fault, those after the last none.

    Args:
        url: The server.
        faults: ``reset``: the connection is reset; ``503``, ``429``: that is the answer;
            ``cut N``: it ends after N bytes; ``stall``: there is none.

    Yields:
        The URL to use, and the faults met so far.
    """
    left, met = list(faults), []

    def next_fault() -> str:
        met.append(left.pop(0) if left else "")
        return met[-1]

    with _before(url, next_fault) as (address, _):
        yield address, met


class Way:
    """The way to a server, which is as good as ``fault`` says for each connection that begins.

    Attributes:
        url: The server behind it.
        fault: As those of ``faulty``, or ``slow``; empty: none.
    """

    def __init__(self, url: str, connections: list[socket.socket]) -> None:
        self.url, self.fault = url, ""
        self._connections = connections

    def cut(self) -> None:
        """Ends every connection that is open."""
        _shut(self._connections)


@contextlib.contextmanager
def way(url: str) -> Iterator[Way]:
    """Stands before a server; its faults come and go."""
    found: list[Way] = []
    with _before(url, lambda: found[0].fault) as (address, connections):
        found.append(Way(address, connections))
        yield found[0]


@contextlib.contextmanager
def _before(url: str, next_fault: Callable[[], str]) -> Iterator[tuple[str, list[socket.socket]]]:
    to = int(url.rpartition(":")[2])
    listener = socket.create_server(("127.0.0.1", 0))
    connections: list[socket.socket] = []

    def serve() -> None:
        while True:
            try:
                connection, _ = listener.accept()
            except OSError:
                return
            connections.append(connection)
            arguments = (connection, next_fault(), to)
            threading.Thread(target=_meet, args=arguments, daemon=True).start()

    thread = threading.Thread(target=serve)
    thread.start()
    try:
        yield f"http://127.0.0.1:{listener.getsockname()[1]}", connections
    finally:
        listener.shutdown(socket.SHUT_RDWR)
        listener.close()
        thread.join()
        _shut(connections)


def _shut(connections: list[socket.socket]) -> None:
    for connection in connections:
        with contextlib.suppress(OSError):  # closed long ago
            connection.shutdown(socket.SHUT_RDWR)


def _meet(connection: socket.socket, fault: str, to: int) -> None:
    with connection:
        if fault == "reset":
            connection.recv(1)
            connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\1\0\0\0\0\0\0\0")
            return
        if fault == "stall":
            while connection.recv(65536):
                continue
            return
        if fault.isdigit():
            connection.recv(65536)
            head = f"HTTP/1.1 {fault} Not now\r\nContent-Length: 0\r\nConnection: close\r\n\r\n"
            connection.sendall(head.encode())
            return
        with socket.create_connection(("127.0.0.1", to)) as server:
            back = threading.Thread(target=_copy, args=(connection, server), daemon=True)
            back.start()
            limit = int(fault.split()[1]) if fault.startswith("cut") else None
            _copy(server, connection, limit, SLOWLY if fault == "slow" else None)


def _copy(
    source: socket.socket,
    target: socket.socket,
    limit: int | None = None,
    speed: int | None = None,
) -> None:
    with contextlib.suppress(OSError):
        copied = 0
        while content := source.recv(speed // 10 if speed else 65536):
            if speed:
                time.sleep(0.1)
            target.sendall(content[: None if limit is None else max(limit - copied, 0)])
            copied += len(content)
            if limit is not None and copied >= limit:
                break
        target.shutdown(socket.SHUT_RDWR)
