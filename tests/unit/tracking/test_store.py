"""trireme/tracking/store.py: the store of this machine."""

import contextlib
import os
import socket
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

from trireme.errors import InputError
from trireme.targets.local import running
from trireme.tracking import abandoned_runs, store

PAGE = b"<!DOCTYPE html><html><body>Please log in.</body></html>"
NONE = b'{"error_code": "RESOURCE_DOES_NOT_EXIST", "message": "there is none"}'


@contextlib.contextmanager
def answering(answer):
    """Yields the URL of a server that answers each request with a status and what follows.

    Args:
        answer: Called with the path and headers of a request.
    """

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self):
            status, said = answer(self.path, self.headers)
            self.send_response(status)
            if 300 <= status < 400:
                self.send_header("Location", said.decode())
            self.send_header("Content-Length", str(len(said)))
            self.end_headers()
            self.wfile.write(said)

        def log_message(self, *_):
            return

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True).start()
    try:
        yield f"http://127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
        server.server_close()


def login(path, headers):
    return (200, PAGE) if path == "/login" else (302, b"/login")


@pytest.mark.parametrize(
    "answer",
    [
        lambda path, headers: (200, PAGE),
        lambda path, headers: (200, b"[]"),
        lambda path, headers: (200, b"{}"),
        lambda path, headers: (200, b""),
        lambda path, headers: (200, b'{"message": "hello"}'),
        lambda path, headers: (404, PAGE),
        login,
        lambda path, headers: (301, path.encode()),
    ],
)
def test_what_answers_and_is_not_mlflow_is_refused_before_a_run(untracked, monkeypatch, answer):
    with answering(answer) as url:
        monkeypatch.setenv("MLFLOW_TRACKING_URI", url.replace("//", "//me:hunter2@"))
        for start in (store.use, lambda: running.prepare(None, {}, "a-run")):
            with pytest.raises(InputError, match=f"{url}: what answers there is not MLflow"):
                start()
    assert not untracked.exists()


def test_what_speaks_another_protocol_is_not_mlflow(untracked):
    with socket.create_server(("127.0.0.1", 0)) as server:

        def greet():
            with contextlib.suppress(OSError):
                while True:
                    with server.accept()[0] as connection:
                        connection.sendall(b"SSH-2.0-OpenSSH_9.6\r\n")

        threading.Thread(target=greet, daemon=True).start()
        with pytest.raises(InputError, match="what answers there is not MLflow"):
            store.check_reachable(f"http://127.0.0.1:{server.getsockname()[1]}")
        server.shutdown(socket.SHUT_RDWR)


@pytest.mark.parametrize(
    "answer",
    [
        lambda path, headers: (200, b'{"experiment": {"experiment_id": "0", "name": "Default"}}'),
        lambda path, headers: (404, NONE),
        lambda path, headers: (404, NONE) if path.startswith("/a/b/api/") else (200, PAGE),
        lambda path, headers: (401, b"log in"),
        lambda path, headers: (403, b"not you"),
        lambda path, headers: (429, b"later"),
        lambda path, headers: (503, b"starting"),
        # Who does not log in is led to a page.
        lambda path, headers: (404, NONE) if headers["Authorization"] else login(path, headers),
    ],
)
def test_mlflow_is_taken_for_what_it_is(untracked, monkeypatch, answer):
    monkeypatch.setenv("MLFLOW_TRACKING_TOKEN", "a token")
    with answering(answer) as url:
        store.check_reachable(f"{url}/a/b/")


def test_a_list_of_runs_does_not_wait_for_what_is_not_mlflow(untracked, monkeypatch, capsys):
    with answering(lambda path, headers: (200, PAGE)) as url:
        monkeypatch.setenv("MLFLOW_TRACKING_URI", url)
        monkeypatch.setattr(abandoned_runs.client, "experiment_ids", pytest.fail, raising=False)
        abandoned_runs.end({"a-run": "FAILED"})
    told = capsys.readouterr()
    assert "what answers there is not MLflow" in told.out + told.err


def modes(home):
    return {path.name: path.stat().st_mode & 0o777 for path in (home, *home.iterdir())}


@pytest.mark.slow
def test_only_its_owner_can_read_the_store_and_its_artifacts(untracked):
    before = os.umask(0o022)
    try:
        store.make(untracked)
        assert modes(untracked) == {untracked.name: 0o700, "mlflow.db": 0o600, "mlartifacts": 0o700}
        # As an earlier version has made them.
        (untracked / "mlflow.db").chmod(0o644)
        (untracked / "mlartifacts").chmod(0o755)
        store.make(untracked)
        assert modes(untracked) == {untracked.name: 0o700, "mlflow.db": 0o600, "mlartifacts": 0o700}
    finally:
        os.umask(before)
