"""Clusters for tests: a stand-in for an API server, and the one that KUBECONFIG names."""

import threading
import uuid
from contextlib import suppress
from types import SimpleNamespace

import pytest
import yaml
from api_server import ApiServer
from kubelet import Kubelet, Logs
from player import (
    REAL,
    ROLES,
    Player,
    make_namespace,
    make_node,
    manifests,
    remove_namespace,
    remove_node,
)
from typer.testing import CliRunner

from trireme.cli.app import app
from trireme.errors import TriremeError
from trireme.kubernetes.connection import Cluster
from trireme.kubernetes.errors import AlreadyThere, KindMissing, NotFound
from trireme.kubernetes.resources import PODS, SERVICE_ACCOUNTS
from trireme.observers.base import Observers
from trireme.observers.hangs import Hangs
from trireme.observers.preflight.report import PreflightLines
from trireme.observers.printing import Printing
from trireme.process import patience
from trireme.runner.cluster import follower, submission
from trireme.runner.cluster.follower import Limits
from trireme.runner.cluster.reasons import QUEUE
from trireme.runner.cluster.runner import launch
from trireme.targets.argo import workflows


@pytest.fixture(autouse=True)
def impatient(monkeypatch):
    """Shortens every wait."""
    monkeypatch.setattr(patience, "FIRST_PAUSE", 0.02)
    monkeypatch.setattr(patience, "LONGEST_PAUSE", 0.2)
    monkeypatch.setattr(follower, "TICK", 0.05)
    monkeypatch.setattr(follower, "REASON_EVERY", 0.1)
    monkeypatch.setattr(submission, "POLL", 0.05)


@pytest.fixture
def write_kubeconfig(monkeypatch, tmp_path):
    """Writes a kubeconfig for a stand-in and makes it the one that is used."""
    file = tmp_path / "kubeconfig"

    def write(url, token="first", namespace="team"):
        context = {"cluster": "here", "user": "me", "namespace": namespace}
        file.write_text(
            yaml.safe_dump(
                {
                    "apiVersion": "v1",
                    "kind": "Config",
                    "clusters": [{"name": "here", "cluster": {"server": url}}],
                    "users": [{"name": "me", "user": {"token": token}}],
                    "contexts": [{"name": "here", "context": context}],
                    "current-context": "here",
                }
            )
        )
        monkeypatch.setenv("KUBECONFIG", str(file))
        return file

    return write


@pytest.fixture
def container_logs():
    return Logs()


@pytest.fixture
def server(container_logs, write_kubeconfig):
    """A stand-in for an API server, which KUBECONFIG leads to."""
    server = ApiServer(container_logs)
    write_kubeconfig(server.url)
    yield server
    server.down()


@pytest.fixture(params=["stand-in", pytest.param("real", marks=pytest.mark.cluster)])
def cluster(request):
    """A cluster with a namespace for the test alone: the stand-in, then the real one."""
    return request.getfixturevalue("standing_in" if request.param == "stand-in" else "real")


@pytest.fixture
def standing_in(server):
    """The stand-in, also where there is a real one."""
    return Cluster(patience=20)


@pytest.fixture
def real(monkeypatch):
    if not REAL:
        pytest.skip("neither TRIREME_TEST_KUBECONFIG nor KUBECONFIG names a cluster")
    monkeypatch.setenv("KUBECONFIG", REAL)
    cluster = Cluster(f"trireme-test-{uuid.uuid4().hex[:8]}", patience=20)
    make_namespace(cluster)
    yield cluster
    remove_namespace(cluster)


@pytest.fixture
def player(cluster, container_logs):
    """Plays operator and kubelet; pods belong to no node, so their logs cannot be read."""
    return Player(cluster, container_logs)


@pytest.fixture
def talkative(request, cluster, container_logs, tmp_path):
    """Plays operator and kubelet, on a node whose kubelet serves the pods' logs."""
    if "real" not in request.node.callspec.id:
        yield Player(cluster, container_logs)
        return
    kubelet = Kubelet(container_logs, tmp_path)
    node = f"node-{cluster.namespace}"
    make_node(cluster, node, kubelet.port)
    player = Player(cluster, container_logs, node)
    yield player
    for pod in cluster.list(PODS, cluster.namespace)["items"]:
        with suppress(NotFound):  # gone with the one that owned it
            player.remove(pod["metadata"]["name"])
    remove_node(cluster, node)
    kubelet.close()


@pytest.fixture(params=list(ROLES))
def manifest(request):
    """A job with two replicas, of each kind in turn."""
    return manifests()[request.param]


@pytest.fixture
def pytorch():
    """A PyTorchJob with a master and a worker."""
    return manifests()["PyTorchJob"]


@pytest.fixture
def queued(pytorch):
    """A job that asks Kueue for a place in a queue."""
    pytorch["metadata"]["labels"][QUEUE] = "gpus"
    pytorch["spec"]["runPolicy"]["suspend"] = True
    return pytorch


@pytest.fixture
def gang():
    """A job that asks for all its pods at once."""
    manifest = manifests()["PyTorchJob"]
    manifest["spec"]["runPolicy"]["schedulingPolicy"] = {"minAvailable": 2}
    return manifest


@pytest.fixture
def launched(cluster, monkeypatch, eventually):
    """Launches a job in another thread; what came of it can be waited for."""
    threads = []
    # Only the main thread can be told of signals.
    monkeypatch.setattr("trireme.runner.cluster.runner._SIGNALS", ())
    # What was lost ends the job, so that its sentence can be read.
    monkeypatch.setattr("trireme.runner.cluster.runner.LOST", 0)

    def start(manifest, *more, **limits):
        run = SimpleNamespace(lines=[], states=[], seconds=None, error=None)

        def work():
            try:
                shown = Printing(lambda *line: run.lines.append(line), run.states.append)
                observers = Observers([shown, PreflightLines(), Hangs(), *more])
                run.seconds = launch(manifest, cluster, Limits(**limits), observers)
            except TriremeError as error:
                run.error = error

        thread = threading.Thread(target=work, daemon=True)
        thread.start()
        threads.append(thread)

        def end():
            thread.join(60)
            assert not thread.is_alive(), f"it does not end; its states were {run.states}"
            return run

        def says(text):
            assert eventually(lambda: any(text in state for state in run.states)), run.states

        run.end, run.says = end, says
        return run

    yield start
    for thread in threads:
        thread.join(1)  # only one that a failed test has left needs longer


@pytest.fixture
def argo_standing_in(server, standing_in):
    """The stand-in, with Argo's custom resources."""
    server.plurals |= {
        "workflows": "Workflow",
        "workflowtemplates": "WorkflowTemplate",
        "cronworkflows": "CronWorkflow",
    }
    return standing_in


@pytest.fixture
def argo(cluster, request):
    """A cluster that has Argo's custom resources."""
    if "stand-in" in request.node.name:
        request.getfixturevalue("argo_standing_in")
    try:
        cluster.list(workflows.TEMPLATES, cluster.namespace)
    except (KindMissing, NotFound):
        pytest.skip("the cluster does not have Argo's custom resource definitions")
    with suppress(AlreadyThere):
        account = {"metadata": {"name": "trireme"}}
        cluster.create(SERVICE_ACCOUNTS, account, cluster.namespace)
    return cluster


@pytest.fixture
def command(argo, monkeypatch):
    """Runs a command in the cluster's namespace, and returns its output."""
    # MLflow leaves it of other tests in this process, as a file of the folder that they run in.
    monkeypatch.delenv("MLFLOW_TRACKING_URI", raising=False)

    def run(*words):
        result = CliRunner().invoke(app, [*words, "--target", "argo", "-n", argo.namespace])
        if result.exception and not isinstance(result.exception, SystemExit):
            raise result.exception
        return result.output

    return run
