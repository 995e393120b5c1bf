"""What the tests of the embedded runner share."""

import json
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

from trireme.runner.local import pod, replica, runner

ROOT = Path(__file__).parents[4]

ALONE = """
import json, os, sys
from pathlib import Path
from trireme.errors import TriremeError
from trireme.observers.base import Observers
from trireme.observers.printing import Printing
from trireme.runner.local import runner
{before}
job = json.loads(Path(sys.argv[1]).read_text())
try:
    observers = Observers([Printing({on_lines})])
    runner.run(job, Path(sys.argv[2]), observers, isolated={isolated})
except TriremeError as error:
    print(f"{{type(error).__name__}}: {{error}}", flush=True)
    sys.exit(error.exit_status)
{after}
"""


@pytest.fixture
def code(tmp_path):
    directory = tmp_path / "code"
    directory.mkdir()
    return directory


@pytest.fixture
def logs(tmp_path):
    return tmp_path / "logs"


@pytest.fixture
def manifest(code, tmp_path, job, replicas):
    """Makes a PyTorchJob whose replicas all run a program; its results go to OUT."""

    def make(program, workers=1, restart="Never", policy=None, spec=None, args=(), env=None):
        (code / "train.py").write_text(textwrap.dedent(program))

        def role(count):
            return replicas(
                ["python3", "train.py"],
                count,
                restart,
                {"OUT": str(tmp_path)} | (env or {}),
                workingDir=str(code),
                args=list(args),
            )

        roles = {"Master": role(1)} | ({"Worker": role(workers)} if workers else {})
        return job("PyTorchJob", policy, spec, **roles)

    return make


@pytest.fixture
def impatient(monkeypatch):
    """Shortens the waits that a failure goes through."""
    monkeypatch.setattr(runner, "SETTLE", 1.0)
    monkeypatch.setattr(runner, "HURRY", 1.0)
    monkeypatch.setattr(pod, "GRACE", 1.0)
    monkeypatch.setattr(replica, "FIRST_DELAY", 0.05)
    monkeypatch.setattr(replica, "LAST_DELAY", 0.2)


@pytest.fixture
def alone(tmp_path, logs):
    """Starts a process that runs a job; ends what a failed test has left."""
    started = []

    def start(
        job,
        before="",
        # In one write: lines come from several threads.
        on_lines="lambda name, text: os.write(1, f'{name} {text}\\n'.encode())",
        after="",
        isolated=False,
    ):
        (tmp_path / "job.json").write_text(json.dumps(job))
        program = ALONE.format(
            before=before, on_lines=on_lines, after=textwrap.dedent(after), isolated=isolated
        )
        process = subprocess.Popen(
            [sys.executable, "-c", program, str(tmp_path / "job.json"), str(logs)],
            stdout=subprocess.PIPE,
            text=True,
            cwd=ROOT,
        )
        started.append(process)
        return process

    yield start
    for process in started:
        process.kill()
        process.communicate()
