"""``trireme deploy`` on a real cluster: pods that bring a model from a real MLflow, and answer.

Skipped without TRIREME_TEST_PODS_REACH: the address of this machine that the cluster's pods reach.
"""

import os
import signal
import socket
import subprocess
import sys
import threading
import time
import uuid
from types import SimpleNamespace

import numpy as np
import onnx_models
import pytest
import tracking_uri
import yaml
from player import REAL, make_namespace, remove_namespace

from trireme.deployment.objects import RESOURCES, find
from trireme.errors import TriremeError
from trireme.kubernetes.connection import Cluster
from trireme.kubernetes.resources import Resource

pytestmark = [pytest.mark.cluster, pytest.mark.slow]

ADDRESS = os.environ.get("TRIREME_TEST_PODS_REACH", "")
SERVICES = RESOURCES["Service"]
QUOTAS = Resource("", "v1", "resourcequotas")
INPUTS = np.array([[-1, 2], [3, -4]], dtype=np.float32)
RIGHT = {"predictions": {"output": [[0, 2], [3, 0]]}}
RELU = {"kind": "Deployment", "metadata": {"name": "relu"}}
FEW = ["--image", "registry.example.org/team/server:1"]

GOOD, AGAIN, LIAR, POISONED = "relu/1", "relu/2", "relu/3", "relu/4"


@pytest.fixture(scope="module")
def mlflow_server(tmp_path_factory):
    """A real MLflow server that pods reach; returns its URI."""
    if not ADDRESS:
        pytest.skip("TRIREME_TEST_PODS_REACH names no address that the cluster's pods reach")
    directory = tmp_path_factory.mktemp("mlflow")
    with socket.create_server((ADDRESS, 0)) as probe:
        port = probe.getsockname()[1]
    command = [sys.executable, "-m", "mlflow", "server", "--host", ADDRESS, "--port", str(port)]
    command += ["--workers", "1", "--allowed-hosts", f"{ADDRESS}:{port}"]
    command += ["--artifacts-destination", str(directory / "artifacts")]
    environment = os.environ | {"MLFLOW_BACKEND_STORE_URI": f"sqlite:///{directory / 'm.db'}"}
    with (directory / "log").open("wb") as log:
        server = subprocess.Popen(
            command, env=environment, stdout=log, stderr=log, start_new_session=True
        )
    limit = time.monotonic() + 120
    while time.monotonic() < limit and server.poll() is None:
        try:
            socket.create_connection((ADDRESS, port), timeout=1).close()
            break
        except OSError:
            time.sleep(0.1)
    yield f"http://{ADDRESS}:{port}"
    os.killpg(server.pid, signal.SIGKILL)
    server.wait()


@pytest.fixture(scope="module")
def registry(mlflow_server, tmp_path_factory):
    """The model relu: two good versions, one whose server lies, one whose server does not start."""
    import mlflow.onnx

    before = tracking_uri.told()
    mlflow.set_tracking_uri(mlflow_server)
    client = mlflow.MlflowClient()
    client.create_registered_model("relu")
    run = client.create_run(client.create_experiment("e")).info.run_id
    files = tmp_path_factory.mktemp("model") / "model"
    mlflow.onnx.save_model(
        onnx_models.of_one("Relu"),
        files,
        signature=mlflow.models.infer_signature(INPUTS, INPUTS),
        input_example=INPUTS,
        pip_requirements=["onnxruntime"],
        onnx_execution_providers=["CPUExecutionProvider"],
    )
    (files / "other.onnx").write_bytes(onnx_models.of_one("Abs").SerializeToString())
    description = yaml.safe_load((files / "MLmodel").read_text())
    served = description["flavors"]["python_function"]
    changes = {LIAR: {"data": "other.onnx"}, POISONED: {"loader_module": "no_such_module"}}
    for version in (GOOD, AGAIN, LIAR, POISONED):
        description["flavors"]["python_function"] = served | changes.get(version, {})
        (files / "MLmodel").write_text(yaml.safe_dump(description))
        folder = version.replace("/", "-")
        client.log_artifacts(run, str(files), folder)
        source = f"{client.get_run(run).info.artifact_uri}/{folder}"
        client.create_model_version("relu", source, run)
    mlflow.set_tracking_uri(before)
    return mlflow_server


@pytest.fixture(scope="module")
def space(registry):
    """A namespace for these tests."""
    if not REAL:
        pytest.skip("neither TRIREME_TEST_KUBECONFIG nor KUBECONFIG names a cluster")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("KUBECONFIG", REAL)
        cluster = Cluster(f"trireme-test-{uuid.uuid4().hex[:8]}", patience=20)
        make_namespace(cluster)
        yield cluster
        remove_namespace(cluster)


@pytest.fixture(scope="module")
def start(space, registry, tmp_path_factory):
    """Starts ``trireme deploy`` in the namespace."""
    home = tmp_path_factory.mktemp("home")

    def start(model, *options):
        arguments = ["deploy", model, "--namespace", space.namespace, *FEW, *options]
        environment = os.environ | {
            "KUBECONFIG": REAL,
            "MLFLOW_TRACKING_URI": registry,
            "TRIREME_HOME": str(home),
        }
        return subprocess.Popen(
            [sys.executable, "-m", "trireme", *arguments],
            env=environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )

    return start


@pytest.fixture(scope="module")
def deploy(start):
    def deploy(model, *options):
        process = start(model, *options)
        output, errors = process.communicate(timeout=280)
        return SimpleNamespace(status=process.returncode, output=output, errors=errors)

    return deploy


@pytest.fixture(scope="module")
def first(deploy):
    """Version 1, deployed where nothing was."""
    return deploy(GOOD)


@pytest.fixture
def asked(space, first):
    """Asks the Service all the time; returns what was wrong with its answers."""
    wrong, count, stop = [], [0], threading.Event()
    path = SERVICES.path(space.namespace, "relu:80", "proxy/invocations")
    body = {"inputs": INPUTS.tolist()}

    def ask():
        while not stop.wait(0.2):
            count[0] += 1
            try:
                answer = space.request("POST", SERVICES, path, body=body, patience=0)
            except TriremeError as error:
                answer = str(error)
            if answer != RIGHT:
                wrong.append(answer)

    thread = threading.Thread(target=ask)
    thread.start()
    yield wrong
    stop.set()
    thread.join()
    assert count[0] > 0


def served(space):
    """The version that is deployed, as MLflow addresses it."""
    return find(space, RELU)["metadata"]["annotations"]["trireme/model"]


def other(space):
    """A good version that is not deployed, as a person writes it."""
    return AGAIN if served(space) == f"models:/{GOOD}" else GOOD


def test_a_first_version_comes_up_and_answers(space, first):
    assert first.status == 0, first.errors
    assert "relu version 1 is deployed, and agrees with its file" in first.output
    there = f"--namespace {space.namespace} service/relu 8080:80"
    assert f"http://relu.{space.namespace}.svc/invocations" in first.output
    assert f"kubectl port-forward {there}" in first.output
    assert "smoke test passed: 2 samples" in first.errors
    path = SERVICES.path(space.namespace, "relu:80", "proxy/invocations")
    answer = space.request("POST", SERVICES, path, body={"inputs": INPUTS.tolist()})
    assert answer == RIGHT


def test_the_same_version_again_changes_nothing(space, deploy, asked):
    before = find(space, RELU)
    again = deploy(served(space).removeprefix("models:/"))
    assert again.status == 0, again.errors
    assert " is deployed already; nothing was changed\n" in again.output
    assert find(space, RELU)["metadata"]["resourceVersion"] == before["metadata"]["resourceVersion"]


def test_a_version_whose_image_is_missing_is_rolled_back(space, deploy, asked):
    before = served(space)
    done = deploy(other(space), "--image", "registry.example.org/missing:1")
    assert done.status == 1
    assert " was not deployed: container model of pod relu-" in done.errors
    assert 'ImagePullBackOff: Failed to pull image "registry.example.org/missing:1"' in done.errors
    assert done.errors.endswith(f"; rolled back to {before}\n")
    assert served(space) == before
    assert asked == []


def test_a_model_that_does_not_load_is_rolled_back(space, deploy, asked):
    before = served(space)
    done = deploy(POISONED)
    assert done.status == 1
    assert "container server of pod relu-" in done.errors
    assert "again and again: ModuleNotFoundError: No module named 'no_such_module';" in done.errors
    assert "[server] ModuleNotFoundError: No module named 'no_such_module'" in done.errors
    assert done.errors.endswith(f"; rolled back to {before}\n")
    assert asked == []


def test_a_version_that_answers_differently_is_rolled_back(space, deploy, first):
    before = served(space)
    done = deploy(LIAR)
    assert done.status == 1
    assert "the server's outputs differ from the exported file's" in done.errors
    assert done.errors.endswith(f"; rolled back to {before}\n")
    assert served(space) == before
    path = SERVICES.path(space.namespace, "relu:80", "proxy/invocations")
    assert space.request("POST", SERVICES, path, body={"inputs": INPUTS.tolist()}) == RIGHT


def test_ctrl_c_in_mid_rollout_rolls_back(space, start, asked):
    before = served(space)
    process = start(other(space))
    said = ""
    for line in process.stderr:
        said += line
        if "new pods ready" in line:
            break
    process.send_signal(signal.SIGINT)
    _, errors = process.communicate(timeout=200)
    assert process.returncode == 130, said + errors
    assert " was not deployed: interrupted (SIGINT); rolled back to " in errors
    assert errors.endswith(f" {before}\n")
    assert asked == []


def test_a_new_version_takes_over_without_a_gap(space, deploy, asked):
    new = other(space)
    done = deploy(new)
    assert done.status == 0, done.errors
    assert served(space) == f"models:/{new}"
    assert asked == []


def test_a_quota_is_told_before_anything_is_made(space, deploy, first):
    quota = {
        "apiVersion": "v1",
        "kind": "ResourceQuota",
        "metadata": {"name": "few"},
        "spec": {"hard": {"pods": "1"}},
    }
    space.create(QUOTAS, quota, space.namespace)
    path = QUOTAS.path(space.namespace, "few")
    try:
        while "hard" not in space.get(QUOTAS, "few", space.namespace).get("status", {}):
            time.sleep(0.05)
        before = served(space)
        done = deploy(other(space))
        assert done.status == 1
        assert "exceeded quota: few" in done.errors
        assert served(space) == before
    finally:
        space.request("DELETE", QUOTAS, path)
