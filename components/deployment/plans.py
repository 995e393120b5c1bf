"""The two ways in which a cluster serves a model: a Deployment with a Service, or KServe."""

import shlex
from functools import partial
from typing import NamedTuple

from trireme.components.deployment import (
    manifests,
    model_version,
    objects,
    rollout_status,
    smoke_test,
)
from trireme.components.deployment.model_version import DownloadedModel
from trireme.components.deployment.release import Plan
from trireme.components.deployment.scoring_client import OpenInferenceClient, ScoringClient
from trireme.components.kubernetes.connection import Cluster

# https://github.com/SeldonIO/MLServer/blob/1.7.1/runtimes/mlflow/mlserver_mlflow/metadata.py
UNNAMED = "input-0"  # what MLServer calls an input without a name


class Place(NamedTuple):
    """Where a deployed model answers.

    Attributes:
        command: What brings it to port 8080 of this machine.
    """

    url: str
    command: str


def as_deployment(downloaded: DownloadedModel, tracking_uri: str, image: str) -> Plan:
    """Plans a Deployment of MLflow's scoring server with a Service."""
    model = downloaded.model
    example = model_version.example_file(model)
    rendered = manifests.deployment(model, example, tracking_uri, image)
    return Plan(
        model=model,
        manifests=rendered,
        pairs=smoke_test.expected(downloaded),
        look=rollout_status.at_deployment,
        ask=ScoringClient,
        listed=(rollout_status.REPLICA_SETS,),
    )


def as_kserve(downloaded: DownloadedModel) -> Plan:
    """Plans a KServe InferenceService."""
    model = downloaded.model
    rendered = manifests.inference_service(model, model_version.storage_uri(model))
    pairs = smoke_test.expected(downloaded)
    schema = downloaded.described.get_input_schema()
    is_named = schema is not None and schema.has_input_names()
    ask = partial(
        OpenInferenceClient,
        model=rendered["metadata"]["name"],
        name=schema.input_names()[0] if is_named else UNNAMED,
        dtype=pairs[0].inputs.dtype,
    )
    return Plan(model, [rendered], pairs, rollout_status.at_inference_service, ask)


def place(cluster: Cluster, plan: Plan) -> Place:
    """Returns where a model answers that has been deployed."""
    manifest = plan.manifests[0]
    name, namespace = manifest["metadata"]["name"], cluster.namespace
    forward = ["kubectl", "port-forward", "--namespace", namespace]
    if manifest["kind"] == "Deployment":
        url = f"http://{name}.{namespace}.svc/invocations"
        return Place(url, shlex.join([*forward, f"service/{name}", "8080:80"]))
    there = objects.find(cluster, manifest) or {}
    base = there.get("status", {}).get("address", {}).get("url", "")
    url = f"{base or f'http://{name}-predictor.{namespace}.svc'}/v2/models/{name}/infer"
    return Place(url, shlex.join([*forward, f"service/{name}-predictor", "8080:80"]))
