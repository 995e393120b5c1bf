import contextlib
import io
import json
import os
import subprocess
import sys
import time
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from unittest.mock import patch

import mlflow
import pytest
import tracking_uri

from trireme.cli import app as cli

TRIREME = str(Path(sys.executable).parent / "trireme")
DEADLINE = 240  # seconds that any one run may take


@dataclass
class Trireme:
    """The command line with a data directory of its own."""

    home: Path

    @property
    def environment(self):
        kept = {key: value for key, value in os.environ.items() if not key.startswith("MLFLOW_")}
        return kept | {"TRIREME_HOME": str(self.home)}

    @property
    def client(self):
        return mlflow.MlflowClient(f"sqlite:///{self.home / 'mlflow.db'}")

    def start(self, *arguments, **environment):
        return subprocess.Popen(
            [TRIREME, *arguments],
            env=self.environment | environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            cwd=self.home,
        )

    def run(self, *arguments, **environment):
        process = self.start(*arguments, **environment)
        try:
            output, errors = process.communicate(timeout=DEADLINE)
        finally:
            process.kill()
        return subprocess.CompletedProcess(arguments, process.returncode, output, errors)

    def call(self, *arguments, **environment):
        """As ``run``, in this process: it has loaded already what takes the command seconds.

        The steps of a pipeline are processes of their own as ever. For tests of what a command
        does; those of the command as a process, of its signals and its output's end, ``run`` it.
        """
        output, errors, before = io.StringIO(), io.StringIO(), tracking_uri.told()
        try:
            with (
                patch.dict(os.environ, self.environment | environment, clear=True),
                patch.object(sys, "argv", [TRIREME, *arguments]),
                contextlib.chdir(self.home),
                contextlib.redirect_stdout(output),
                contextlib.redirect_stderr(errors),
                pytest.raises(SystemExit) as ended,
            ):
                cli.main()
        finally:
            mlflow.set_tracking_uri(before)
        status = int(ended.value.code or 0)
        return subprocess.CompletedProcess(arguments, status, output.getvalue(), errors.getvalue())

    def processes(self, others=()):
        """The command lines of all processes with this data directory; others are left out."""
        mine = f"TRIREME_HOME={self.home}".encode()
        found = []
        for entry in set(Path("/proc").iterdir()).difference(others):
            try:
                if mine in (entry / "environ").read_bytes().split(b"\0"):
                    found.append((entry / "cmdline").read_bytes().replace(b"\0", b" ").decode())
            except OSError:
                continue
        return found

    def wait_for_no_processes(self, seconds=15):
        deadline = time.monotonic() + seconds
        while self.processes() and time.monotonic() < deadline:
            time.sleep(0.1)
        return self.processes()

    def parents(self):
        """The MLflow runs of whole pipelines, newest first."""
        experiments = [experiment.experiment_id for experiment in self.client.search_experiments()]
        runs = self.client.search_runs(experiments)
        return [run for run in runs if "mlflow.parentRunId" not in run.data.tags]

    def nested(self, parent):
        """The MLflow runs of a pipeline's steps, by name."""
        tag = f"tags.`mlflow.parentRunId` = '{parent.info.run_id}'"
        runs = self.client.search_runs([parent.info.experiment_id], tag)
        return {run.info.run_name: run for run in runs}

    def run_directory(self):
        """The directory of the newest run."""
        return max((self.home / "runs").iterdir(), key=lambda path: path.stat().st_mtime)

    def loaded(self, step):
        """The packages that a step of the newest run, with PYTHONPROFILEIMPORTTIME=1, loaded."""
        log = self.run_directory() / "workspace" / "steps" / step / "output.log"
        lines = [line for line in log.read_text().splitlines() if line.startswith("import time:")]
        return {line.rpartition("|")[2].strip().partition(".")[0] for line in lines}


@pytest.fixture(scope="session")
def trireme_type():
    """The class, for modules that share one run among their tests."""
    return Trireme


@pytest.fixture
def trireme(tmp_path, mlflow_store):
    """The command line, on a copy of an MLflow store that is set up already."""
    home = tmp_path / "home"
    home.mkdir()
    (home / "mlflow.db").write_bytes(mlflow_store.read_bytes())
    command = Trireme(home)
    yield command
    assert command.wait_for_no_processes() == []


@pytest.fixture
def repository(tmp_path):
    """Makes a git repository of the given files and returns its directory."""

    def make(**files):
        directory = tmp_path / "repository"
        directory.mkdir()
        for name, content in files.items():
            (directory / f"{name}.py").write_text(content)
        git = ["git", "-C", str(directory), "-c", "user.name=A", "-c", "user.email=a@example.org"]
        subprocess.run([*git, "init", "-q", "-b", "main"], check=True)
        subprocess.run([*git, "add", "."], check=True)
        subprocess.run([*git, "commit", "-q", "-m", "First"], check=True)
        return directory

    return make


@pytest.fixture
def graded(tmp_path, repository):
    """A program that learns in no time and data that say how well: the parameters of a run."""
    import programs
    import torch

    data = tmp_path / "grades"
    data.mkdir()
    torch.save(torch.nn.Linear(4, 2).state_dict(), data / "weights.pth")
    weights = torch.load(data / "weights.pth", weights_only=True)
    torch.save({f"head.{name}": value for name, value in weights.items()}, data / "weights.pth")
    code = repository(train=programs.GRADED, grades=programs.GRADES, net=programs.NET)

    def parameters(goodness, *more):
        (data / "goodness").write_text(str(goodness))
        given = [
            f"code_url={code}",
            "entrypoint=train.py",
            f"dataset_uri={data}",
            'evaluation={"entrypoint": "grades.py"}',
            "model_factory=net:Net",
            "model_name=graded",
            *more,
        ]
        return [word for one in given for word in ("-p", one)]

    return parameters


@pytest.fixture
def webhook(monkeypatch):
    """A server that a run's outcome is posted to; its ``told`` are the messages."""
    told = []

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self):
            told.append(json.loads(self.rfile.read(int(self.headers["Content-Length"]))))
            self.send_response(204)
            self.end_headers()

        def log_message(self, *arguments):
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.told = told
    Thread(target=server.serve_forever, daemon=True).start()
    url = f"http://127.0.0.1:{server.server_port}/hook?key=k"
    monkeypatch.setenv("TRIREME_WEBHOOK_URL", url)
    yield server
    server.shutdown()
    server.server_close()
