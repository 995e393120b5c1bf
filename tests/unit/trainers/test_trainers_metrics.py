"""trainers: the metrics that programs send and serve."""

import contextlib
import json
import math
import os
import shutil
import socket
import subprocess
import sys
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import metrics
import numpy as np
import pytest
import requests

from trireme.tracking.unsent_metrics import NAME


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
    lines = (directory / NAME).read_text().split("\n")
    found = [json.loads(line) for line in lines if line]
    return [(metric["key"], metric["value"], metric["step"]) for metric in found]


def test_metrics_that_no_server_takes_are_kept_in_a_file(no_server, tmp_path, capsys):
    unsent = metrics.Metrics(tmp_path / "checkpoints", "checkpoint")
    unsent.log(1, loss=np.float32(0.5), accuracy=0.75)  # of a type that JSON does not have
    unsent.close()  # which does not wait until the server is back
    assert kept(tmp_path / "checkpoints") == [("loss", 0.5, 1), ("accuracy", 0.75, 1)]
    assert f"are in {unsent.unsent}" in capsys.readouterr().out


def test_what_waits_is_in_the_file_soon_should_training_be_killed(no_server, tmp_path, eventually):
    unsent = metrics.Metrics(tmp_path, "checkpoint")
    unsent.log(1, loss=0.5)
    assert eventually(unsent.unsent.exists)
    unsent.log(2, loss=0.25)
    assert eventually(lambda: kept(tmp_path) == [("loss", 0.5, 1), ("loss", 0.25, 2)])
    unsent.close()


OPENS = """
import os, sys
sys.path.insert(0, sys.argv[1])
from pathlib import Path
from metrics import Metrics
told = Metrics(Path(sys.argv[2]), "checkpoint", patience=60)
told.log(1, loss=0.5)
told.close()
"""


def test_who_names_a_server_alone_has_a_run_of_its_own(tmp_path, mlflow_store):
    import mlflow

    shutil.copy(mlflow_store, tmp_path / "mlflow.db")
    uri = f"sqlite:///{tmp_path / 'mlflow.db'}"
    client = mlflow.MlflowClient(uri)
    given = {"MLFLOW_TRACKING_URI": uri, "MLFLOW_EXPERIMENT_ID": client.create_experiment("own")}
    words = [
        sys.executable,
        "-c",
        OPENS,
        str(Path(metrics.__file__).parent),
        str(tmp_path / "left"),
    ]
    others = {name: value for name, value in os.environ.items() if name != "MLFLOW_RUN_ID"}
    subprocess.run(words, env=others | given, cwd=tmp_path, check=True)
    (run,) = client.search_runs([given["MLFLOW_EXPERIMENT_ID"]])
    assert (run.info.status, run.data.metrics) == ("FINISHED", {"loss": 0.5})
    assert not (tmp_path / "left" / NAME).exists()


FULL = """
import resource, signal, sys
sys.path.insert(0, sys.argv[1])
from pathlib import Path
from metrics import Metrics
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
unsent = Metrics(Path(sys.argv[2]), "checkpoint", patience=0)
unsent.log(0, loss=1.0)
unsent._keep()
before = unsent.unsent.stat().st_size
resource.setrlimit(resource.RLIMIT_FSIZE, (before + 100, resource.RLIM_INFINITY))
for step in range(int(sys.argv[3])):
    unsent.log(step, loss=2.0)
for _ in range(3):
    unsent._keep()
    assert unsent.unsent.stat().st_size == before, unsent.unsent.stat().st_size
resource.setrlimit(resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY,) * 2)
unsent.close()
"""


@pytest.mark.parametrize("count", [30, 500])  # less and more than is written at a time
def test_on_a_disk_that_is_full_none_is_written_twice(tmp_path, count):
    words = [
        sys.executable,
        "-c",
        FULL,
        str(Path(metrics.__file__).parent),
        str(tmp_path),
        str(count),
    ]
    done = subprocess.run(
        words, env=os.environ | {"MLFLOW_RUN_ID": ""}, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    assert kept(tmp_path) == [("loss", 1.0, 0), *(("loss", 2.0, step) for step in range(count))]


@pytest.mark.parametrize("run", ["", "0123456789abcdef0123456789abcdef"])
def test_metrics_that_no_disk_takes_are_told(tmp_path, run):
    (tmp_path / "file").touch()
    program = FULL.partition("signal.signal")[0] + (
        'told = Metrics(Path(sys.argv[2]), "checkpoint", patience=0)\n'
        "told.log(1, loss=0.5, accuracy=0.25); told.close()\n"
    )
    nowhere = tmp_path / "file" / "metrics"
    given = {"MLFLOW_RUN_ID": run, "MLFLOW_TRACKING_URI": "http://[::1]:9"}
    words = [sys.executable, "-c", program, str(Path(metrics.__file__).parent), str(nowhere)]
    done = subprocess.run(words, env=os.environ | given, capture_output=True, text=True, check=True)
    assert "metrics for MLflow are lost: 2, as " in done.stdout


def test_what_an_earlier_start_has_left_damaged_is_left_out(no_server, tmp_path):
    good = {"key": "loss", "value": 1.0, "timestamp": 1, "step": 1}
    damaged = ['{"key": "lo', "[]", 100000 * "[", json.dumps(good | {"step": 9**99})]
    damaged += [
        json.dumps(good | {"timestamp": float("inf")}),
        json.dumps(good | {"value": 10**400}),
    ]
    (tmp_path / NAME).write_text("\n".join([*damaged, json.dumps(good)]))
    unsent = metrics.Metrics(tmp_path, "checkpoint", patience=0)
    assert unsent.waiting == [good]
    unsent.close()
    unsent.thread.join()  # else it would say that it waits while the next test reads what is said


def test_where_none_is_to_be_opened_all_are_in_the_file(no_server, tmp_path, monkeypatch, capsys):
    monkeypatch.setenv("MLFLOW_RUN_ID", "")
    for step in (1, 2):  # the second is one that has been started again
        unsent = metrics.Metrics(tmp_path, "checkpoint")
        unsent.log(step, loss=0.5)
        unsent.close()
    assert kept(tmp_path) == [("loss", 0.5, 1), ("loss", 0.5, 2)]
    assert capsys.readouterr().out == ""


class Answering(BaseHTTPRequestHandler):
    """A tracking server's answer to metrics."""

    status = 200

    def do_POST(self):
        body = self.rfile.read(int(self.headers["Content-Length"]))
        self.server.taken += json.loads(body)["metrics"]
        if self.status != 200:
            self.send_error(self.status)
            return
        self.send_response(200)
        self.send_header("Content-Length", "2")
        self.end_headers()
        self.wfile.write(b"{}")

    def log_message(self, *_):
        return


@pytest.fixture
def serving(no_server, monkeypatch):
    """Returns a context in which a server answers so, and which gives what it has taken."""

    @contextlib.contextmanager
    def serve(status):
        answering = type("Answering", (Answering,), {"status": status})
        with ThreadingHTTPServer(("127.0.0.1", 0), answering) as server:
            server.taken = []
            thread = threading.Thread(target=server.serve_forever, args=(0.02,))
            thread.start()
            # Others in this process may have set another one, which wins over the variable.
            monkeypatch.setattr("mlflow.tracking._tracking_service.utils._tracking_uri", None)
            monkeypatch.setenv("MLFLOW_TRACKING_URI", f"http://127.0.0.1:{server.server_port}")
            yield server.taken
            server.shutdown()
            thread.join()

    return serve


def test_what_an_earlier_start_has_left_is_sent_once_the_server_is_back(
    no_server, serving, tmp_path
):
    killed = metrics.Metrics(tmp_path, "checkpoint")
    killed.log(1, loss=0.5)
    killed.close()
    with killed.unsent.open("a") as file:
        file.write('\n{"key": "lo')  # a power cut in the middle of a line
    with serving(200) as taken:
        again = metrics.Metrics(tmp_path, "checkpoint")
        again.log(2, loss=0.25)
        again.close()
    assert [(one["key"], one["value"], one["step"]) for one in taken] == [
        ("loss", 0.5, 1),
        ("loss", 0.25, 2),
    ]
    assert not again.unsent.exists()


@pytest.mark.parametrize("status", [401, 403, 404])
def test_a_server_that_refuses_them_is_asked_once(serving, tmp_path, capsys, status):
    with serving(status) as taken:
        unsent = metrics.Metrics(tmp_path, "checkpoint")
        unsent.log(1, loss=0.5)
        unsent.thread.join(2.5)
        unsent.log(2, loss=0.25)
        unsent.close()
    assert kept(tmp_path) == [("loss", 0.5, 1), ("loss", 0.25, 2)]
    assert len(taken) == 1
    assert capsys.readouterr().out.count(f"MLflow refuses metrics ({status})") == 1
