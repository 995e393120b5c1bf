"""Runs tried again by Argo's server, which is played: it speaks the one call of its REST API."""

import json
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest
from argo_runs import begun

from trireme.errors import InputError, TriremeError
from trireme.targets.argo import server, workflows
from trireme.targets.workspaces import CLAIMS

# Of Hera, which asks for it in the way of an older pydantic.
pytestmark = pytest.mark.filterwarnings("ignore:The `json` method is deprecated")

TOKEN = "Bearer v2:of-somebody"


def change(cluster, name, phase):
    cluster.patch(workflows.WORKFLOWS, name, cluster.namespace, {"status": {"phase": phase}})


def cookie(headers):
    """Returns what Argo's server takes for its header where that is missing, as its UI does."""
    name, _, value = (headers["Cookie"] or "").partition("=")
    return value if name == "authorization" else None


class Server(ThreadingHTTPServer):
    """Argo's server, below /argo; it answers with ``answers`` before it does what it is asked."""

    def __init__(self, cluster):
        super().__init__(("127.0.0.1", 0), Handler)
        self.cluster = cluster
        self.asked = []
        self.answers = []


class Handler(BaseHTTPRequestHandler):
    """Reads a request, notes it, and answers."""

    def do_PUT(self):
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        self.server.asked.append((self.path, body))
        status, text = 200, ""
        if self.server.answers:
            status, text = self.server.answers.pop(0)
        elif TOKEN not in (self.headers["Authorization"], cookie(self.headers)):
            status, text = 401, '{"code": 16, "message": "token not valid"}'
        if status == 200:
            change(self.server.cluster, body["name"], "Running")
            there = workflows.WORKFLOWS, body["name"], self.server.cluster.namespace
            text = text or json.dumps(self.server.cluster.get(*there))
        self.send_response(status)
        self.end_headers()
        self.wfile.write(text.encode())

    def log_message(self, *_):
        pass


@pytest.fixture
def argo_server(argo, monkeypatch):
    with Server(argo) as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True)
        thread.start()
        monkeypatch.setenv("ARGO_SERVER", f"127.0.0.1:{server.server_port}")
        monkeypatch.setenv("ARGO_SECURE", "false")
        monkeypatch.setenv("ARGO_BASE_HREF", "/argo/")
        monkeypatch.setenv("ARGO_TOKEN", TOKEN)
        yield server
        server.shutdown()


@pytest.fixture
def failed(argo):
    """The name of a run that has failed."""
    name = begun(argo)
    room = {"accessModes": ["ReadWriteMany"], "resources": {"requests": {"storage": "1Gi"}}}
    argo.create(CLAIMS, {"metadata": {"name": f"{name}-workspace"}, "spec": room}, argo.namespace)
    change(argo, name, "Failed")
    return name


def test_a_run_is_tried_again(argo, command, argo_server, failed):
    assert command("resume", failed) == f"{failed} is being resumed\n"
    [(path, body)] = argo_server.asked
    assert path == f"/argo/api/v1/workflows/{argo.namespace}/{failed}/retry"
    assert body == {
        "name": failed,
        "namespace": argo.namespace,
        "restartSuccessful": True,
        "nodeFieldSelector": "templateName=finish",
    }
    assert workflows.find(argo, failed).state == "running"
    with pytest.raises(InputError, match=r"is running; only one that failed or was killed"):
        command("resume", failed)


def test_an_answer_that_cannot_be_read_is_no_failure(command, argo_server, failed):
    argo_server.answers = [(200, '{"metadata": 3}')]
    assert "is being resumed" in command("resume", failed)


@pytest.mark.parametrize(
    ("status", "text", "kind", "said"),
    [
        (401, '{"message": "token not valid"}', InputError, "token not valid.*set ARGO_TOKEN"),
        (403, '{"message": "may not"}', InputError, "may not.*set ARGO_TOKEN"),
        (400, '{"message": "workflow must be Failed"}', TriremeError, "must be Failed"),
        (404, "not here", TriremeError, "failed: .*not here"),
        (502, "<html>", TriremeError, "failed: .*502"),
    ],
)
def test_what_the_server_refuses_is_told(command, argo_server, failed, status, text, kind, said):
    argo_server.answers = [(status, text)]
    with pytest.raises(kind, match=said):
        command("resume", failed)


def test_a_server_that_is_away_is_told(command, argo_server, failed, monkeypatch):
    monkeypatch.setenv("ARGO_SERVER", "127.0.0.1:1")
    with pytest.raises(TriremeError, match="failed: HTTPConnectionPool"):
        command("resume", failed)


@pytest.fixture
def in_cluster(standing_in, argo_server, monkeypatch):
    """Makes Argo's server one that is known by its Service alone, in a namespace of its own."""
    for name in ("ARGO_SERVER", "ARGO_SECURE", "ARGO_BASE_HREF", "ARGO_TOKEN"):
        monkeypatch.delenv(name)
    port = {"name": "http", "port": argo_server.server_port}
    service = {"metadata": {"name": "argo-workflows-server"}, "spec": {"ports": [port]}}
    standing_in.create(server.SERVICES, service, "argo")


@pytest.mark.parametrize("cluster", ["stand-in"], indirect=True)
@pytest.mark.parametrize("token", [TOKEN, TOKEN.removeprefix("Bearer ")])
def test_it_is_found_in_the_cluster(
    argo, command, argo_server, failed, in_cluster, token, monkeypatch
):
    with pytest.raises(InputError, match=r"argo/services.*token not valid.*set ARGO_TOKEN"):
        command("resume", failed)  # with the cluster's own token, which this server does not take
    monkeypatch.setenv("ARGO_TOKEN", token)
    assert command("resume", failed) == f"{failed} is being resumed\n"
    assert workflows.find(argo, failed).state == "running"
    [*_, (path, _)] = argo_server.asked
    assert path == f"/api/v1/workflows/{argo.namespace}/{failed}/retry"


@pytest.mark.parametrize("cluster", ["stand-in"], indirect=True)
def test_it_gets_the_users_own_token(command, argo_server, failed, in_cluster, monkeypatch):
    monkeypatch.setattr(f"{__name__}.TOKEN", "Bearer first")
    assert command("resume", failed) == f"{failed} is being resumed\n"


def test_without_a_server_argos_own_command_is_named(command, failed, monkeypatch):
    monkeypatch.delenv("ARGO_SERVER", raising=False)
    with pytest.raises(InputError, match=f"ARGO_SERVER to HOST:PORT.*argo retry {failed} -n"):
        command("resume", failed)
