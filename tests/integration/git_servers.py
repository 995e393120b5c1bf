"""Real servers of git repositories on loopback: nginx with git-http-backend, sshd, and LFS.

Each is a context manager that leaves no process behind.
"""

import base64
import contextlib
import getpass
import hashlib
import json
import os
import shutil
import signal
import socket
import subprocess
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

NGINX = shutil.which("nginx", path=f"{os.environ['PATH']}:/usr/sbin")
FCGIWRAP = shutil.which("fcgiwrap", path=f"{os.environ['PATH']}:/usr/sbin")
SSHD = shutil.which("sshd", path=f"{os.environ['PATH']}:/usr/sbin")
USER = "ada"
PASSWORD = "correct-horse-7391"

_CONFIGURATION = """
daemon off; master_process off; worker_processes 1; pid {root}/nginx.pid; {user}
error_log {root}/error.log;
events {{ }}
http {{
  access_log off;
  client_body_temp_path {root}/body; proxy_temp_path {root}/proxy; fastcgi_temp_path {root}/fcgi;
  uwsgi_temp_path {root}/uwsgi; scgi_temp_path {root}/scgi;
  log_format seen '$status $request_method $request_uri user=$http_authorization';
  server {{
    listen 127.0.0.1:{port};
    access_log {root}/access.log seen;
    location ~ ^/plain/ {{ root {root}; }}
    location ~ ^/moved/(.*)$ {{ return 302 {moved}/$1$is_args$args; }}
    location ~ /info/lfs|^/lfs/ {{
      auth_basic private; auth_basic_user_file {root}/users;
      proxy_set_header X-Base http://127.0.0.1:{port};
      proxy_pass http://127.0.0.1:{lfs};
    }}
    location ~ ^/private/ {{ auth_basic private; auth_basic_user_file {root}/users; {backend} }}
    location ~ ^/public/ {{ {backend} }}
  }}
}}
"""
_BACKEND = """
  include /etc/nginx/fastcgi_params;
  fastcgi_param SCRIPT_FILENAME {backend};
  fastcgi_param GIT_HTTP_EXPORT_ALL "";
  fastcgi_param GIT_PROJECT_ROOT {root};
  fastcgi_param PATH_INFO $uri;
  fastcgi_param GIT_PROTOCOL $http_git_protocol;
  fastcgi_param HOME {root};
  fastcgi_pass unix:{root}/fcgi.sock;
"""


@dataclass
class HttpServer:
    """Repositories below ``root``: public/NAME, private/NAME, plain/NAME (files only)."""

    root: Path
    url: str

    def seen(self) -> list[str]:
        """Returns a line for each request: status, method, path, Authorization header."""
        log = self.root / "access.log"
        return log.read_text().splitlines() if log.exists() else []


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def answers(port: int) -> bool:
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0


@contextlib.contextmanager
def running(command: list[str], ready: Callable[[], bool]) -> Iterator[subprocess.Popen[bytes]]:
    """Runs a server, with all that it starts, until this is left."""
    process = subprocess.Popen(
        command,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    )
    try:
        limit = time.monotonic() + 30
        while not ready():
            assert process.poll() is None, f"{command[0]} did not start"
            assert time.monotonic() < limit, f"{command[0]} does not answer"
            time.sleep(0.02)
        yield process
    finally:
        os.killpg(process.pid, signal.SIGTERM)
        process.wait(10)


@contextlib.contextmanager
def http_server(root: Path, moved: str = "http://127.0.0.1:9") -> Iterator[HttpServer]:
    """Serves the repositories below a directory over http.

    Args:
        root: The directory; also holds configuration and logs.
        moved: Where /moved/PATH redirects to.
    """
    assert NGINX and FCGIWRAP
    root.mkdir(parents=True, exist_ok=True)
    digest = base64.b64encode(hashlib.sha1(PASSWORD.encode()).digest()).decode()
    (root / "users").write_text(f"{USER}:{{SHA}}{digest}\noauth2:{{SHA}}{digest}\n")
    port, socket_file = free_port(), root / "fcgi.sock"
    exec_path = subprocess.run(["git", "--exec-path"], capture_output=True, text=True).stdout
    backend = _BACKEND.format(root=root, backend=f"{exec_path.strip()}/git-http-backend")
    with lfs_server(root / "lfs") as lfs:
        settings = {"root": root, "port": port, "moved": moved, "lfs": lfs, "backend": backend}
        user = f"user {getpass.getuser()};" if os.geteuid() == 0 else ""
        (root / "nginx.conf").write_text(_CONFIGURATION.format(**settings, user=user))
        wrap = [FCGIWRAP, "-c", "2", "-s", f"unix:{socket_file}"]
        serve = [NGINX, "-e", f"{root}/error.log", "-p", str(root), "-c", f"{root}/nginx.conf"]
        with running(wrap, socket_file.exists), running(serve, lambda: answers(port)):
            yield HttpServer(root, f"http://127.0.0.1:{port}")


@dataclass
class SshServer:
    """An sshd that takes one key and leads to every repository on this machine.

    Attributes:
        url: What a repository's path is put behind.
        host: Address and port as in known_hosts.
        key: The private key that it takes.
        known_hosts: The line with its own key.
    """

    url: str
    host: str
    key: str
    known_hosts: str


@contextlib.contextmanager
def ssh_server(root: Path) -> Iterator[SshServer]:
    """Runs an sshd with a host key of its own."""
    assert SSHD
    root.mkdir(parents=True, exist_ok=True)
    if os.geteuid() == 0:  # sshd wants it then, and its service, which would make it, does not run
        Path("/run/sshd").mkdir(mode=0o755, exist_ok=True)
    for name in ("host", "user"):
        subprocess.run(
            ["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", str(root / name)], check=True
        )
    port = free_port()
    settings = {
        "Port": port,
        "ListenAddress": "127.0.0.1",
        "HostKey": root / "host",
        "AuthorizedKeysFile": root / "user.pub",
        "PidFile": "none",
        "StrictModes": "no",
        "PasswordAuthentication": "no",
        "KbdInteractiveAuthentication": "no",
        "PermitRootLogin": "yes",
    }
    lines = [f"{name} {value}\n" for name, value in settings.items()]
    (root / "sshd_config").write_text("".join(lines))
    command = [SSHD, "-D", "-e", "-f", str(root / "sshd_config")]
    with running(command, lambda: answers(port)):
        host = f"[127.0.0.1]:{port}"
        public = (root / "host.pub").read_text()
        yield SshServer(
            url=f"ssh://{getpass.getuser()}@127.0.0.1:{port}",
            host=host,
            key=(root / "user").read_text(),
            known_hosts=f"{host} {public}",
        )


@contextlib.contextmanager
def served(handler: type[BaseHTTPRequestHandler]) -> Iterator[int]:
    """Serves http on a port of its own; gives the port."""
    server = ThreadingHTTPServer(("127.0.0.1", 0), handler)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02})
    thread.start()
    try:
        yield server.server_port
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


@contextlib.contextmanager
def lfs_server(directory: Path) -> Iterator[int]:
    """Serves the LFS objects in a directory, each a file named by its id.

    It speaks https://github.com/git-lfs/git-lfs/blob/main/docs/api/batch.md.
    """

    class Lfs(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            asked = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            base = self.headers["X-Base"]
            described = [
                one | {"actions": {"download": {"href": f"{base}/lfs/{one['oid']}"}}}
                for one in asked["objects"]
            ]
            answer = {"transfer": "basic", "objects": described}
            self._answer(200, json.dumps(answer).encode())

        def do_GET(self) -> None:
            file = directory / self.path.rpartition("/")[2]
            if file.exists():
                self._answer(200, file.read_bytes())
            else:
                self._answer(404, b"{}")

        def _answer(self, status: int, content: bytes) -> None:
            self.send_response(status)
            self.send_header("Content-Type", "application/vnd.git-lfs+json")
            self.send_header("Content-Length", str(len(content)))
            self.end_headers()
            self.wfile.write(content)

        def log_message(self, *_: object) -> None: ...

    with served(Lfs) as port:
        yield port
