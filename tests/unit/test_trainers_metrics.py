"""components/trainers: the metrics that programs send and serve."""

import json
import math
import os
import signal
import socket
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import metrics
import pytest
import requests


@pytest.fixture
def port(monkeypatch):
    """A free port, at which metrics are to be served."""
    with socket.create_server(("127.0.0.1", 0)) as probe:
        port = probe.getsockname()[1]
    monkeypatch.setenv("METRICS_PORT", str(port))
    monkeypatch.delenv("MLFLOW_RUN_ID", raising=False)
    return port


def found(port):
    """Returns what Prometheus would find, by name."""
    text = requests.get(f"http://127.0.0.1:{port}/metrics", timeout=10).text
    lines = [line.split() for line in text.splitlines() if not line.startswith("#")]
    return {name: float(value) for name, value in lines}


def test_prometheus_finds_the_latest_metrics(port, tmp_path):
    latest = metrics.Metrics(tmp_path, "step-????????")
    assert math.isnan(found(port)["training_checkpoint_age_seconds"])
    latest.log(1, loss=2.5)
    (tmp_path / "step-00000002").mkdir()
    (tmp_path / "step-00000004.partial").mkdir()
    os.utime(tmp_path / "step-00000002", (0, time.time() - 100))
    latest.log(3, loss=1.5, tokens_per_second=1e6)
    there = found(port)
    assert (there["training_step"], there["training_loss"]) == (3, 1.5)
    assert there["training_tokens_per_second"] == 1e6
    assert 100 <= there["training_checkpoint_age_seconds"] < 200
    assert 0 < there["training_seconds_total"] < 100


def test_a_port_that_is_taken_does_not_stop_training(port, tmp_path, capsys):
    with socket.create_server(("127.0.0.1", port)):
        assert metrics.serve_metrics(tmp_path, "step-????????") is None
    assert "metrics are not served: [Errno 98]" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("hosts", "address"),
    [
        ("# Kubernetes-managed hosts file.\n127.0.0.1 localhost\n", "0.0.0.0"),
        ("# Kubernetes-managed hosts file (host network).\n", "0.0.0.0"),
        ("127.0.0.1 localhost\n", "127.0.0.1"),
        (None, "127.0.0.1"),
    ],
)
def test_they_are_served_beyond_this_machine_in_a_pod_alone(
    port, tmp_path, monkeypatch, hosts, address
):
    asked = []
    monkeypatch.setattr("prometheus_client.start_http_server", lambda *given: asked.append(given))
    monkeypatch.setattr(metrics, "HOSTS", tmp_path / "hosts")
    if hosts:
        (tmp_path / "hosts").write_text(hosts)
    metrics.serve_metrics(tmp_path, "step-????????")
    assert [given[:2] for given in asked] == [(port, address)]


@pytest.fixture
def no_server(monkeypatch):
    """Has the environment of a run whose MLflow does not answer."""
    monkeypatch.delenv("METRICS_PORT", raising=False)
    with socket.socket() as bound_but_not_listening:
        bound_but_not_listening.bind(("127.0.0.1", 0))
        at = bound_but_not_listening.getsockname()[1]
        monkeypatch.setenv("MLFLOW_TRACKING_URI", f"http://127.0.0.1:{at}")
        monkeypatch.setenv("MLFLOW_RUN_ID", "0123456789abcdef0123456789abcdef")
        monkeypatch.setenv("MLFLOW_HTTP_REQUEST_MAX_RETRIES", "0")
        yield


def kept(directory):
    text = (directory / "metrics-unsent.json").read_text()
    return [(metric["key"], metric["value"], metric["step"]) for metric in json.loads(text)]


def test_metrics_that_no_server_takes_are_kept_in_a_file(no_server, tmp_path):
    unsent = metrics.Metrics(tmp_path / "checkpoints", "checkpoint", patience=0)
    unsent.log(1, loss=0.5, accuracy=0.75)
    unsent.close()
    assert kept(tmp_path / "checkpoints") == [("loss", 0.5, 1), ("accuracy", 0.75, 1)]
    unsent.thread.join(60)
    assert not unsent.thread.is_alive()


def test_they_are_kept_in_the_time_that_is_left_after_sigterm(no_server, tmp_path, monkeypatch):
    monkeypatch.setattr(metrics, "GRACE", 0.1)
    unsent = metrics.Metrics(tmp_path, "checkpoint", patience=math.inf)
    unsent.log(1, loss=0.5)
    handler = signal.signal(signal.SIGTERM, lambda *_: unsent.limit_patience())
    reclaim = threading.Timer(0.5, os.kill, (os.getpid(), signal.SIGTERM))
    reclaim.start()
    try:
        unsent.close()  # does not wait for ever
    finally:
        reclaim.join()
        signal.signal(signal.SIGTERM, handler)
    assert kept(tmp_path) == [("loss", 0.5, 1)]
    unsent.thread.join(60)
    assert not unsent.thread.is_alive()


@pytest.mark.parametrize("status", [401, 403, 404])
def test_a_server_that_refuses_them_is_not_waited_for(
    no_server, tmp_path, monkeypatch, capsys, status
):
    asked = []

    class Refusing(BaseHTTPRequestHandler):
        def do_POST(self):
            asked.append(self.path)
            self.send_error(status)

        def log_message(self, *_):
            return

    with ThreadingHTTPServer(("127.0.0.1", 0), Refusing) as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.02,))
        thread.start()
        # Others in this process may have set another one, which wins over the variable.
        monkeypatch.setattr("mlflow.tracking._tracking_service.utils._tracking_uri", None)
        monkeypatch.setenv("MLFLOW_TRACKING_URI", f"http://127.0.0.1:{server.server_port}")
        unsent = metrics.Metrics(tmp_path, "checkpoint", patience=math.inf)
        unsent.log(1, loss=0.5)
        unsent.close()  # would wait for ever
        server.shutdown()
        thread.join()
    assert kept(tmp_path) == [("loss", 0.5, 1)]
    assert len(asked) == 1
    assert capsys.readouterr().out.count(f"MLflow refuses metrics ({status})") == 1
