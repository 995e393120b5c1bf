"""The launcher's Role in manifests/ against the calls that are made."""

import math
from pathlib import Path

import pytest
import yaml
from api_server import granted
from player import (
    REAL,
    ROLES,
    Player,
    manifests,
)

from trireme.code import bundle
from trireme.code.git import checkout
from trireme.errors import InputError
from trireme.frameworks import kind_of
from trireme.frameworks.kinds import RETRIES
from trireme.job.job import TrainingJob
from trireme.kubernetes import access, owner
from trireme.kubernetes.connection import Cluster
from trireme.kubernetes.errors import Forbidden
from trireme.kubernetes.resources import PODS, SECRETS, SERVICE_ACCOUNTS, Resource
from trireme.manifests import render
from trireme.observers import timeline
from trireme.observers.incidents import SEEN
from trireme.observers.progress import Meter
from trireme.observers.timeline import Timeline
from trireme.observers.trainer_status import TrainerStatus
from trireme.runner.cluster import follower, jobs, replicas, submission, usage_watch

FILE = Path(__file__).parents[2] / "manifests/base/rights/roles.yaml"
ROLE, BINDING = yaml.safe_load_all(FILE.read_text())
ACCOUNT = BINDING["subjects"][0]["name"]
RBAC = "rbac.authorization.k8s.io"


@pytest.fixture(autouse=True)
def quick_to_settle(monkeypatch):
    monkeypatch.setattr(follower, "DRAIN", 1.0)


@pytest.fixture(params=["stand-in", pytest.param("real", marks=pytest.mark.cluster)])
def admin(request):
    """A cluster, for somebody who may do everything there."""
    return request.getfixturevalue("standing_in" if request.param == "stand-in" else "real")


@pytest.fixture
def cluster(request, admin, write_kubeconfig, monkeypatch):
    """The same cluster, for the service account of the steps."""
    if request.node.callspec.params["admin"] == "stand-in":
        server = request.getfixturevalue("server")
        server.limited["launcher"] = ROLE["rules"]
        write_kubeconfig(server.url, token="launcher")
    else:
        settings = yaml.safe_load(Path(REAL).read_text())
        settings["users"] = [{"name": "me", "user": {"token": account(admin)}}]
        for context in settings["contexts"]:
            context["context"]["user"] = "me"
        file = write_kubeconfig("")
        file.write_text(yaml.safe_dump(settings))
    return Cluster(admin.namespace, patience=20)


@pytest.fixture
def player(admin, container_logs):
    return Player(admin, container_logs)


def account(admin):
    """Makes the account with its Role; returns a token of it."""
    admin.create(SERVICE_ACCOUNTS, {"metadata": {"name": ACCOUNT}}, admin.namespace)
    admin.create(Resource(RBAC, "v1", "roles"), ROLE, admin.namespace)
    subject = BINDING["subjects"][0] | {"namespace": admin.namespace}
    binding = BINDING | {"subjects": [subject]}
    admin.create(Resource(RBAC, "v1", "rolebindings"), binding, admin.namespace)
    path = SERVICE_ACCOUNTS.path(admin.namespace, ACCOUNT, "token")
    return admin.request("POST", SERVICE_ACCOUNTS, path, body={})["status"]["token"]


def live(launched, player, manifest, is_noted=None, timeline=None):
    """Has a job run until it has succeeded; given what tells that this is noted, fail once."""
    if is_noted:
        manifest["metadata"].setdefault("annotations", {})[RETRIES] = "1"
    run = launched(manifest, *([timeline] if timeline else []))
    job = player.wait_for(manifest)
    first, second = ("master", "worker") if "runtime" in manifest else ROLES[job["kind"]]
    pods = [player.pod(job, first, 0), player.pod(job, second, 0 if first != second else 1)]
    for pod in pods:
        player.run(pod)
    player.condition(job, "Running")
    run.says("running")
    if is_noted:
        player.restart(pods[1], 1)
        assert is_noted(job)
    for pod in pods:
        player.exit(pod, 0)
    player.condition(job, "Running", status="False")
    player.condition(job, "Complete" if job["kind"] == "TrainJob" else "Succeeded")
    assert run.end().error is None


def of_trainer():
    """Returns a TrainJob with a runtime of its own."""
    job = TrainingJob.create(name="digits", entrypoint="train.py", workers=1)
    return render(job, "trainer")


def wait_and_go(launched, player, cluster, manifest, words):
    """Has a job wait, until the end of its run deletes it."""
    run = launched(manifest)
    player.wait_for(manifest)
    run.says(words)
    assert jobs.delete_running(cluster, {manifest["metadata"]["name"]: math.inf})
    run.end()


def test_a_job_lives_with_the_role_alone(launched, player, manifest):
    live(launched, player, manifest)


def test_the_role_allows_what_is_done_and_nothing_else(
    request, launched, player, admin, cluster, queued, eventually, monkeypatch, tmp_path
):
    """A whole life of each kind, what makes a job wait, and the end of a run."""
    if request.node.callspec.params["admin"] == "real":
        pytest.skip("a real API server keeps no list of what was done")
    monkeypatch.setattr(replicas, "LINES_LATE", 0.0)
    monkeypatch.setattr(usage_watch, "EVERY", 0.0)
    monkeypatch.setattr(timeline, "EVERY", 0.0)

    def is_noted(job):
        kind, name = kind_of(job), job["metadata"]["name"]
        return eventually(
            lambda: SEEN in admin.get(kind, name, admin.namespace)["metadata"]["annotations"]
        )

    for manifest in [*manifests().values(), of_trainer()]:
        live(launched, player, manifest, is_noted, Timeline(tmp_path / "replicas.json"))
        assert jobs.delete(cluster, manifest["metadata"]["name"]) is None
    elastic = TrainingJob.create(name="digits", entrypoint="train.py", elastic={"min": 1, "max": 2})
    run = launched(render(elastic))
    player.wait_for(render(elastic))
    run.says("its operator has not started to handle it")
    assert jobs.delete_running(cluster, {"digits": math.inf})
    run.end()
    submission.submit(cluster, told := of_trainer())
    TrainerStatus(cluster, told, Meter("")).end(None)
    jobs.delete(cluster, told["metadata"]["name"])
    server = request.getfixturevalue("server")
    server.fail("POST", "/trainjobs$", code=422)  # its runtime goes again
    assert launched(of_trainer()).end().error
    gang, lonely = manifests()["PyTorchJob"], manifests()["PyTorchJob"]
    wait_and_go(launched, player, cluster, lonely, "its operator has not started to handle it")
    wait_and_go(launched, player, cluster, queued, "Kueue is not installed")
    gang["spec"]["runPolicy"]["schedulingPolicy"] = {"minAvailable": 2}
    wait_and_go(launched, player, cluster, gang, "no PodGroup")
    code = bundle.Bundle(40 * "a", b"", bundle.CONFIG_MAP)
    bundle.keep(code, lambda: admin)
    with pytest.raises(InputError, match="is not that commit"):
        checkout(code.url, "", tmp_path / "code")
    step = {"metadata": {"name": "step"}, "spec": {"containers": []}, "kind": "Pod"}
    admin.create(PODS, step, admin.namespace)
    monkeypatch.setenv("POD_NAME", "step")
    assert owner.owners(cluster)
    # The stand-in speaks no websockets; the cluster's suite has pods asked whether they hang.
    asked = {("", "pods/exec", verb) for verb in ("get", "create")}
    assert server.used | asked == granted(ROLE["rules"])


def test_what_the_role_does_not_allow_is_refused(cluster):
    with pytest.raises(Forbidden):
        cluster.list(SECRETS, cluster.namespace)
    assert not access.may(cluster, cluster.namespace, PODS, "", "create")
    assert access.may(cluster, cluster.namespace, PODS, "log", "get")
