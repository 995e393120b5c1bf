"""A registered model on a cluster: as a KServe InferenceService, or a Deployment and a Service."""

import re
from collections.abc import Sequence
from pathlib import PurePosixPath
from typing import Any
from urllib.parse import urlsplit

from trireme.deployment.adapters import FOLDER, Adapter, largest
from trireme.deployment.openai_api import OpenAIApi
from trireme.errors import InputError
from trireme.images import PYTORCH
from trireme.models.language import MODEL as WHOLE
from trireme.tracking.environment import SECRET
from trireme.tracking.model_versions import ModelVersion
from trireme.tracking.store import public

PORT = 8080
SMOKE_TEST = 30  # seconds that a new pod has to be ready before an old one is ended
USER = 1000
FILES = PurePosixPath("/model")
ADAPTERS = FILES / "adapters"

MODEL = "trireme/model"
"""The annotation that names the version that an object serves."""

SERVER = {"app.kubernetes.io/component": "model-server"}
"""The label of pods that answer requests, by which manifests/parts/deploying lets these in."""

VLLM = "vllm/vllm-openai:v0.33.0"
"""What serves language models, on a GPU, where no other image is given."""

GPU = "nvidia.com/gpu"
LOADING = 1800  # seconds in which vLLM has to have loaded a model

LEAST_MEMORY = 1  # GiB
FILES_IN_MEMORY = 3  # times: as they are read, as they are loaded, and what answering takes

_ONLY_HERE = ("localhost", "127.0.0.1", "::1")

_STORES = ("s3://", "gs://", "hdfs://", "webhdfs://", "pvc://", "https://")

# /ping says that the model was loaded, not that it works, and httpGet cannot send a body; Python
# is in every image that has MLflow, curl is not.
_PREDICT = """\
import sys, urllib.request
url, example = sys.argv[1:]
with open(example, "rb") as file:
    request = urllib.request.Request(url, file.read(), {"Content-Type": "application/json"})
urllib.request.build_opener(urllib.request.ProxyHandler({})).open(request, timeout=9).read()
"""


def inference_service(
    model: ModelVersion, storage_uri: str, size: int, api: OpenAIApi | None = None
) -> dict[str, Any]:
    """Returns a KServe InferenceService, which speaks the Open Inference Protocol (v2).

    https://kserve.github.io/website/docs/model-serving/predictive-inference/frameworks/mlflow

    Args:
        api: How a language model is asked, of KServe's own server for these; none: of another.
    """
    if not storage_uri.startswith(_STORES):
        raise InputError(
            f"kserve: the files of {model} are at {public(storage_uri)}, but KServe reads only "
            f"from {', '.join(_STORES)}; use deployment"
        )
    metadata = _metadata(model)
    served: dict[str, Any] = {
        "modelFormat": {"name": "mlflow"},
        "protocolVersion": "v2",
        "storageUri": storage_uri,
        "resources": _resources(size),
    }
    if api:
        served |= {
            "modelFormat": {"name": "huggingface"},
            "args": [f"--model_name={api.model}"],
            "storageUri": f"{storage_uri.rstrip('/')}/{WHOLE}",
        }
        del served["protocolVersion"]  # which is OpenAI's
    return {
        "apiVersion": "serving.kserve.io/v1beta1",
        "kind": "InferenceService",
        "metadata": metadata,
        # Its pods' labels tell the new version from the old one.
        "spec": {"predictor": {"minReplicas": 1, "labels": metadata["labels"], "model": served}},
    }


def deployment(
    model: ModelVersion,
    example: str,
    tracking_uri: str,
    image: str,
    size: int,
    api: OpenAIApi | None = None,
    adapters: Sequence[Adapter] = (),
) -> list[dict[str, Any]]:
    """Returns a Deployment of MLflow's scoring server or of vLLM, and a Service before it.

    Args:
        size: Bytes of the model's files, by which its memory goes.
        api: How a language model is asked, of vLLM; none: of MLflow's server.
        adapters: Of a language model: each is asked by its own name.
    """
    server = urlsplit(tracking_uri)
    if server.scheme not in ("http", "https") or server.hostname in _ONLY_HERE:
        raise InputError(
            f"deployment: pods cannot reach {public(tracking_uri)}; set MLFLOW_TRACKING_URI to a "
            "server that they reach"
        )
    if not example:
        raise InputError(
            f"deployment: {model} was logged without an input_example, which is needed to check "
            "that a server predicts"
        )
    metadata = _metadata(model)
    selector = {"app.kubernetes.io/name": metadata["name"]}
    pod = {
        "metadata": {"labels": metadata["labels"], "annotations": metadata["annotations"]},
        "spec": _pod(model, example, public(tracking_uri), image, _resources(size), api, adapters),
    }
    # No replicas: how many there are is left to whoever scales it.
    spec = {
        "selector": {"matchLabels": selector},
        # The old version answers until the new one has, and has been tested.
        "minReadySeconds": SMOKE_TEST,
        "strategy": {
            "type": "RollingUpdate",
            "rollingUpdate": {"maxUnavailable": 0, "maxSurge": 1},
        },
        "template": pod,
    }
    service = {"selector": selector, "ports": [{"name": "http", "port": 80, "targetPort": "http"}]}
    return [
        {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": metadata, "spec": spec},
        {"apiVersion": "v1", "kind": "Service", "metadata": metadata, "spec": service},
    ]


def _metadata(model: ModelVersion) -> dict[str, Any]:
    name = object_name(model.name)
    return {
        "name": name,
        "labels": {"app.kubernetes.io/name": name, "app.kubernetes.io/version": model.version}
        | SERVER,
        "annotations": {MODEL: model.uri},
    }


def object_name(model: str) -> str:
    """Returns the name of a model's objects: small letters, digits and dashes."""
    name = re.sub(r"[^a-z0-9]+", "-", model.lower())[:50].strip("-")
    if not re.match("[a-z]", name):
        raise InputError(f"model {model!r}: a name on a cluster has to begin with a letter, a to z")
    return name


def _resources(size: int) -> dict[str, Any]:
    """Returns what a server of a model has whose files have some bytes."""
    memory = f"{max(LEAST_MEMORY, -(-FILES_IN_MEMORY * size >> 30))}Gi"
    return {"requests": {"cpu": "500m", "memory": memory}, "limits": {"memory": memory}}


def _pod(
    model: ModelVersion,
    example: str,
    tracking_uri: str,
    image: str,
    resources: dict[str, Any],
    api: OpenAIApi | None,
    adapters: Sequence[Adapter],
) -> dict[str, Any]:
    files = {"name": "model", "mountPath": str(FILES)}
    scratch = {"name": "tmp", "mountPath": "/tmp"}
    return {
        "automountServiceAccountToken": False,
        "securityContext": {
            "runAsNonRoot": True,
            "runAsUser": USER,
            "fsGroup": USER,
            "seccompProfile": {"type": "RuntimeDefault"},
        },
        "initContainers": [
            _download(name, uri, folder, tracking_uri, PYTORCH if api else image)
            | {"volumeMounts": [files, scratch], "resources": resources}
            for name, uri, folder in (
                ("model", model.uri, FILES),
                *(
                    (f"adapter-{number}", f"{each.model.uri}/{FOLDER}", ADAPTERS / each.name)
                    for number, each in enumerate(adapters, 1)
                ),
            )
        ],
        "containers": [
            (_vllm(api, example, image, adapters) if api else _server(example, image))
            | {"volumeMounts": [files | {"readOnly": True}, scratch]}
            | {"resources": _with_gpu(resources) if api and image == VLLM else resources}
        ],
        "volumes": [{"name": "model", "emptyDir": {}}, {"name": "tmp", "emptyDir": {}}],
    }


def _download(
    name: str, uri: str, folder: PurePosixPath, tracking_uri: str, image: str
) -> dict[str, Any]:
    """Returns the container that brings the files; only this one may talk to the registry."""
    return _container(
        name,
        image,
        ["mlflow", "artifacts", "download", "-u", uri, "-d", str(folder)],
        # The kubelet tries again as well, and tells why it has to.
        {"MLFLOW_TRACKING_URI": tracking_uri, "MLFLOW_HTTP_REQUEST_MAX_RETRIES": "2"},
    ) | {"envFrom": [{"secretRef": {"name": SECRET, "optional": True}}]}


def _with_gpu(resources: dict[str, Any]) -> dict[str, Any]:
    return resources | {"limits": resources["limits"] | {GPU: "1"}}


def _vllm(api: OpenAIApi, example: str, image: str, adapters: Sequence[Adapter]) -> dict[str, Any]:
    """Returns the container of vLLM, which serves a language model by OpenAI's API."""
    name = ["--served-model-name", api.model]
    command = ["vllm", "serve", str(FILES / WHOLE), *name, "--host", "0.0.0.0", "--port", str(PORT)]
    if adapters:
        # https://docs.vllm.ai/en/latest/features/lora/
        command += ["--enable-lora", "--max-lora-rank", str(largest(list(adapters)))]
        named = [f"{each.name}={ADAPTERS / each.name / FOLDER}" for each in adapters]
        command += ["--lora-modules", *named]
    environment = {"HF_HUB_OFFLINE": "1", "VLLM_NO_USAGE_STATS": "1"}
    server = _container("server", image, command, environment)
    return server | _probed("/health", api.path, example, LOADING)


def _server(example: str, image: str) -> dict[str, Any]:
    """Returns the container of the scoring server.

    It runs what ``mlflow models serve`` would start: as process 1 that command would not pass a
    SIGTERM on, and requests under way would be lost at every update.
    """
    server = _container(
        "server",
        image,
        [
            *("uvicorn", "--host", "0.0.0.0", "--port", str(PORT)),
            "mlflow.pyfunc.scoring_server.app:app",
        ],
        {"__pyfunc_model_path__": str(FILES)},
    )
    return server | _probed("/ping", "/invocations", example, 300)


def _probed(alive: str, predicting: str, example: str, loading: int) -> dict[str, Any]:
    """Returns what tells of a server that it is there, and that it really answers.

    Args:
        loading: Seconds in which it has to have loaded the model.
    """
    predict = f"http://127.0.0.1:{PORT}{predicting}", str(FILES / example)
    ping = {"httpGet": {"path": alive, "port": "http"}}
    return {
        "ports": [{"name": "http", "containerPort": PORT}],
        "startupProbe": ping | {"periodSeconds": 2, "failureThreshold": loading // 2},
        "readinessProbe": {
            "exec": {"command": ["python3", "-c", _PREDICT, *predict]},
            "periodSeconds": 10,
            "timeoutSeconds": 10,
        },
        "livenessProbe": ping | {"periodSeconds": 10, "timeoutSeconds": 5},
        # Until no Service sends it requests any more.
        "lifecycle": {"preStop": {"exec": {"command": ["sleep", "5"]}}},
    }


def _container(name: str, image: str, command: list[str], env: dict[str, str]) -> dict[str, Any]:
    # Libraries keep things in the home directory.
    variables = env | {"HOME": "/tmp", "MLFLOW_DISABLE_TELEMETRY": "true"}
    return {
        "name": name,
        "image": image,
        "command": command,
        "env": [{"name": key, "value": value} for key, value in variables.items()],
        "securityContext": {
            "allowPrivilegeEscalation": False,
            "readOnlyRootFilesystem": True,
            "capabilities": {"drop": ["ALL"]},
        },
    }
