"""The meeting of all replicas: the first one passes on to all what each of them says."""

from __future__ import annotations

import contextlib
import json
import socket
import threading
import time
from typing import Any, Callable

from trireme.observers.preflight.replica.place import Place
from trireme.observers.preflight.replica.said import Failed, Skipped

TRY = 3.0  # seconds that a connection may take
PAUSE = 0.3  # seconds between two tries
WORD = 10.0  # seconds for the first answer of whoever listens
REFUSED = 60.0  # seconds after which whoever refuses is past it: it runs, and does not listen
PINGS = 8


class Hub(threading.Thread):
    """Waits for all replicas on the job's own port, in the place of its program."""

    def __init__(self, place: Place, token: str, patience: float) -> None:
        super().__init__(daemon=True)
        self._size, self._token, self._patience = place.size, token, patience
        self._lock = threading.Lock()
        self._connections: dict[int, socket.socket] = {}
        self._said: dict[int, dict[int, Any]] = {}
        self._problem = ""
        self._all_here = threading.Event()
        self._here, self._are_gone = 0, threading.Event()
        try:
            self._listener = listener(place.address, place.port)
        except OSError as error:
            sentence = (
                f"port {place.port} of replica {place.name}, where all replicas meet, cannot be "
                f"listened on ({error.strerror}): see what else listens there"
            )
            raise Failed("port", place.name, sentence) from None

    def run(self) -> None:
        """Takes connections until all replicas are there."""
        threading.Thread(target=self._watch, daemon=True).start()
        while not self._all_here.is_set():
            try:
                connection, _ = self._listener.accept()
            except OSError:  # closed
                return
            threading.Thread(target=self._serve, args=(connection,), daemon=True).start()

    def finish(self) -> None:
        """Waits until all others have left: what they are told ends with this process."""
        self._are_gone.wait(TRY)

    def _watch(self) -> None:
        if not self._all_here.wait(self._patience):
            with self._lock:
                count = self._size - len(self._connections)
            self._give_up(f"{count} of {self._size} replicas did not come")
        close(self._listener)  # the port is the program's again

    def _serve(self, connection: socket.socket) -> None:
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        stream = connection.makefile("rb")
        try:
            first = connection.recv(1 << 16, socket.MSG_PEEK)
            if not first:
                return
            if not first.startswith(b'{"token"'):
                # The program of another replica, which has been started again.
                self._give_up("the other replicas are past it")
                return
            hello = json.loads(stream.readline())
            if hello["token"] != self._token:
                return
            rank = hello["rank"]
            _send(connection, {"welcome": True})
            with self._lock:
                self._connections[rank] = connection
                self._here += 1
                if len(self._connections) == self._size:
                    self._all_here.set()
            for line in iter(stream.readline, b""):
                self._take(rank, json.loads(line))
            self._leave(f"rank {rank} has ended")
        except Exception:  # also of what no replica of ours says
            self._leave("a connection broke")
        finally:
            stream.close()
            connection.close()

    def _take(self, rank: int, message: dict[str, Any]) -> None:
        if "ping" in message:
            _send(self._connections[rank], {"time": time.time()})
            return
        number = message["number"]
        with self._lock:
            contents = self._said.setdefault(number, {})
            contents[rank] = message["content"]
            if len(contents) < self._size:
                return
            del self._said[number]
            everything = _line({"all": [contents[peer] for peer in range(self._size)]})
            for connection in self._connections.values():
                connection.sendall(everything)

    def _leave(self, why: str) -> None:
        with self._lock:
            self._here -= 1
            if self._here <= 1:  # this one, which waits for the others
                self._are_gone.set()
        self._give_up(why)

    def _give_up(self, why: str) -> None:
        self._all_here.set()
        with self._lock:
            self._problem = self._problem or why
            for connection in self._connections.values():
                with contextlib.suppress(OSError):
                    _send(connection, {"skipped": self._problem})


class Meeting:
    """One replica's connection to the hub."""

    def __init__(
        self, place: Place, token: str, patience: float, wait: Callable[[dict[str, Any]], None]
    ) -> None:
        """Connects; ``wait`` is called with what keeps it from that as long as something does."""
        self._number = 0
        self.connection = _connected(place, patience, wait)
        self.connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.connection.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
        self._stream = self.connection.makefile("rb")
        self.connection.settimeout(WORD)
        try:
            _send(self.connection, {"token": token, "rank": place.rank})
            if not json.loads(self._stream.readline()).get("welcome"):
                raise ValueError
        except (OSError, ValueError, AttributeError):
            raise Skipped("the other replicas are past it") from None
        self.connection.settimeout(None)

    def exchange(self, content: Any) -> list[Any]:
        """Says something to all, and returns what all have said, when the last has."""
        self._number += 1
        message = {"number": self._number, "content": content}
        try:
            _send(self.connection, message)
            answer = json.loads(self._stream.readline())
        except (OSError, ValueError):
            raise Skipped("the replica that all met at has ended") from None
        if "skipped" in answer:
            raise Skipped(answer["skipped"])
        contents: list[Any] = answer["all"]
        return contents

    def clock(self) -> tuple[float, float]:
        """Returns how long an answer takes, and how far this clock is ahead, in seconds."""
        best = (float("inf"), 0.0)
        for _ in range(PINGS):
            sent, began = time.time(), time.perf_counter()
            _send(self.connection, {"ping": True})
            remote = json.loads(self._stream.readline())["time"]
            elapsed = time.perf_counter() - began
            best = min(best, (elapsed, sent + elapsed / 2 - remote))
        return best

    def close(self) -> None:
        """Leaves."""
        self._stream.close()
        self.connection.close()


def listener(address: str, port: int) -> socket.socket:
    """Returns a socket that listens: on the loopback alone where the job is on it."""
    if address in ("127.0.0.1", "localhost"):
        return socket.create_server((address, port))
    if socket.has_dualstack_ipv6():
        with contextlib.suppress(OSError):
            return socket.create_server(("", port), family=socket.AF_INET6, dualstack_ipv6=True)
    return socket.create_server(("", port))


def close(listening: socket.socket) -> None:
    """Closes a socket that listens, so that a waiting accept() returns."""
    with contextlib.suppress(OSError):
        listening.shutdown(socket.SHUT_RDWR)
    listening.close()


def _connected(
    place: Place, patience: float, wait: Callable[[dict[str, Any]], None]
) -> socket.socket:
    until = time.monotonic() + patience
    listened = time.monotonic()
    while True:
        try:
            return socket.create_connection((place.address, place.port), TRY)
        except OSError as error:
            failed = _failed(place, error)
            if not isinstance(error, ConnectionRefusedError):
                listened = time.monotonic()
        if time.monotonic() >= until:
            raise failed
        if time.monotonic() >= listened + REFUSED:
            raise Skipped(f"nobody listens on port {place.port} of {place.address}")
        wait(failed.problem)
        time.sleep(PAUSE)


def _failed(place: Place, error: OSError) -> Failed:
    where = f"{place.address}, where all replicas meet"
    if isinstance(error, socket.gaierror):
        return Failed(
            "name",
            place.name,
            f"replica {place.name} cannot look up the name {where} ({error.strerror}): see whether "
            "the cluster's DNS answers in its pod, and that the job's Service exists",
        )
    if isinstance(error, socket.timeout):
        why = "no answer: something drops its packets"
    elif isinstance(error, ConnectionRefusedError):
        why = "a refusal: nothing listens there, or a firewall rejects it"
    else:
        why = error.strerror or str(error)
    return Failed(
        "port",
        place.name,
        f"replica {place.name} cannot reach port {place.port} of {where} ({why}): allow TCP "
        "between the job's pods in NetworkPolicies, firewalls and service meshes",
    )


def _send(connection: socket.socket, message: Any) -> None:
    connection.sendall(_line(message))


def _line(message: Any) -> bytes:
    return json.dumps(message).encode() + b"\n"
