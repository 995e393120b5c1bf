"""A proxy that brings the faults of a bad network to a real server on loopback."""

import contextlib
import socket
import threading
from collections.abc import Iterator


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
    to = int(url.rpartition(":")[2])
    listener = socket.create_server(("127.0.0.1", 0))
    connections: list[socket.socket] = []

    def serve() -> None:
        while True:
            try:
                connection, _ = listener.accept()
            except OSError:
                return
            fault = left.pop(0) if left else ""
            met.append(fault)
            connections.append(connection)
            threading.Thread(target=_meet, args=(connection, fault, to), daemon=True).start()

    thread = threading.Thread(target=serve)
    thread.start()
    try:
        yield f"http://127.0.0.1:{listener.getsockname()[1]}", met
    finally:
        listener.shutdown(socket.SHUT_RDWR)
        listener.close()
        thread.join()
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
            _copy(server, connection, int(fault.split()[1]) if fault else None)


def _copy(source: socket.socket, target: socket.socket, limit: int | None = None) -> None:
    with contextlib.suppress(OSError):
        copied = 0
        while content := source.recv(65536):
            target.sendall(content[: None if limit is None else max(limit - copied, 0)])
            copied += len(content)
            if limit is not None and copied >= limit:
                break
        target.shutdown(socket.SHUT_RDWR)
