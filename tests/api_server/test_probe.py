"""The pod that tries images and MLflow, played by a stand-in of the kubelet of Kubernetes 1.36."""

import threading

import pytest

from trireme.doctor import probe
from trireme.images import BASE
from trireme.kubernetes.connection import Cluster
from trireme.kubernetes.resources import CONFIG_MAPS, PODS

OTHER, GONE = "example.org/other:1", "example.org/gone:1"
LOST = "failed to resolve reference"


def ended(code, **more):
    return {"state": {"terminated": {"exitCode": code, **more}}, "imageID": "sha256:0"}


def waiting(reason, message=""):
    return {"state": {"waiting": {"reason": reason, "message": message}}, "imageID": ""}


@pytest.fixture
def tried(standing_in, container_logs, eventually):
    """Tries images, while a kubelet does what it is told with each; returns what was found."""

    def tried(*statuses, said="", **status):
        def play():
            assert eventually(lambda: standing_in.items(PODS, "team"))
            [pod] = standing_in.items(PODS, "team")
            name = pod["metadata"]["name"]
            if said:
                container_logs.write(name, *said.splitlines())
                container_logs.end(name)
            containers = [
                {"name": container["name"]} | each
                for container, each in zip(pod["spec"]["containers"], statuses, strict=False)
            ]
            body = {"status": {"containerStatuses": containers} | status}
            path = PODS.path("team", name, "status")
            standing_in.request("PATCH", PODS, path, body=body)

        kubelet = threading.Thread(target=play, daemon=True)
        kubelet.start()
        found = list(probe.probe(standing_in, [BASE, OTHER, GONE], "", lambda sentence: None))
        kubelet.join(60)
        assert standing_in.items(PODS, "team") == []  # it is removed
        return {(it.verdict.value, it.sentence) for it in found}

    return tried


@pytest.fixture(autouse=True)
def impatient(impatient, monkeypatch):
    monkeypatch.setattr(probe, "PAUSE", 0.02)
    monkeypatch.setattr(probe, "UNSCHEDULABLE", 2)
    monkeypatch.setattr(probe, "LIMIT", 4)


def test_images_and_mlflow_are_told(tried):
    found = tried(
        ended(0),
        ended(128, reason="StartError"),
        waiting("ErrImagePull", LOST),
        said="2026 INFO something\nMLflow answers",
    )
    assert found == {
        ("ok", f"image {BASE} can be pulled"),
        ("ok", "MLflow answers"),
        ("ok", f"image {OTHER} can be pulled"),
        ("failed", f"image {GONE} cannot be pulled: ErrImagePull: {LOST}"),
    }


def test_an_mlflow_that_keeps_nothing_has_failed(tried):
    assert ("failed", "no store") in tried(ended(1), ended(128), ended(128), said="no store")


def test_an_image_without_trireme_leaves_mlflow_unknown(tried):
    said = "/bin/python: No module named trireme"
    found = tried(ended(1), ended(128), ended(128), said=said)
    assert ("unknown", f"image {BASE} cannot ask MLflow: {said}") in found


def test_a_pod_that_finds_no_node_is_told(tried, monkeypatch):
    monkeypatch.setattr(probe, "LIMIT", 60)
    condition = {"type": "PodScheduled", "status": "False", "reason": "Unschedulable"}
    found = tried(conditions=[condition | {"message": "0/1 nodes"}])
    assert found == {("failed", "a pod of 1Gi finds no node: Unschedulable: 0/1 nodes")}


def test_what_is_not_pulled_in_time_is_unknown(tried, standing_in, monkeypatch):
    monkeypatch.setattr(probe, "UNSCHEDULABLE", 60)
    found = tried(waiting("ContainerCreating"), ended(128), waiting("ContainerCreating"))
    assert ("unknown", f"not pulled within 4 s: {BASE}, {GONE}") in found


def test_who_may_make_no_pods_is_told(server, standing_in):
    server.fail("POST", "/pods", code=403, message='pods is forbidden: User "me" cannot create')
    [found] = probe.probe(standing_in, [BASE], "", lambda sentence: None)
    assert (found.verdict, "no pod can be made" in found.sentence) == ("unknown", True)


def deployment(image, **container):
    spec = {"template": {"spec": {"containers": [{"image": image} | container]}}}
    return {"metadata": {"name": "it", "namespace": "argo"}, "spec": spec}


@pytest.mark.parametrize(
    ("more", "executor", "image"),
    [
        ({}, "", "quay.io/argoproj/argoexec:v4.1.2"),
        ({"args": ["--executor-image", "mine/exec:1"]}, "", "mine/exec:1"),
        ({"args": ["--executor-image=mine/exec:1"]}, "", "mine/exec:1"),
        ({}, "image: mine/exec:2\nimagePullPolicy: Always", "mine/exec:2"),
    ],
)
def test_the_executor_is_the_one_that_the_controller_is_told_of(
    standing_in, monkeypatch, more, executor, image
):
    if executor:
        name = {"name": "workflow-controller-configmap"}
        data = {"metadata": name, "data": {"executor": executor}}
        standing_in.create(CONFIG_MAPS, data, "argo")
    there = [deployment("quay.io/argoproj/workflow-controller:v4.1.2", **more)]
    monkeypatch.setattr(Cluster, "items", lambda *given: there)
    assert probe.engine_images(standing_in) == [image]


def test_kubeflow_pipelines_has_two_beside_each_step(standing_in, monkeypatch):
    env = [{"name": "V2_DRIVER_IMAGE", "value": "mirror/driver:1"}]
    there = [deployment("ghcr.io/kubeflow/kfp-api-server:2.17.0", env=env)]
    monkeypatch.setattr(Cluster, "items", lambda *given: there)
    launcher = "ghcr.io/kubeflow/kfp-launcher:2.17.0"
    assert probe.engine_images(standing_in) == ["mirror/driver:1", launcher]
