"""``trireme doctor``: what is said of a machine and of clusters that have little, all, or forbid.

The answers of the cluster have the form of Kubernetes 1.36's; tests/api_server asks a real one.
"""

import os

import pytest

from trireme import images
from trireme.cli import doctor as cli
from trireme.doctor import cluster as of_cluster
from trireme.doctor import machine
from trireme.images import BASE, PYTORCH
from trireme.kubernetes.errors import Forbidden, NotFound

GROUPS = {
    "kubeflow.org/v1": ["pytorchjobs", "tfjobs"],
    "trainer.kubeflow.org/v1alpha1": ["trainjobs"],
    "argoproj.io/v1alpha1": ["workflows"],
    "jobset.x-k8s.io/v1alpha2": ["jobsets"],
    "metrics.k8s.io/v1beta1": ["nodes", "pods"],
}


class Cluster:
    """A cluster with some groups, objects by their path, and rights."""

    namespace = "team"

    def __init__(self, groups=(), objects=(), may=lambda path: True):
        self.groups, self.objects, self.may = groups, dict(objects), may

    def request(self, method, resource, path, **more):
        if method == "POST":  # a review
            attributes = more["body"]["spec"]["resourceAttributes"]
            return {"status": {"allowed": self.may(attributes["resource"])}}
        if path == "/apis":
            names = {name.partition("/")[0]: name for name in self.groups}
            versions = {group: [{"groupVersion": name}] for group, name in names.items()}
            return {"groups": [{"name": group, "versions": of} for group, of in versions.items()]}
        found = self.groups[path.removeprefix("/apis/")]
        return {"resources": [{"name": name} for name in found]}

    def create(self, resource, body, namespace="", **query):
        return self.request("POST", resource, "", body=body)

    def items(self, resource, namespace, **query):
        if not self.may(resource.plural):
            raise Forbidden(f"you may not list {resource.plural}")
        return self.objects.get(resource.plural, [])

    def find(self, resource, name, namespace):
        if not self.may(resource.plural):
            raise Forbidden("no")
        return next((each for each in self.items(resource, "") if each["name"] == name), None)

    def first(self, resources, ask):
        return ask(resources[0])


def deployment(image, ready=1, namespace="argo"):
    name = image.rpartition("/")[2].partition(":")[0]
    spec = {"template": {"spec": {"containers": [{"image": image}]}}}
    spec["selector"] = {"matchLabels": {"app": name}}
    metadata = {"name": name, "namespace": namespace}
    return {"metadata": metadata, "spec": spec, "status": {"readyReplicas": ready} if ready else {}}


NODE = {
    "metadata": {"name": "one"},
    "spec": {},
    "status": {
        "allocatable": {"cpu": "4", "memory": "8Gi", "pods": "110", "nvidia.com/gpu": "2"},
        "images": [{"names": [images.BASE]}],
    },
}


WAITING = {
    "metadata": {"name": "workflow-controller-0"},
    "spec": {},
    "status": {
        "containerStatuses": [
            {"state": {"waiting": {"reason": "ErrImagePull", "message": "no such image"}}}
        ]
    },
}


def storage(name, provisioner):
    return {"metadata": {"name": name}, "provisioner": provisioner}


def said(cluster):
    return {(fact.verdict.value, fact.sentence) for fact in of_cluster.facts(cluster)}


def sentences(cluster, verdict):
    return [sentence for found, sentence in said(cluster) if found == verdict]


def allowed(cluster):
    return [fact.allows for fact in of_cluster.facts(cluster) if fact.allows]


@pytest.fixture
def full():
    objects = {
        "nodes": [NODE],
        "deployments": [
            deployment("docker.io/kubeflow/training-operator:v1.9.2"),
            deployment("ghcr.io/kubeflow/trainer/trainer-controller-manager:v2.3.0"),
            deployment("quay.io/argoproj/workflow-controller:v4.1.2", ready=0),
            deployment("quay.io/argoproj/workflow-controller:v4.1.2", namespace="kubeflow"),
        ],
        "pods": [WAITING],
        "storageclasses": [
            storage("nas", "nasplugin.csi.alibabacloud.com"),
            storage("disk", "diskplugin.csi.alibabacloud.com"),
            storage("other", "example.org/disk"),
        ],
        "serviceaccounts": [{"name": "trireme"}],
        "secrets": [{"name": "trireme-code"}],
    }
    return Cluster(GROUPS, objects)


@pytest.mark.parametrize(
    ("image", "tag"),
    [
        ("quay.io/argoproj/workflow-controller:v4.1.2", "v4.1.2 runs"),
        ("quay.io/argoproj/workflow-controller@sha256:0123", "runs"),
        ("registry.example.org:5000/argoproj/workflow-controller", "runs"),
    ],
)
def test_a_controller_is_known_by_any_name_of_its_image(image, tag):
    assert of_cluster._controller("workflow-controller", {image: "runs"})[1] == tag


def test_a_cluster_with_much_tells_what_runs_and_what_that_allows(full):
    found = said(full)
    for verdict, sentence in (
        ("ok", "1 node takes pods; free: 4 cpu, 8Gi memory, 2 nvidia.com/gpu"),
        ("ok", "training-operator: v1.9.2 runs"),
        (
            "failed",
            "Argo Workflows: v4.1.2 none of its pods in namespace argo is ready: "
            "ErrImagePull: no such image",
        ),
        ("ok", "StorageClass nas: pods of several nodes can share a volume"),
        ("ok", "ServiceAccount trireme exists"),
        ("ok", "Secrets trireme-code"),
        ("ok", f"images on a node: {images.BASE}"),
    ):
        assert (verdict, sentence) in found
    assert any("StorageClass disk: one node at a time" in each for _, each in found)
    assert any("volume of example.org/disk is unknown" in each for _, each in found)
    assert allowed(full)[:2] == ["PyTorchJob, TFJob", "TrainJob"]


def test_images_of_another_version_than_the_command_are_told():
    names = [images.BASE, "ghcr.io/trireme/base:0.0.9", "ghcr.io/trireme/pytorch:0.0.9-cuda"]
    names += [images.for_gpus(images.PYTORCH), "ghcr.io/trireme/base@sha256:0f", "busybox:0.0.9"]
    status = NODE["status"] | {"images": [{"names": names}]}
    (told,) = (
        each
        for each in sentences(Cluster(GROUPS, {"nodes": [NODE | {"status": status}]}), "missing")
        if each.startswith("images of another version")
    )
    assert told.startswith(
        f"images of another version than this Trireme, {images.VERSION}, on a node: "
        "ghcr.io/trireme/base:0.0.9, ghcr.io/trireme/pytorch:0.0.9-cuda; "
    )


def test_an_empty_cluster_tells_what_is_missing_and_how_it_gets_there():
    empty = Cluster()
    missing = " ".join(sentences(empty, "missing"))
    for what in ("install Kubeflow Trainer v2.2 or newer", "Argo Workflows for", "trireme-mlflow"):
        assert what in missing
    failed = sentences(empty, "failed")
    assert any("no node takes pods" in each for each in failed)
    assert any("no StorageClass" in each for each in failed)
    assert allowed(empty) == []


def test_what_others_have_in_a_group_of_the_same_name_is_not_taken_for_what_runs_need():
    groups = {"argoproj.io/v1alpha1": ["applications"], "kubeflow.org/v1": ["notebooks", "tfjobs"]}
    cluster = Cluster(groups, {"deployments": [deployment("quay.io/argoproj/argocd:v3.0")]})
    assert "Argo Workflows for pipelines" in " ".join(sentences(cluster, "missing"))
    rights = "you may create tfjobs in namespace team, and see their pods"
    assert rights in sentences(cluster, "ok")
    assert allowed(cluster) == ["TFJob"]
    none = Cluster({"argoproj.io/v1alpha1": ["applications"]})
    assert not [words for _, words in said(none) if words.startswith("you may")]


def test_who_may_do_nothing_is_told_so_and_nothing_is_allowed(full):
    full.may = lambda resource: False
    (failed,) = sentences(full, "failed")
    assert failed.startswith("you may not create pytorchjobs, ") and "in namespace team" in failed
    assert "you may not list nodes and their pods" in sentences(full, "unknown")
    assert allowed(full) == []


def test_a_machine_without_git_cannot_run_pipelines(tmp_path, monkeypatch):
    monkeypatch.setenv("TRIREME_HOME", str(tmp_path / "home"))
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.delenv("MLFLOW_TRACKING_URI", raising=False)
    found = {(fact.verdict.value, fact.sentence) for fact in machine.facts()}
    git = "git: code is checked out with it; as root: apt-get install git"
    assert ("failed", git) in found
    assert any(
        verdict == "missing" and "apt-get install openmpi-bin" in words for verdict, words in found
    )
    place = f"sqlite:///{tmp_path}/home/mlflow.db"
    assert any(words.endswith(f"runs are recorded at {place}") for _, words in found)


def test_a_home_that_cannot_be_written_or_is_full_is_a_failure(tmp_path, monkeypatch):
    (tmp_path / "file").touch()
    assert f"{tmp_path / 'file'} is no folder" in machine._disk(tmp_path / "file" / "runs").sentence
    monkeypatch.setattr(machine, "LEAST_FREE", 1e18)
    assert "are free for runs; make room" in machine._disk(tmp_path).sentence
    monkeypatch.setattr(os, "access", lambda *given: False)  # root may write anywhere
    assert "this user may not write there" in machine._disk(tmp_path).sentence


def test_an_mlflow_that_does_not_answer_is_a_failure(monkeypatch):
    monkeypatch.setenv("MLFLOW_TRACKING_URI", "http://127.0.0.1:9")
    fact = machine._mlflow()
    assert fact.verdict == "failed" and "http://127.0.0.1:9 does not answer" in fact.sentence


def test_not_found_is_no_answer_of_an_api_server():
    class Other(Cluster):
        def request(self, *given, **more):
            raise NotFound("no /version")

    with pytest.raises(NotFound):
        of_cluster.version(Other())


def test_the_probe_pulls_what_is_pulled_in_place_of_an_image(tmp_path, trireme, monkeypatch):
    pulled = []
    monkeypatch.setattr(cli, "connect", lambda namespace, context: Cluster())
    monkeypatch.setattr(of_cluster, "version", lambda cluster: "v1.36.0")
    monkeypatch.setattr(cli, "probed", lambda cluster, images, account: pulled.extend(images) or ())
    base = f"registry.example.org/base@sha256:{'0' * 64}"
    (tmp_path / "images.yaml").write_text(f"{BASE}: {base}")
    words = ("doctor", "--context", "team", "--probe", "--images")
    assert trireme(*words, str(tmp_path / "images.yaml"))[0] == 1  # nothing could run there
    assert pulled == [base, PYTORCH]
    status, _, errors = trireme(*words, str(tmp_path / "none.yaml"))
    assert (status, errors.count("\n")) == (2, 1)
    assert "none.yaml: cannot be read" in errors
