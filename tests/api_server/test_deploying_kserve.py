"""Deploying as an InferenceService: the API server and the pods are real, KServe is played.

Skipped without TRIREME_TEST_PODS_REACH, which says that pods run, and where there is a real KServe,
which would interfere.
"""

import os
import threading
import time
import uuid
from contextlib import suppress

import numpy as np
import pytest
from player import REAL, make_namespace, remove_namespace

from trireme.deployment import manifests, objects, release, rollout
from trireme.deployment.deploy import place
from trireme.deployment.release import NotDeployed, Plan
from trireme.deployment.scoring_client import OpenInferenceClient
from trireme.deployment.smoke_test import Expected
from trireme.errors import InputError
from trireme.kubernetes.connection import Cluster
from trireme.kubernetes.errors import AlreadyThere, Invalid, KindMissing, NotFound
from trireme.kubernetes.resources import PODS, Resource
from trireme.tracking.model_versions import ModelVersion

pytestmark = [pytest.mark.cluster, pytest.mark.slow]

CRDS = Resource("apiextensions.k8s.io", "v1", "customresourcedefinitions")
SERVICES = objects.RESOURCES["InferenceService"]
INPUTS = np.array([[-1, 2], [3, -4]], dtype=np.float32)
PAIRS = [Expected(INPUTS, np.maximum(INPUTS, 0))]
GOOD, AGAIN, LIAR, UNLOADABLE = "1", "2", "3", "4"

# Answers as MLServer 1.7 does, which refuses a body that is not declared to be JSON.
SERVER = """\
import json, sys
from http.server import BaseHTTPRequestHandler, HTTPServer
class Handler(BaseHTTPRequestHandler):
    def do_POST(self):
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        (tensor,) = body["inputs"]
        right = (self.path, tensor["name"], tensor["datatype"], self.headers["Content-Type"]) == (
            "/v2/models/relu/infer", "input-0", "FP32", "application/json")
        data = [abs(x) if sys.argv[1] == "3" else max(x, 0) for x in tensor["data"]]
        output = {"name": "output", "shape": tensor["shape"], "datatype": "FP32", "data": data}
        answer = json.dumps({"model_name": "relu", "outputs": [output]}).encode()
        self.send_response(200 if right else 422)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(answer)))
        self.end_headers()
        self.wfile.write(answer)
HTTPServer(("", 8080), Handler).serve_forever()
"""

TEXT, MAP = {"type": "string"}, {"type": "object", "x-kubernetes-preserve-unknown-fields": True}


def an_object(**properties):
    return {"type": "object", "properties": properties}


DEFINITION = {
    "apiVersion": "apiextensions.k8s.io/v1",
    "kind": "CustomResourceDefinition",
    "metadata": {"name": "inferenceservices.serving.kserve.io"},
    "spec": {
        "group": "serving.kserve.io",
        "scope": "Namespaced",
        "names": {
            "kind": "InferenceService",
            "plural": "inferenceservices",
            "singular": "inferenceservice",
        },
        "versions": [
            {
                "name": "v1beta1",
                "served": True,
                "storage": True,
                "subresources": {"status": {}},
                "schema": {
                    "openAPIV3Schema": an_object(
                        spec=an_object(
                            predictor=an_object(
                                minReplicas={"type": "integer"},
                                labels={"type": "object", "additionalProperties": TEXT},
                                model=an_object(
                                    modelFormat=an_object(name=TEXT),
                                    protocolVersion=TEXT,
                                    storageUri=TEXT,
                                    resources=MAP,
                                ),
                            )
                        ),
                        status=MAP,
                    )
                },
            }
        ],
    },
}


class KServe(threading.Thread):
    """Has the pods of an InferenceService be of the version that it asks for."""

    def __init__(self, cluster):
        super().__init__(daemon=True)
        self.cluster, self.stop = cluster, threading.Event()

    def run(self):
        while not self.stop.wait(0.2):
            for service in self.cluster.list(SERVICES, self.cluster.namespace)["items"]:
                self.reconcile(service)

    def reconcile(self, service):
        name, labels = service["metadata"]["name"], service["spec"]["predictor"]["labels"]
        version = labels["app.kubernetes.io/version"]
        if version == UNLOADABLE:
            failure = {"reason": "ModelLoadFailed", "message": "no such runtime"}
            model = {"transitionStatus": "BlockedByFailedLoad", "lastFailureInfo": failure}
            self.tell(name, {"modelStatus": model})
            return
        labels = labels | {"serving.kserve.io/inferenceservice": name}
        pods = self.cluster.list(PODS, self.cluster.namespace)["items"]
        if not any(pod["metadata"]["labels"] == labels for pod in pods):
            self.make(name, version, labels)
        new = [pod for pod in pods if pod["metadata"]["labels"] == labels]
        if any(map(rollout.is_ready, new)):
            for pod in pods:
                if pod not in new and "deletionTimestamp" not in pod["metadata"]:
                    uid = pod["metadata"]["uid"]
                    self.cluster.delete(PODS, pod["metadata"]["name"], self.cluster.namespace, uid)
            ready = {"type": "Ready", "status": "True"}
            url = f"http://{name}.{self.cluster.namespace}.example.org"
            model = {"transitionStatus": "UpToDate", "lastFailureInfo": None}
            self.tell(name, {"conditions": [ready], "address": {"url": url}, "modelStatus": model})

    def make(self, name, version, labels):
        server = {"name": "kserve-container", "image": "example.org/mlserver"}
        server["command"] = ["python3", "-c", SERVER, version]
        pod = {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {"name": f"{name}-predictor-{uuid.uuid4().hex[:5]}", "labels": labels},
            "spec": {
                "automountServiceAccountToken": False,
                "terminationGracePeriodSeconds": 1,
                "containers": [server],
            },
        }
        self.cluster.create(PODS, pod, self.cluster.namespace)

    def tell(self, name, status):
        path = SERVICES.path(self.cluster.namespace, name, "status")
        with suppress(NotFound):  # deleted meanwhile
            self.cluster.request("PATCH", SERVICES, path, body={"status": status})


@pytest.fixture(scope="module")
def space():
    """A namespace on a cluster that knows InferenceServices."""
    if not REAL or not os.environ.get("TRIREME_TEST_PODS_REACH"):
        pytest.skip("KUBECONFIG and TRIREME_TEST_PODS_REACH name no cluster whose pods run")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("KUBECONFIG", REAL)
        cluster = Cluster(f"trireme-test-{uuid.uuid4().hex[:8]}", patience=20)
        try:
            cluster.create(CRDS, DEFINITION)
        except AlreadyThere:
            pytest.skip("there is a real KServe")
        make_namespace(cluster)
        while True:
            try:
                cluster.list(SERVICES, cluster.namespace)
                break
            except KindMissing:
                time.sleep(0.1)
        yield cluster
        remove_namespace(cluster)
        path = CRDS.path(name=DEFINITION["metadata"]["name"])
        cluster.request("DELETE", CRDS, path)


@pytest.fixture(scope="module")
def kserve(space):
    player = KServe(space)
    player.start()
    yield player
    player.stop.set()
    player.join()


@pytest.fixture
def deploy(space, kserve, monkeypatch):
    monkeypatch.setattr(rollout, "UNCREATED", 0.5)

    def deploy(version, on_state=lambda sentence: None, change=lambda manifest: None):
        model = ModelVersion("relu", version, "r", {})
        manifest = manifests.inference_service(model, f"s3://models/relu/{version}", 0)
        change(manifest)

        def ask(cluster, pod):
            return OpenInferenceClient(cluster, pod, "relu", "input-0", np.dtype("float32"))

        plan = Plan(model, [manifest], PAIRS, rollout.inference_service_status, ask)
        return plan, release.deploy(space, plan, 100, on_state)

    return deploy


@pytest.fixture
def first(deploy):
    return deploy(GOOD)


def served(space):
    there = space.get(SERVICES, "relu", space.namespace)
    return there["metadata"]["annotations"]["trireme/model"], there["spec"]["predictor"]["model"]


def test_a_version_is_ready_answers_and_is_not_deployed_twice(space, deploy, first):
    plan, agreement = deploy(AGAIN)
    assert agreement.difference == 0
    assert served(space)[1]["storageUri"] == "s3://models/relu/2"
    there = place(space, plan)
    assert there.url == f"http://relu.{space.namespace}.example.org/v2/models/relu/infer"
    assert deploy(AGAIN)[1] is None


def test_one_that_answers_differently_is_rolled_back(space, deploy, first):
    with pytest.raises(
        NotDeployed, match=r"largest difference 4, .*; rolled back to models:/relu/"
    ):
        deploy(LIAR)
    assert served(space)[0] != "models:/relu/3"


def test_one_that_kserve_cannot_load_is_rolled_back(space, deploy, first):
    said = "KServe says BlockedByFailedLoad: ModelLoadFailed: no such runtime; rolled back to"
    with pytest.raises(NotDeployed, match=said):
        deploy(UNLOADABLE)
    assert served(space)[0] != "models:/relu/4"


def test_a_field_that_kserve_does_not_know_is_refused(space, deploy, first):
    before = served(space)
    with pytest.raises(Invalid, match=r"\.spec\.predictor\.speed: field not declared"):
        deploy(LIAR, change=lambda manifest: manifest["spec"]["predictor"].update(speed="fast"))
    assert served(space) == before


def test_what_somebody_else_has_set_is_not_overruled(space, deploy, first):
    body = {"spec": {"predictor": {"minReplicas": 3}}}
    path = SERVICES.path(space.namespace, "relu")
    space.request("PATCH", SERVICES, path, body=body, query=[("fieldManager", "somebody")])
    try:
        with pytest.raises(InputError, match=r'conflict with "somebody".*minReplicas'):
            deploy(LIAR)
    finally:
        objects.apply(
            space,
            manifests.inference_service(
                ModelVersion("relu", GOOD, "r", {}), "s3://models/relu/1", 0
            ),
            force="true",
        )
