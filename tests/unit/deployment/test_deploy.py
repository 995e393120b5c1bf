"""What is decided about a deployment from what the cluster says."""

import itertools
import json
import subprocess
import sys
import threading
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import SimpleNamespace

import numpy as np
import pytest
import yaml

from trireme.deployment import deploy, model_version, objects, pod_problems, release, rollout
from trireme.deployment.model_version import DownloadedModel
from trireme.deployment.openai_api import OpenAIApi
from trireme.deployment.rollout import NotReady, Rollout, RolloutStatus
from trireme.deployment.scoring_client import ChatClient, OpenInferenceClient, ScoringClient
from trireme.deployment.serving import ServingFailed
from trireme.deployment.smoke_test import Expected, compare
from trireme.errors import InputError
from trireme.kubernetes.connection import Cluster
from trireme.models.language import CHAT, COMPLETIONS
from trireme.tracking.model_versions import ModelVersion

MODEL = ModelVersion("My relu", "2", "r", {})
INPUTS = np.array([[-1, 2], [3, -4]], dtype=np.float32)
RIGHT = [Expected(INPUTS, np.maximum(INPUTS, 0))]


def pod(*containers, init=(), conditions=()):
    status = {
        "containerStatuses": list(containers),
        "initContainerStatuses": list(init),
        "conditions": list(conditions),
    }
    spec = {"containers": [{"name": "server", "resources": {"limits": {"memory": "1Gi"}}}]}
    return {"metadata": {"name": "relu-x", "namespace": "team"}, "spec": spec, "status": status}


def container(name="server", restarts=0, started=False, ready=False, last=None, **state):
    return {
        "name": name,
        "restartCount": restarts,
        "started": started,
        "ready": ready,
        "state": state,
        "lastState": {"terminated": last} if last else {},
    }


def waiting(reason, message=""):
    return {"waiting": {"reason": reason, "message": message}}


CRASHED = {"exitCode": 3, "reason": "Error", "finishedAt": "2026-01-01T00:00:00Z"}
READY = [{"type": "Ready", "status": "True"}]
UNSCHEDULED = {
    "type": "PodScheduled",
    "status": "False",
    "reason": "Unschedulable",
    "message": "0/3 nodes are available: 3 Insufficient cpu.",
}


@pytest.mark.parametrize(
    ("seen", "said", "patience"),
    [
        (
            pod(container(**waiting("ImagePullBackOff", "Back-off pulling"))),
            "container server of pod relu-x cannot get its image: ImagePullBackOff: "
            "Back-off pulling",
            0,
        ),
        (
            pod(container(), init=[container("model", **waiting("InvalidImageName"))]),
            "container model of pod relu-x cannot get its image: InvalidImageName",
            0,
        ),
        (
            pod(container(restarts=1, last=CRASHED, **waiting("CrashLoopBackOff"))),
            "container server of pod relu-x exited with status 3, again and again",
            0,
        ),
        (
            pod(
                container(
                    restarts=1,
                    last=CRASHED | {"reason": "OOMKilled"},
                    **waiting("CrashLoopBackOff"),
                )
            ),
            "ran out of memory (OOMKilled; its limit is 1Gi), again and again",
            0,
        ),
        (
            pod(init=[container("model", 4, last=CRASHED, **waiting("CrashLoopBackOff"))]),
            "container model of pod relu-x exited with status 3, again and again",
            0,
        ),
        (
            pod(container(**waiting("CreateContainerConfigError", 'secret "x" not found'))),
            'cannot be created: CreateContainerConfigError: secret "x" not found',
            pod_problems.UNCREATED,
        ),
        (
            pod(conditions=[UNSCHEDULED]),
            "pod relu-x is not scheduled: Unschedulable: 0/3 nodes are available",
            pod_problems.UNSCHEDULABLE,
        ),
        (
            pod(container(started=True, running={"startedAt": "2026-01-01T00:00:00Z"})),
            "container server of pod relu-x runs, but does not predict",
            pod_problems.UNREADY,
        ),
    ],
)
def test_what_keeps_a_pod_is_said_with_how_long_it_may(seen, said, patience):
    found = pod_problems.worst([seen])
    assert said in found.words
    assert found.patience == patience


@pytest.mark.parametrize(
    "seen",
    [
        pod(container(**waiting("ContainerCreating"))),
        pod(container(**waiting("PodInitializing")), init=[container("model", running={})]),
        pod(container(**waiting("ErrImagePull", "a registry may come back"))),
        pod(container(last=CRASHED, **waiting("CrashLoopBackOff"))),
        pod(container(running={"startedAt": "2026-01-01T00:00:00Z"})),
        pod(container(started=True, ready=True, running={})),
        {"metadata": {"name": "relu-x"}, "spec": {}, "status": {}},
    ],
)
def test_what_may_only_need_time_is_no_trouble(seen):
    assert pod_problems.worst([seen]) is None


def test_of_several_pods_the_one_that_is_past_hope_counts():
    hopeless = pod(container(**waiting("ImagePullBackOff")))
    assert pod_problems.worst([pod(conditions=[UNSCHEDULED]), hopeless, pod()]).kind == "image"


@pytest.fixture
def roll_out(monkeypatch):
    """Follows what looks show; the last one goes on for ever. Returns what was said."""
    monkeypatch.setattr(rollout, "POLL", 0.001)

    def follow(*looks, until, timeout=60.0):
        seen = itertools.chain(looks, itertools.repeat(looks[-1]))
        said = []
        followed = Rollout(SimpleNamespace(), lambda: next(seen), timeout, said.append)
        return until(followed), said

    return follow


def test_a_rollout_is_over_when_only_the_new_version_runs(roll_out):
    starting = pod(container(**waiting("ContainerCreating")))
    ready = pod(container(ready=True, running={}), conditions=READY)
    looks = [
        RolloutStatus([], "waiting"),
        RolloutStatus([starting], "0 of 1"),
        RolloutStatus([starting], "0 of 1"),
        RolloutStatus([starting, ready], "1 of 1, 1 old"),
        RolloutStatus([ready], "1 of 1", done=True),
    ]
    first, said = roll_out(*looks, until=Rollout.wait_for_pod)
    assert first is ready
    assert said == ["waiting", "0 of 1", "1 of 1, 1 old"]
    assert roll_out(*looks, until=Rollout.wait_until_done)[1] == [*said, "1 of 1"]


def test_a_rollout_that_cannot_come_up_ends_at_once(roll_out):
    hopeless = pod(container(**waiting("ImagePullBackOff")))
    with pytest.raises(NotReady, match="cannot get its image"):
        roll_out(RolloutStatus([hopeless], "0 of 1"), until=Rollout.wait_for_pod)


def test_trouble_is_waited_out_as_long_as_it_may_last(roll_out, monkeypatch):
    no_node = RolloutStatus([pod(conditions=[UNSCHEDULED])], "0 of 1")
    ready = pod(container(ready=True, running={}), conditions=READY)
    roll_out(no_node, no_node, RolloutStatus([ready], "1 of 1"), until=Rollout.wait_for_pod)
    monkeypatch.setattr(pod_problems, "UNSCHEDULABLE", 0.01)
    with pytest.raises(NotReady, match="is not scheduled"):
        roll_out(no_node, until=Rollout.wait_for_pod)


def test_a_rollout_that_takes_too_long_says_how_far_it_was(roll_out):
    with pytest.raises(NotReady, match=r"within 0 s: 0 of 1 new pods ready"):
        roll_out(
            RolloutStatus([pod()], "0 of 1 new pods ready"),
            until=Rollout.wait_for_pod,
            timeout=0.01,
        )


def an_object(annotations):
    metadata = {"name": "my-relu", "annotations": annotations}
    return {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": metadata, "spec": {}}


@pytest.mark.parametrize(
    ("annotations", "said"),
    [
        ({}, "was not created by Trireme"),
        ({"trireme/model": "models:/my relu/2"}, "serves models:/my relu/2"),
    ],
)
def test_what_is_there_for_something_else_is_left_alone(annotations, said):
    with pytest.raises(InputError, match=said) as refusal:
        objects.refuse_others(an_object({}), an_object(annotations), MODEL)
    assert str(refusal.value).startswith("Deployment my-relu: one of that name exists already")


def test_another_version_of_the_model_may_be_replaced():
    objects.refuse_others(an_object({}), an_object({"trireme/model": "models:/My relu/1"}), MODEL)
    objects.refuse_others(an_object({}), None, MODEL)


def test_what_is_put_back_leaves_the_scale_and_the_clusters_own_notes():
    there = an_object({"trireme/model": "models:/My relu/1", objects.REVISION: "3"})
    there["metadata"] |= {"uid": "u", "resourceVersion": "7", "managedFields": [{}]}
    there |= {"spec": {"replicas": 5, "minReadySeconds": 10}, "status": {"replicas": 5}}
    former = objects.manifest_of(there)
    assert former["spec"] == {"minReadySeconds": 10}
    assert former["metadata"] == {
        "name": "my-relu",
        "labels": {},
        "annotations": {"trireme/model": "models:/My relu/1"},
    }
    assert "status" not in former


@contextmanager
def pods_behind_a_proxy(monkeypatch, tmp_path, answer):
    """An API server that passes requests on to pods, which answer with a status and an object."""

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self):
            body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            status, said = answer(self.path, body)
            data = json.dumps(said).encode()
            self.send_response(status)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(data)))
            self.end_headers()
            self.wfile.write(data)

        def log_message(self, *args):
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True).start()
    place = {"server": f"http://127.0.0.1:{server.server_address[1]}"}
    context = {"cluster": "c", "user": "u", "namespace": "team"}
    settings = {
        "clusters": [{"name": "c", "cluster": place}],
        "users": [{"name": "u", "user": {"token": "t"}}],
        "contexts": [{"name": "c", "context": context}],
        "current-context": "c",
    }
    (tmp_path / "kubeconfig").write_text(yaml.safe_dump(settings))
    monkeypatch.setenv("KUBECONFIG", str(tmp_path / "kubeconfig"))
    yield Cluster()
    server.shutdown()
    server.server_close()


PROXY = "/api/v1/namespaces/team/pods/relu-x:8080/proxy"


def test_a_pod_is_asked_as_mlflows_scoring_server(monkeypatch, tmp_path):
    def answer(path, body):
        assert path == f"{PROXY}/invocations"
        return 200, {"predictions": {"output": np.maximum(body["inputs"], 0).tolist()}}

    with pods_behind_a_proxy(monkeypatch, tmp_path, answer) as cluster:
        assert compare(ScoringClient(cluster, pod()), RIGHT).difference == 0


@pytest.mark.parametrize(
    ("task", "path"), [(CHAT, "chat/completions"), (COMPLETIONS, "completions")]
)
def test_a_pod_of_a_language_model_is_asked_by_openais_api(monkeypatch, tmp_path, task, path):
    def answer(asked, body):
        assert asked == f"{PROXY}/openai/v1/{path}"
        assert (body["model"], body["temperature"]) == ("animals", 0)
        text = body["messages"][0]["content"] if task == CHAT else body["prompt"]
        said = {"message": {"content": f"{text}!"}} if task == CHAT else {"text": f"{text}!"}
        return 200, {"choices": [said | {"index": 0}]} if text != "nothing" else {"choices": []}

    def expected(*words):
        return [Expected(np.array(words), np.array([f"{word}!" for word in words]))]

    with pods_behind_a_proxy(monkeypatch, tmp_path, answer) as cluster:
        asked = ChatClient(cluster, pod(), OpenAIApi(task, "animals"), "openai/")
        assert compare(asked, expected("hello", "and again")).samples == 2
        with pytest.raises(ServingFailed, match="pod relu-x: the server does not answer: "):
            compare(asked, expected("nothing"))


@pytest.mark.parametrize(("dtype", "datatype"), [("float32", "FP32"), ("int64", "INT64")])
def test_a_pod_is_asked_in_the_open_inference_protocol(monkeypatch, tmp_path, dtype, datatype):
    def answer(path, body):
        (tensor,) = body["inputs"]
        assert path == f"{PROXY}/v2/models/relu/infer"
        assert (tensor["name"], tensor["datatype"]) == ("x", datatype)
        data = [max(value, 0) for value in tensor["data"]]
        # As MLServer 1.7 answers: flat, and with fields that nobody asked for.
        output = {"name": "output", "shape": tensor["shape"], "datatype": "FP32", "data": data}
        return 200, {"model_name": "relu", "outputs": [output | {"parameters": {}}]}

    with pods_behind_a_proxy(monkeypatch, tmp_path, answer) as cluster:
        asked = OpenInferenceClient(cluster, pod(), "relu", "x", np.dtype(dtype))
        assert compare(asked, RIGHT).difference == 0


def test_a_pod_that_answers_differently_or_not_at_all_has_failed(monkeypatch, tmp_path):
    answers = iter(
        [
            (200, {"predictions": {"output": np.abs(INPUTS).tolist()}}),
            (
                400,
                {
                    "error_code": "BAD_REQUEST",
                    "message": "no such input\nTraceback (most recent call last):\n  x",
                },
            ),
            (200, {"error": "model not ready"}),
            (200, {"error": "model not ready"}),
        ]
    )
    with pods_behind_a_proxy(monkeypatch, tmp_path, lambda *_: next(answers)) as cluster:
        with pytest.raises(ServingFailed, match="largest difference 4, allowed"):
            compare(ScoringClient(cluster, pod()), RIGHT)
        with pytest.raises(ServingFailed, match=r"^pod relu-x does not predict: no such input$"):
            compare(ScoringClient(cluster, pod()), RIGHT)
        with pytest.raises(ServingFailed, match="model not ready"):
            compare(ScoringClient(cluster, pod()), RIGHT)
        with pytest.raises(ServingFailed, match="model not ready"):
            compare(OpenInferenceClient(cluster, pod(), "relu", "x", INPUTS.dtype), RIGHT)


def test_a_model_is_planned_for_kserve_from_where_its_files_are(tmp_path, monkeypatch):
    import mlflow.onnx
    from onnx import TensorProto, helper

    x, y = (
        helper.make_tensor_value_info(name, TensorProto.FLOAT, ["batch", 2])
        for name in ("input", "output")
    )
    graph = helper.make_graph([helper.make_node("Relu", ["input"], ["output"])], "g", [x], [y])
    mlflow.onnx.save_model(
        helper.make_model(graph, ir_version=10, opset_imports=[helper.make_opsetid("", 18)]),
        tmp_path / "model",
        signature=mlflow.models.infer_signature(INPUTS, INPUTS),
        input_example=INPUTS,
        pip_requirements=["onnxruntime"],
        onnx_execution_providers=["CPUExecutionProvider"],
    )
    described = mlflow.models.Model.load(str(tmp_path / "model"))
    downloaded = DownloadedModel(MODEL, tmp_path / "model", described)
    monkeypatch.setattr(model_version, "storage_uri", lambda model: "s3://models/relu/2")
    plan = deploy.as_kserve(downloaded)
    assert plan.manifests[0]["spec"]["predictor"]["model"]["storageUri"] == "s3://models/relu/2"

    def answer(path, body):
        (tensor,) = body["inputs"]
        assert path == f"{PROXY}/v2/models/my-relu/infer"
        assert (tensor["name"], tensor["datatype"]) == ("input-0", "FP32")
        data = [max(value, 0) for value in tensor["data"]]
        return 200, {"outputs": [{"name": "output", "shape": tensor["shape"], "data": data}]}

    with pods_behind_a_proxy(monkeypatch, tmp_path, answer) as cluster:
        assert compare(plan.ask(cluster, pod()), plan.pairs).samples == 2


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (["--as", "docker"], "--as 'docker': must be deployment or kserve"),
        (["--as", "kserve", "--image", "x"], "--image needs --as deployment"),
    ],
)
def test_options_that_mean_nothing_are_refused(options, said):
    command = [sys.executable, "-m", "trireme", "deploy", "relu", *options]
    result = subprocess.run(command, capture_output=True, text=True)
    assert result.returncode == 2
    assert result.stderr.startswith(f"error: {said}")
    assert result.stdout == ""


def test_what_was_there_is_put_back_though_nobody_reads_of_it(monkeypatch):
    def nobody_reads(sentence):
        raise BrokenPipeError

    monkeypatch.setattr(release, "_undo", lambda *_: "rolled back to models:/m/1")
    done = release._put_back(None, None, [], nobody_reads)
    assert done == "rolled back to models:/m/1"
