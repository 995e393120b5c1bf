"""What can go wrong with a real API server: a broken link, old versions, credentials, rights."""

import base64
import os
import time
from pathlib import Path

import kubernetes.config.incluster_config as in_cluster
import pytest
import yaml
from kubelet import Logs
from link import Link
from player import Player

from trireme.frameworks import KINDS
from trireme.kubernetes import credentials
from trireme.kubernetes import watch as watching
from trireme.kubernetes.connection import Cluster
from trireme.kubernetes.errors import Expired, Forbidden, Unauthorized
from trireme.kubernetes.resources import PODS, SERVICE_ACCOUNTS, Resource
from trireme.kubernetes.streams import Stop
from trireme.observers.base import Observers
from trireme.observers.printing import Printing
from trireme.runner.cluster import follower, submission

pytestmark = pytest.mark.cluster
ROLES = Resource("rbac.authorization.k8s.io", "v1", "roles")
BINDINGS = Resource("rbac.authorization.k8s.io", "v1", "rolebindings")


@pytest.fixture(autouse=True)
def quick_to_settle(monkeypatch):
    monkeypatch.setattr(follower, "DRAIN", 1.0)


@pytest.fixture
def kubeconfig(real, monkeypatch, tmp_path):
    """Changes a copy of the kubeconfig and makes it the one that is used."""
    original = yaml.safe_load(Path(os.environ["KUBECONFIG"]).read_text())
    file = tmp_path / "kubeconfig"
    monkeypatch.setenv("KUBECONFIG", str(file))

    def write(server=None, user=None):
        settings = yaml.safe_load(yaml.safe_dump(original))
        if server:
            settings["clusters"][0]["cluster"]["server"] = server
        if user:
            settings["users"][0]["user"] = user
        file.write_text(yaml.safe_dump(settings))
        return settings["clusters"][0]["cluster"]

    return write


@pytest.fixture
def link(kubeconfig):
    """Leads the connections that are made from now on through a link; returns it."""
    host, _, port = kubeconfig()["server"].rpartition(":")
    if host not in ("https://127.0.0.1", "https://localhost"):
        pytest.skip("the API server is not on this machine")
    link = Link(int(port))
    kubeconfig(f"{host}:{link.port}")
    yield link
    link.close()


@pytest.fixture
def cluster(real, link):
    """The cluster, over the link."""
    return Cluster(real.namespace, patience=20)


def test_a_link_that_is_cut_for_a_while_changes_nothing(real, link, launched, pytorch):
    player = Player(real, Logs())
    run = launched(pytorch)
    job = player.wait_for(pytorch)
    master, worker = player.pod(job, "master"), player.pod(job, "worker")
    for pod in (master, worker):
        player.run(pod)
    run.says("running: 2 of 2 replicas run")
    link.cut()
    player.remove(worker)
    time.sleep(0.3)
    link.mend()
    run.says("running: 1 of 2 replicas run")
    link.cut()
    player.exit(master, 0)
    player.condition(job, "Succeeded")
    time.sleep(0.3)
    link.mend()
    assert run.end().error is None
    assert run.seconds["master-0"] > 0


def test_a_version_that_is_too_old_is_known_as_such(real):
    with pytest.raises(Expired):
        list(watching._events(real, PODS, real.namespace, "1", Stop(), {}))


def test_wrong_credentials_are_named_and_read_again(real, kubeconfig):
    kubeconfig(user={"token": "wrong"})
    cluster = Cluster(real.namespace, patience=20)
    with pytest.raises(Unauthorized, match="may have expired"):
        cluster.list(PODS, real.namespace)
    kubeconfig()
    assert cluster.list(PODS, real.namespace)["items"] == []


@pytest.fixture
def in_a_pod(real, kubeconfig, monkeypatch, tmp_path):
    """Has this process look as if it ran in a pod of the cluster, as the service account."""
    settings = kubeconfig()
    token = real.request(
        "POST",
        SERVICE_ACCOUNTS,
        SERVICE_ACCOUNTS.path(real.namespace, "default", "token"),
        body={"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": {}},
    )["status"]["token"]
    (tmp_path / "token").write_text(token)
    (tmp_path / "namespace").write_text(real.namespace)
    authority = settings.get("certificate-authority-data")
    (tmp_path / "ca.crt").write_bytes(
        base64.b64decode(authority)
        if authority
        else Path(settings["certificate-authority"]).read_bytes()
    )
    monkeypatch.setattr(in_cluster, "SERVICE_TOKEN_FILENAME", str(tmp_path / "token"))
    monkeypatch.setattr(in_cluster, "SERVICE_CERT_FILENAME", str(tmp_path / "ca.crt"))
    monkeypatch.setattr(credentials, "_NAMESPACE", tmp_path / "namespace")
    host, _, port = settings["server"].removeprefix("https://").rpartition(":")
    monkeypatch.delenv("KUBECONFIG")
    monkeypatch.setenv("KUBERNETES_SERVICE_HOST", host)
    monkeypatch.setenv("KUBERNETES_SERVICE_PORT", port)


def test_in_a_pod_without_rights_all_that_is_lacking_is_named(real, in_a_pod, pytorch):
    cluster = Cluster(patience=20)
    assert cluster.namespace == real.namespace
    with pytest.raises(Forbidden, match=r'cannot get resource "pytorchjobs"'):
        submission.submit(cluster, pytorch)
    allow(real, [{"apiGroups": ["kubeflow.org"], "resources": ["pytorchjobs"], "verbs": ["get"]}])
    # The API server learns of it a moment later.
    with pytest.raises(Forbidden) as caught:
        for _ in range(100):
            try:
                submission.submit(cluster, pytorch)
            except Forbidden as error:
                if "cannot get" not in str(error):
                    raise
                time.sleep(0.1)
    assert "this user may not create pytorchjobs.kubeflow.org" in str(caught.value)
    assert "get pods/log" in str(caught.value)


def test_in_a_pod_the_rights_that_are_asked_for_are_enough(real, in_a_pod, pytorch, eventually):
    allow(
        real,
        [
            {
                "apiGroups": ["kubeflow.org"],
                "resources": ["pytorchjobs"],
                "verbs": ["create", "get", "list", "watch", "delete"],
            },
            {"apiGroups": [""], "resources": ["pods"], "verbs": ["list", "watch"]},
            {"apiGroups": [""], "resources": ["pods/log"], "verbs": ["get"]},
            {"apiGroups": [""], "resources": ["events"], "verbs": ["list"]},
        ],
    )
    cluster = Cluster(patience=20)

    def submitted():
        try:
            return submission.submit(cluster, pytorch)
        except Forbidden:
            return None

    assert eventually(submitted)
    states, player = [], Player(real, Logs())
    job = player.wait_for(pytorch)
    observers = Observers([Printing(lambda *line: None, states.append)])
    follow = follower.Follower(cluster, job, follower.Limits(), observers)
    player.run(player.pod(job, "master"))
    player.condition(job, "Succeeded")
    assert set(follow.follow()) == {"master-0"}
    submission.delete(cluster, job)
    submission.wait_until_gone(cluster, job)
    assert not real.list(KINDS["PyTorchJob"], real.namespace)["items"]


def allow(cluster, rules):
    """Gives the namespace's default service account rights."""
    name = f"r{time.monotonic_ns()}"
    group = "rbac.authorization.k8s.io"
    head = {"apiVersion": f"{group}/v1", "metadata": {"name": name}}
    cluster.create(ROLES, head | {"kind": "Role", "rules": rules}, cluster.namespace)
    binding = head | {
        "kind": "RoleBinding",
        "subjects": [{"kind": "ServiceAccount", "name": "default", "namespace": cluster.namespace}],
        "roleRef": {"apiGroup": group, "kind": "Role", "name": name},
    }
    cluster.create(BINDINGS, binding, cluster.namespace)
