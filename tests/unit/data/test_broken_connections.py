"""What is said of a server that cannot be read, by both libraries that read from servers."""

import contextlib
import socket
import ssl
import subprocess
import threading

import pytest
from urllib3.util import Retry

from trireme.data.description import Dataset
from trireme.data.sources import SourceFailed, source_of, stores


@pytest.fixture(autouse=True)
def unhindered(untracked, monkeypatch):
    monkeypatch.setenv("AWS_SKIP_SIGNATURE", "true")
    monkeypatch.setattr(Retry, "sleep", lambda *_: None)
    monkeypatch.setitem(stores._RETRIES, "max_retries", 0)


@contextlib.contextmanager
def listening(meet):
    """Listens on loopback and hands every connection to a function; gives the port."""
    listener = socket.create_server(("127.0.0.1", 0))

    def serve():
        with contextlib.suppress(OSError):  # the listener is closed
            while True:
                meet(listener.accept()[0])

    thread = threading.Thread(target=serve)
    thread.start()
    try:
        yield listener.getsockname()[1]
    finally:
        listener.shutdown(socket.SHUT_RDWR)
        listener.close()
        thread.join()


def dataset(kind, scheme, port):
    """A file whose path holds the words that are looked for, as far as a URL can."""
    server, path = f"{scheme}://127.0.0.1:{port}", "resolve/timeout/certificate/dns-error"
    if kind == "http":
        return Dataset(uri=f"{server}/{path}")
    return Dataset(uri=f"s3://bucket/{path}", endpoint=server)


def said(dataset):
    with pytest.raises(SourceFailed) as caught:
        source_of(dataset).list()
    return str(caught.value).rpartition(": ")[2]


both = pytest.mark.parametrize("kind", ["http", "s3"])


@both
def test_nobody_listens(kind):
    with socket.socket() as bound:
        bound.bind(("127.0.0.1", 0))
        port = bound.getsockname()[1]
        assert said(dataset(kind, "http", port)) == "the server refuses connections"


@both
def test_connections_are_ended(kind):
    with listening(lambda connection: connection.close()) as port:
        assert said(dataset(kind, "http", port)) == "the connection broke"


@both
def test_nothing_is_answered(kind, monkeypatch):
    monkeypatch.setattr("trireme.data.sources.web.TIMEOUT", (10, 0.2))
    monkeypatch.setattr(stores, "READ_TIMEOUT", 0.2)
    kept = []
    with listening(kept.append) as port:
        assert said(dataset(kind, "http", port)) == "the server does not answer"
    for connection in kept:
        connection.close()


@both
def test_a_certificate_of_its_own(kind, tmp_path):
    key, certificate = tmp_path / "key", tmp_path / "certificate"
    make = ["openssl", "req", "-x509", "-nodes", "-subj", "/CN=127.0.0.1"]
    make += ["-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1"]
    subprocess.run([*make, "-keyout", key, "-out", certificate], check=True, capture_output=True)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate, key)

    def refused(connection):
        with contextlib.suppress(ssl.SSLError, OSError), connection:
            context.wrap_socket(connection, server_side=True).close()

    with listening(refused) as port:
        assert said(dataset(kind, "https", port)) == "the server's certificate is not trusted"
