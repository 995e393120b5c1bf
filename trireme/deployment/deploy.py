"""Deploy a registered model: bring it here, plan its objects, roll them out."""

import shlex
import tempfile
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import NamedTuple

from trireme.deployment import (
    manifests,
    model_version,
    objects,
    openai_api,
    release,
    rollout,
    smoke_test,
)
from trireme.deployment.kinds import check_kind
from trireme.deployment.model_version import DownloadedModel
from trireme.deployment.release import Plan
from trireme.deployment.scoring_client import (
    DATATYPES,
    ChatClient,
    OpenInferenceClient,
    ScoringClient,
)
from trireme.errors import InputError
from trireme.images import PYTORCH
from trireme.kubernetes.connection import Cluster
from trireme.tracking import model_versions, store

TIMEOUT = 600  # seconds
# https://github.com/SeldonIO/MLServer/blob/1.7.1/runtimes/mlflow/mlserver_mlflow/metadata.py
UNNAMED = "input-0"  # what MLServer calls an input without a name


class Place(NamedTuple):
    """Where a deployed model answers.

    Attributes:
        command: What brings it to port 8080 of this machine.
    """

    url: str
    command: str


def deploy(
    model: str,
    kind: str,
    image: str,
    timeout: float,
    cluster: Cluster,
    on_state: Callable[[str], None],
) -> tuple[str, Place]:
    """Deploys a registered model; to be called from the main thread.

    Args:
        model: ``MODEL``, ``MODEL@ALIAS`` or ``MODEL/VERSION``.
        image: For a Deployment: image with MLflow and the model's packages; of a language model
            one with vLLM.
        timeout: Seconds in which it has to come up.
        on_state: Called with a short sentence whenever it has come on.

    Returns:
        One sentence on what was done, and where the model answers.
    """
    check_kind("the way to deploy", kind)
    version = model_versions.find(model)
    if version.note:
        on_state(version.note)
    uri = store.use()
    with tempfile.TemporaryDirectory(prefix="trireme-") as directory:
        downloaded = model_version.download(version, Path(directory, "model"))
        is_kserve = kind == "kserve"
        plan = as_kserve(downloaded) if is_kserve else as_deployment(downloaded, uri, image)
    agreement = release.deploy(cluster, plan, timeout, on_state)
    done = f", and {agreement}" if agreement else " already; nothing was changed"
    return f"{version} is deployed{done}", place(cluster, plan)


def as_deployment(downloaded: DownloadedModel, tracking_uri: str, image: str) -> Plan:
    """Plans a Deployment of MLflow's scoring server with a Service."""
    model = downloaded.model
    example = model_version.example_file(model)
    api = openai_api.of(downloaded)
    image = manifests.VLLM if api and image == PYTORCH else image
    rendered = manifests.deployment(model, example, tracking_uri, image, downloaded.size, api)
    pairs = smoke_test.expected_answers(downloaded)
    client = partial(ChatClient, api=api) if api else ScoringClient
    return Plan(model, rendered, pairs, rollout.deployment_status, client, api)


def as_kserve(downloaded: DownloadedModel) -> Plan:
    """Plans a KServe InferenceService."""
    model = downloaded.model
    storage = model_version.storage_uri(model)
    api = openai_api.of(downloaded)
    rendered = manifests.inference_service(model, storage, downloaded.size, api)
    pairs = smoke_test.expected_answers(downloaded)
    if api:
        chat = partial(ChatClient, api=api, below="openai/")
        return Plan(model, [rendered], pairs, rollout.inference_service_status, chat, api)
    if (dtype := pairs[0].inputs.dtype).name not in DATATYPES:
        raise InputError(
            f"{model} takes no numbers, which KServe's protocol could send it; deploy it with kind "
            "deployment"
        )
    schema = downloaded.described.get_input_schema()
    is_named = schema is not None and schema.has_input_names()
    client = partial(
        OpenInferenceClient,
        model=rendered["metadata"]["name"],
        name=schema.input_names()[0] if is_named else UNNAMED,
        dtype=dtype,
    )
    return Plan(model, [rendered], pairs, rollout.inference_service_status, client)


def place(cluster: Cluster, plan: Plan) -> Place:
    """Returns where a model answers that has been deployed."""
    manifest = plan.manifests[0]
    name, namespace = manifest["metadata"]["name"], cluster.namespace
    forward = ["kubectl", "port-forward", "--namespace", namespace]
    if manifest["kind"] == "Deployment":
        url = f"http://{name}.{namespace}.svc{plan.api.path if plan.api else '/invocations'}"
        return Place(url, shlex.join([*forward, f"service/{name}", "8080:80"]))
    existing = objects.find(cluster, manifest) or {}
    base = existing.get("status", {}).get("address", {}).get("url", "")
    path = f"/openai{plan.api.path}" if plan.api else f"/v2/models/{name}/infer"
    url = f"{base or f'http://{name}-predictor.{namespace}.svc'}{path}"
    return Place(url, shlex.join([*forward, f"service/{name}-predictor", "8080:80"]))
