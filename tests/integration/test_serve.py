"""trireme serve: a registered model answers real requests."""

import http.client
import json
import os
import signal
import socket
import subprocess
import sys
from contextlib import closing, suppress
from pathlib import Path

import mlflow.onnx
import numpy as np
import onnx_models
import pytest
import tracking_uri
import yaml

from trireme.deployment import manifests, serving, smoke_test
from trireme.deployment.model_version import download
from trireme.runner.local.ports import Ports
from trireme.tracking import journal
from trireme.tracking.model_versions import find
from trireme.tracking.sync import StepRun, sync

pytestmark = pytest.mark.slow

INPUTS = np.array([[-1, 2], [3, -4]], dtype=np.float32)


def onnx_file(path, operator):
    from onnx import save

    save(onnx_models.of_one(operator), path)


@pytest.fixture
def registered(trireme, tmp_path):
    """Registers a model as the export step does; returns the directory of its files."""

    def register():
        exported = tmp_path / "exported"
        exported.mkdir()
        onnx_file(exported / "model.onnx", "Relu")
        np.savez(exported / "sample.npz", inputs=INPUTS, outputs=np.maximum(INPUTS, 0))
        with journal.opened(tmp_path / "workspace", "export"):
            journal.log_artifact(exported, "exported")
            journal.log_model(
                exported / "model.onnx", "relu", exported / "sample.npz", tags={"weights": "0"}
            )
        experiment = trireme.client.create_experiment("e", (tmp_path / "artifacts").as_uri())
        run_id = trireme.client.create_run(experiment).info.run_id
        sync(tmp_path / "workspace", "export", StepRun(run_id, run_id))
        return Path(mlflow.artifacts.download_artifacts("models:/relu/1"))

    before = tracking_uri.told()
    mlflow.set_tracking_uri(f"sqlite:///{trireme.home / 'mlflow.db'}")
    yield register()
    mlflow.set_tracking_uri(before)


@pytest.fixture
def served(trireme, registered):
    """Starts ``trireme serve relu``; returns the process and what it has printed when it serves."""
    started = []

    def serve(*options):
        process = trireme.start("serve", "relu", *options, TMPDIR=str(trireme.home))
        started.append(process)
        lines = []
        for line in process.stdout:
            lines.append(line)
            if "Ctrl-C stops it" in line:
                return process, "".join(lines)
        raise AssertionError(process.stderr.read())

    yield serve
    for process in started:
        process.kill()
        process.communicate()


def the_server(trireme):
    """The process id of the server itself."""
    mine = f"TRIREME_HOME={trireme.home}".encode()
    for entry in Path("/proc").iterdir():
        if not entry.name.isdigit():
            continue
        try:
            words = (entry / "cmdline").read_bytes().split(b"\0")
            if words[1:3] == [b"-m", b"uvicorn"] and mine in (entry / "environ").read_bytes():
                return int(entry.name)
        except OSError:
            continue
    raise AssertionError("there is no server")


def test_what_it_prints_works_when_pasted_and_sigterm_ends_it(served, trireme):
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    process, output = served("--port", str(port))
    assert output.startswith(f"relu version 1 answers at http://127.0.0.1:{port}/invocations")
    (curl,) = [line for line in output.splitlines() if line.startswith("curl ")]
    answer = subprocess.run(
        ["bash", "-c", curl], capture_output=True, text=True, check=True, timeout=60
    ).stdout
    assert json.loads(answer) == {"predictions": {"output": [[0, 2], [3, 0]]}}
    assert answer in output
    assert "POST /invocations" in (trireme.home / "serving" / f"{port}.log").read_text()

    second = trireme.call("serve", "relu", "--port", str(port))
    assert second.returncode == 2
    assert second.stderr.startswith(f"error: --port {port}: address already in use; name another")

    process.terminate()
    assert process.wait(timeout=30) == 128 + signal.SIGTERM
    assert trireme.wait_for_no_processes() == []
    assert list(trireme.home.glob("trireme-*")) == []


def test_only_requests_to_this_machine_of_bounded_size_are_answered(served):
    _, output = served()
    port = int(output.split("http://127.0.0.1:")[1].split("/")[0])

    def status(host, length=None, *parts):
        with closing(http.client.HTTPConnection("127.0.0.1", port, timeout=60)) as connection:
            connection.putrequest("POST", "/invocations", skip_host=True)
            connection.putheader("Host", host)
            connection.putheader("Content-Type", "application/json")
            if length is None:
                connection.putheader("Transfer-Encoding", "chunked")
            else:
                connection.putheader("Content-Length", str(length))
            connection.endheaders()
            with suppress(ConnectionError):  # it need not read all that it refuses
                for part in parts:
                    connection.send(part)
            return connection.getresponse().status

    body = json.dumps({"inputs": INPUTS.tolist()}).encode()
    for host in ("127.0.0.1", f"127.0.0.1:{port}", f"localhost:{port}", "LOCALHOST"):
        assert status(host, len(body), body) == 200
    for host in ("evil.example.org", f"evil.example.org:{port}", "127.0.0.1.example.org", ""):
        assert status(host, len(body), body) == 400
    assert status("localhost", serving.BODY_LIMIT + 1) == 413
    chunk = b"%x\r\n%b\r\n" % (1 << 24, bytes(1 << 24))
    assert status("localhost", None, *[chunk] * (serving.BODY_LIMIT // (1 << 24) + 1)) == 413


def test_no_server_is_left_when_the_command_is_killed(served, trireme):
    process, _ = served()
    process.kill()
    process.wait()
    assert trireme.wait_for_no_processes() == []


def test_a_server_that_ends_by_itself_ends_the_command(served, trireme):
    process, _ = served()
    os.kill(the_server(trireme), signal.SIGKILL)
    assert process.wait(timeout=30) == 1
    errors = process.stderr.read()
    assert "error: the scoring server was ended by SIGKILL; its log is " in errors
    assert "Traceback" not in errors


def test_check_compares_the_server_with_the_file(trireme, registered):
    result = trireme.call("serve", "relu", "--check", "--verbose")
    assert result.returncode == 0, result.stderr
    assert result.stdout == (
        "relu version 1 agrees with its file: largest difference 0 on 2 samples, allowed 0.0003\n"
    )
    assert "Uvicorn running" in result.stderr


@pytest.fixture
def model(registered, tmp_path, monkeypatch):
    """The registered model, downloaded here."""
    monkeypatch.setenv("TRIREME_HOME", str(tmp_path / "home"))
    return download(find("relu"), tmp_path / "model")


def loaded_otherwise(model, **description):
    """Changes how the scoring server loads a model."""
    file = model.files / "MLmodel"
    whole = yaml.safe_load(file.read_text())
    whole["flavors"]["python_function"] |= description
    file.write_text(yaml.safe_dump(whole))


def ignored(line):
    """Takes a line that a server prints."""


def test_check_fails_when_the_server_answers_differently(model):
    onnx_file(model.files / "other.onnx", "Neg")
    loaded_otherwise(model, data="other.onnx")
    pairs = smoke_test.expected_answers(model)
    with closing(Ports()) as ports, serving.started(model.files, ports.take(), ignored) as server:
        assert json.loads(server.first_answer(smoke_test.request(model))) == {
            "predictions": {"output": [[1, -2], [-3, 4]]}
        }
        with pytest.raises(serving.ServingFailed, match=r"largest difference 6, allowed 0\.0003"):
            smoke_test.compare(server, pairs)
        with pytest.raises(serving.ServingFailed, match=r"refuses the request \(400\): "):
            server.answer('{"inputs": [[1, 2, 3]]}')


def test_a_server_that_dies_at_its_start_shows_its_last_lines(model, trireme):
    loaded_otherwise(model, loader_module="is_not_there")
    with (
        closing(Ports()) as ports,
        serving.started(model.files, ports.take(), ignored) as server,
        pytest.raises(serving.ServingFailed, match="exited with status 1; its log is ") as failed,
    ):
        server.first_answer(smoke_test.request(model))
    assert failed.value.exit_status == 1
    assert "No module named 'is_not_there'" in failed.value.detail
    (log,) = (trireme.home / "serving").iterdir()
    assert failed.value.detail in log.read_text()


def test_the_commands_of_the_deployment_serve_and_its_readiness_predicts(
    registered, trireme, tmp_path, eventually
):
    """Runs what the pod's containers would, on other paths and another port."""
    bin_directory = Path(sys.executable).parent
    (tmp_path / "model").mkdir()
    with closing(Ports()) as ports:
        port = ports.take()

        def here(command):
            words = [
                word.replace("/model", str(tmp_path / "model"))
                .replace(str(manifests.PORT), str(port))
                .replace("0.0.0.0", "127.0.0.1")
                for word in command
            ]
            return [str(bin_directory / words[0]), *words[1:]]

        found = find("relu")
        (example,) = [file.name for file in registered.glob("serving_input_example.json")]
        deployment, _ = manifests.deployment(found, example, "http://mlflow", "any", 0)
        pod = deployment["spec"]["template"]["spec"]
        (first,), (container,) = pod["initContainers"], pod["containers"]
        environment = trireme.environment | {
            item["name"]: item["value"].replace("/model", str(tmp_path / "model"))
            for item in container["env"]
        }
        store = {"MLFLOW_TRACKING_URI": f"sqlite:///{trireme.home / 'mlflow.db'}"}
        subprocess.run(here(first["command"]), env=environment | store, check=True, timeout=120)
        ready = here(container["readinessProbe"]["exec"]["command"])
        assert subprocess.run(ready, capture_output=True, timeout=60).returncode != 0
        server = subprocess.Popen(here(container["command"]), env=environment)
        try:
            assert eventually(
                lambda: subprocess.run(ready, capture_output=True, timeout=60).returncode == 0
            )
            Path(ready[-1]).write_text('{"inputs": "nonsense"}')
            assert subprocess.run(ready, capture_output=True, timeout=60).returncode != 0
        finally:
            server.terminate()
            server.wait()
