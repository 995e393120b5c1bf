"""components/certificates: a server that a company's own CA has signed, and real clients."""

import ssl
import subprocess
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import mlflow
import pytest

from trireme.code import git
from trireme.errors import InputError, TrackingRefused
from trireme.packages.present import Present
from trireme.packages.uv import Uv
from trireme.tracking import store
from trireme.tracking.client import client


@pytest.fixture(scope="module")
def ca(tmp_path_factory):
    """A certificate of a CA; beside it are those of a server that it has signed."""
    folder = tmp_path_factory.mktemp("tls")

    def make(name, *more):
        new = ("openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2")
        files = ("-subj", f"/CN={name}", "-keyout", f"{name}.key", "-out", f"{name}.pem")
        subprocess.run([*new, *files, *more], cwd=folder, check=True, capture_output=True)

    make("ca")
    signed = ("-CA", "ca.pem", "-CAkey", "ca.key", "-addext", "basicConstraints=critical,CA:FALSE")
    make("server", *signed, "-addext", "subjectAltName=DNS:localhost")
    return folder / "ca.pem"


@pytest.fixture
def server(ca, untracked, monkeypatch):
    """Its URL; it knows nothing but that there is no experiment, as MLflow says it."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self):
            said = b'{"error_code": "RESOURCE_DOES_NOT_EXIST", "message": "none"}'
            self.send_response(404)
            self.send_header("Content-Length", str(len(said)))
            self.end_headers()
            self.wfile.write(said)

        def log_message(self, *_):
            return

    made = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(ca.with_name("server.pem"), ca.with_name("server.key"))
    made.socket = context.wrap_socket(made.socket, server_side=True)
    threading.Thread(target=made.serve_forever, args=(0.02,), daemon=True).start()
    for name in ("SSL_CERT_FILE", "SSL_CERT_DIR", "REQUESTS_CA_BUNDLE", "GIT_SSL_CAINFO"):
        monkeypatch.delenv(name, raising=False)
    yield f"https://localhost:{made.server_port}"
    made.shutdown()
    made.server_close()


def test_of_a_package_index_it_is_said_and_mended(server, ca, tmp_path, monkeypatch):
    monkeypatch.setenv("UV_DEFAULT_INDEX", f"{server}/simple")
    (tmp_path / "wanted.txt").write_text("flask")
    resolve = ("pip", "compile", "wanted.txt", "--no-cache")
    told = r"the package index has a certificate that is not accepted: invalid peer certificate: "
    with pytest.raises(InputError, match=f"{told}UnknownIssuer; .* in SSL_CERT_FILE, see docs/"):
        Uv(tmp_path, "", Present())(*resolve)
    monkeypatch.setenv("SSL_CERT_FILE", str(ca))
    with pytest.raises(InputError, match="there is no package flask in the index"):
        Uv(tmp_path, "", Present())(*resolve)


@pytest.mark.usefixtures("unaided_git")
def test_of_a_git_server_it_is_said_and_mended(server, ca, monkeypatch):
    with pytest.raises(InputError, match=r"code_url .*not accepted: .* in GIT_SSL_CAINFO, see"):
        git.resolve(f"{server}/code.git", "main")
    monkeypatch.setenv("GIT_SSL_CAINFO", str(ca))
    with pytest.raises(InputError, match=r"cannot be read: .*not found"):
        git.resolve(f"{server}/code.git", "main")


def test_of_mlflow_it_is_said_at_once_and_mended(server, ca, monkeypatch):
    with pytest.raises(InputError, match=r"MLFLOW_TRACKING_URI https://localhost.*not accepted: "):
        store.check_reachable(server)
    mlflow.set_tracking_uri(server)
    monkeypatch.setenv("MLFLOW_HTTP_REQUEST_MAX_RETRIES", "0")
    with pytest.raises(TrackingRefused, match="in REQUESTS_CA_BUNDLE, see docs/"):
        client.get_run("x")
    monkeypatch.setenv("REQUESTS_CA_BUNDLE", str(ca))
    store.check_reachable(server)
    with pytest.raises(client.refusal):
        client.get_run("x")
