"""A webhook's server, and the MLflow runs of a pipeline."""

import json
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread

import mlflow
import pytest

from trireme.finish import webhook


@pytest.fixture
def server(untracked, monkeypatch):
    """A server that answers with what ``server.answers`` holds, in turn."""
    monkeypatch.setattr(webhook, "PAUSE", 0.01)

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self):
            body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            self.server.told.append((body, self.headers.get("Authorization")))
            self.send_response(self.server.answers.pop(0))
            self.end_headers()

        def log_message(self, *arguments):
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.told, server.answers = [], []
    Thread(target=server.serve_forever, daemon=True).start()
    monkeypatch.setenv("HOOK_URL", f"http://127.0.0.1:{server.server_port}/?key=hidden")
    yield server
    server.shutdown()
    server.server_close()


@pytest.fixture
def tracked(tmp_path, untracked, mlflow_store, monkeypatch):
    """The run of a pipeline, and of two of its steps, the second of which is this process's."""
    (tmp_path / "mlflow.db").write_bytes(mlflow_store.read_bytes())
    uri = f"sqlite:///{tmp_path / 'mlflow.db'}"
    client = mlflow.MlflowClient(uri)
    whole = client.create_run("0").info.run_id
    # As Kubeflow's plugin has it: runs of the exit handler and of conditions are between.
    tags = {"mlflow.parentRunId": whole}
    group = client.create_run("0", tags=tags).info.run_id
    tags = {"mlflow.parentRunId": group}
    steps = [client.create_run("0", tags=tags).info.run_id for _ in range(2)]
    monkeypatch.setenv("MLFLOW_TRACKING_URI", uri)
    monkeypatch.setenv("MLFLOW_RUN_ID", steps[1])
    mlflow.set_tracking_uri(uri)
    return client, whole, steps
