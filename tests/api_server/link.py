"""A connection to an API server that can be cut."""

import contextlib
import socket
import threading


class Link:
    """Passes connections on from a port of this machine to another one."""

    def __init__(self, to: int):
        self._to = to
        self._open = []
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port = self._listener.getsockname()[1]
        self.is_cut = False
        threading.Thread(target=self._serve, daemon=True).start()

    def cut(self):
        """Breaks every connection, and every new one."""
        self.is_cut = True
        for end in self._open:
            with contextlib.suppress(OSError):
                end.shutdown(socket.SHUT_RDWR)
        self._open.clear()

    def mend(self):
        self.is_cut = False

    def close(self):
        self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        self.cut()

    def _serve(self):
        while True:
            try:
                here, _ = self._listener.accept()
            except OSError:
                return
            if self.is_cut:
                here.close()
                continue
            there = socket.create_connection(("127.0.0.1", self._to))
            self._open += [here, there]
            for ends in ((here, there), (there, here)):
                threading.Thread(target=_pump, args=ends, daemon=True).start()


def _pump(source, sink):
    with contextlib.suppress(OSError):
        while data := source.recv(65536):
            sink.sendall(data)
    for end in (source, sink):
        with contextlib.suppress(OSError):
            end.shutdown(socket.SHUT_RDWR)
        end.close()
