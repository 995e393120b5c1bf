"""Servers that datasets are staged from: an object store that checks signatures, a web server, and
a proxy before either that keeps a log and makes faults."""

import contextlib
import http.client
import http.server
import io
import os
import re
import shutil
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

KEY, SECRET = "AKIDOFATEST", "a-secret-that-must-not-show"
RCLONE = Path(sys.executable).with_name("rclone")


def free_port() -> int:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return listener.getsockname()[1]


@contextlib.contextmanager
def running(command: list[str], port: int, **environment: str) -> Iterator[None]:
    """Runs a server until the end of the block."""
    process = subprocess.Popen(
        command,
        env=os.environ | environment,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    try:
        limit = time.monotonic() + 60
        while True:
            assert process.poll() is None and time.monotonic() < limit, f"{command[0]} is not up"
            with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port)):
                break
            time.sleep(0.05)
        yield
    finally:
        process.kill()  # told to end, they wait for connections that are kept open
        process.wait()


def object_store(directory: Path, port: int):
    """Serves the folders of a directory as the buckets of an S3 server that checks signatures."""
    serve = [str(RCLONE), "serve", "s3", str(directory), "--dir-cache-time", "0s"]
    return running(
        [*serve, "--addr", f"127.0.0.1:{port}", "--auth-key", f"{KEY},{SECRET}"],
        port,
        RCLONE_CONFIG="",
    )


def web_server(directory: Path, port: int, scratch: Path, ranges: bool = True):
    """Serves files with nginx; those below ``private/`` for a user with a password."""
    (scratch / "passwords").write_text(f"reader:{{PLAIN}}{SECRET}\n")
    (scratch / "nginx.conf").write_text(f"""
daemon off; master_process off; pid {scratch}/pid; error_log /dev/null;
events {{}}
http {{
  access_log off; client_body_temp_path {scratch}; proxy_temp_path {scratch};
  fastcgi_temp_path {scratch}; uwsgi_temp_path {scratch}; scgi_temp_path {scratch};
  {"" if ranges else "max_ranges 0;"}
  server {{
    listen 127.0.0.1:{port}; root {directory};
    location /private/ {{ auth_basic private; auth_basic_user_file {scratch}/passwords; }}
  }}
}}
""")
    nginx = shutil.which("nginx", path=f"{os.environ['PATH']}:/usr/sbin")
    return running([str(nginx), "-c", str(scratch / "nginx.conf"), "-p", str(scratch)], port)


@dataclass
class Fault:
    """What goes wrong with an answer.

    Attributes:
        status: Answered in place of the server's answer.
        cut: The bytes of the body after which the connection ends.
        slow: Seconds before each 64 KiB of the body.
        etag: Stands in for the server's.
        spoil: Whether the body's first byte becomes another.
    """

    status: int = 0
    cut: int | None = None
    slow: float = 0.0
    etag: str = ""
    spoil: bool = False


@dataclass
class Proxy:
    """Passes requests on to a server on this machine.

    Attributes:
        upstream: The server's port.
        fault: Says what goes wrong, from the path and the Range of a request.
        log: The path and the Range of each GET.
        port: Where it listens.
        listed: The end of a name, and the ETag that listings give that object.
        added: Keys of empty objects that listings have besides.
        odd: Keys of objects of three bytes likewise.
        tokens: The session tokens that came with requests.
        signed: How many requests were signed.
    """

    upstream: int
    fault: Callable[[str, str], Fault | None] = lambda path, wanted: None
    log: list[tuple[str, str]] = field(default_factory=list)
    port: int = 0
    listed: tuple[str, str] = ("", "")
    added: list[str] = field(default_factory=list)
    odd: list[str] = field(default_factory=list)
    tokens: set[str] = field(default_factory=set)
    signed: int = 0

    @contextlib.contextmanager
    def serving(self) -> Iterator["Proxy"]:
        server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), self._handler())
        server.daemon_threads = True
        self.port = server.server_address[1]
        thread = threading.Thread(target=server.serve_forever, args=(0.05,))
        thread.start()
        try:
            yield self
        finally:
            server.shutdown()
            thread.join()
            server.server_close()

    def objects(self) -> list[tuple[str, str]]:
        """Returns what was fetched, without listings."""
        return [(path, wanted) for path, wanted in self.log if "list-type" not in path]

    def changed(self, listing: bytes) -> bytes:
        """Returns a listing as ``listed`` and ``added`` say."""
        name, etag = self.listed
        text = listing.decode()
        if name:
            pattern = rf"({re.escape(name)}</Key>.*?<ETag>)[^<]*(</ETag>)"
            text = re.sub(pattern, rf"\g<1>&quot;{etag}&quot;\g<2>", text, flags=re.DOTALL)
        folders = "".join(
            f"<Contents><Key>{key}</Key><Size>{size}</Size><ETag>&quot;0&quot;</ETag>"
            "<LastModified>2026-01-01T00:00:00.000Z</LastModified></Contents>"
            for size, keys in ((0, self.added), (3, self.odd))
            for key in keys
        )
        return text.replace("</ListBucketResult>", f"{folders}</ListBucketResult>").encode()

    def _handler(self):
        proxy = self

        class Handler(http.server.BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_GET(self):
                wanted = self.headers.get("Range", "")
                if self.command == "GET":
                    proxy.log.append((self.path, wanted))
                if token := self.headers.get("x-amz-security-token"):
                    proxy.tokens.add(token)
                proxy.signed += "Authorization" in self.headers
                fault = proxy.fault(self.path, wanted) or Fault()
                if fault.status:
                    self.send_response(fault.status)
                    self.send_header("Content-Length", "0")
                    self.end_headers()
                    return
                server = http.client.HTTPConnection("127.0.0.1", proxy.upstream)
                # Names as they are: http.client would add headers that the signature lacks.
                server.putrequest(self.command, self.path, True, True)
                for name, value in self.headers.items():
                    server.putheader(name, value)
                server.endheaders()
                self._answer(server.getresponse(), fault)
                server.close()

            do_HEAD = do_GET  # noqa: N815

            def _answer(self, answer, fault):
                # rclone sends the part that was asked for with status 200.
                partial = answer.status == 200 and answer.getheader("Content-Range")
                body = answer
                if "list-type" in self.path and (proxy.listed[0] or proxy.added or proxy.odd):
                    body = io.BytesIO(proxy.changed(answer.read()))
                    answer.headers.replace_header("Content-Length", str(len(body.getvalue())))
                self.send_response_only(206 if partial else answer.status)
                for name, value in answer.getheaders():
                    if name.lower() in ("transfer-encoding", "connection"):
                        continue
                    changed = fault.etag and name.lower() == "etag"
                    self.send_header(name, f'"{fault.etag}"' if changed else value)
                self.send_header("Connection", "close")
                self.end_headers()
                self.close_connection = True
                left = sys.maxsize if fault.cut is None else fault.cut
                while self.command == "GET" and left and (part := body.read(min(left, 1 << 16))):
                    left -= len(part)
                    if fault.spoil:
                        part, fault.spoil = bytes([part[0] ^ 1]) + part[1:], False
                    time.sleep(fault.slow)
                    with contextlib.suppress(OSError):
                        self.wfile.write(part)

            def log_message(self, *arguments):
                pass

        return Handler
