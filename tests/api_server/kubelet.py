"""The logs of containers, as a kubelet keeps and serves them."""

import ssl
import subprocess
import threading
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from urllib.parse import parse_qs, urlsplit


class Logs:
    """What the containers of every pod printed: a list of (time, line) for each of their starts.

    Its clock is the whole cluster's.
    """

    def __init__(self):
        self.changed = threading.Condition()
        self.requests = []
        self._starts = {}
        self._ended = set()
        self._drops = 0
        self._deaf = False
        self._lost = {}
        self._clock = datetime(2026, 1, 1, tzinfo=UTC)

    def now(self):
        """Returns the time; ten seconds go by."""
        with self.changed:
            self._clock = self._clock.replace(microsecond=0) + timedelta(seconds=10)
            return self._clock

    def write(self, pod, *lines, apart=0.001):
        """Has a pod's container print lines, so many seconds apart."""
        with self.changed:
            start = self._starts.setdefault(pod, [[]])[-1]
            for line in lines:
                self._clock += timedelta(seconds=apart)
                start.append((self._clock, line))
            self.changed.notify_all()

    def write_unheard(self, pod, *lines):
        """Has it print lines when nobody can read its log, which is so until it is restarted."""
        with self.changed:
            self._deaf = True
        self.write(pod, *lines)

    def end(self, pod):
        """Has the container end."""
        with self.changed:
            self._starts.setdefault(pod, [[]])
            self._ended.add(pod)
            self.changed.notify_all()

    def lose(self, pod, times=1):
        """Has a pod's container gone from the runtime the next times that its log is asked for.

        Kubelet 1.36 has begun its answer by then, with 200, and says so in it.
        """
        self._lost[pod] = times

    def restart(self, pod):
        """Has the container end, if it has not, and start anew."""
        with self.changed:
            self._starts.setdefault(pod, [[]]).append([])
            self._deaf = False
            self._ended.discard(pod)
            self.changed.notify_all()

    def drop(self):
        """Breaks every connection over which a log is followed, in the middle of things."""
        with self.changed:
            self._drops += 1
            self.changed.notify_all()

    def serve(self, pod, query) -> Iterator[bytes]:
        """Yields what the kubelet answers; raises ConnectionError where it is to break off."""
        self.requests.append((pod, dict(query)))
        since = query.get("sinceTime")
        earliest = datetime.fromisoformat(since).replace(microsecond=0) if since else None
        previous, follow = query.get("previous") == "true", query.get("follow") == "true"
        with self.changed:
            starts = self._starts.setdefault(pod, [[]])
            number = len(starts) - (2 if previous else 1)
            drops = self._drops
        if number < 0:
            raise LookupError("previous terminated container not found")
        at = 0
        yield b""
        if self._lost.get(pod):
            self._lost[pod] -= 1
            yield f"unable to retrieve container logs for containerd://{'0' * 64}".encode()
            return
        while True:
            with self.changed:
                fresh = starts[number][at:]
                over = number < len(starts) - 1 or pod in self._ended
                if not fresh and follow and not over:
                    self.changed.wait(0.2)
                    if self._drops != drops:
                        raise ConnectionError
            if self._drops != drops or self._deaf:
                raise ConnectionError
            for stamp, line in fresh:
                at += 1
                if earliest is None or stamp >= earliest:
                    yield f"{stamp:%Y-%m-%dT%H:%M:%S.%f}000Z {line}\n".encode()
            if not fresh:
                if over or not follow:
                    return
                yield b""  # the chance to see that nobody reads any more


def serve_chunks(handler, chunks):
    """Answers with chunks as they come; breaks the connection off where they do."""
    try:
        handler.send_response(200)
        handler.send_header("Transfer-Encoding", "chunked")
        handler.end_headers()
        for chunk in chunks:
            if chunk:
                handler.wfile.write(b"%x\r\n%s\r\n" % (len(chunk), chunk))
                handler.wfile.flush()
        handler.wfile.write(b"0\r\n\r\n")
    except OSError:  # also: the reader has gone
        handler.close_connection = True


class Kubelet:
    """A kubelet that an API server can ask for logs, over HTTPS on the loopback interface."""

    def __init__(self, logs: Logs, directory: Path):
        certificate, key = directory / "kubelet.crt", directory / "kubelet.key"
        subject = ["-subj", "/CN=127.0.0.1", "-keyout", key, "-out", certificate]
        subprocess.run(
            ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2", *subject],
            check=True,
            capture_output=True,
        )

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_GET(self):
                url = urlsplit(self.path)
                _, _, _, pod, _ = url.path.split("/")  # containerLogs/NAMESPACE/POD/CONTAINER
                query = {name: values[0] for name, values in parse_qs(url.query).items()}
                serve_chunks(self, logs.serve(pod, query))

            def log_message(self, *args):
                pass

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._server.daemon_threads = True
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(certificate, key)
        self._server.socket = context.wrap_socket(self._server.socket, server_side=True)
        self.port = self._server.server_address[1]
        threading.Thread(target=self._server.serve_forever, daemon=True).start()

    def close(self):
        self._server.shutdown()
        self._server.server_close()
