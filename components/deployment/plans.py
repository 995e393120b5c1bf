"""The two ways in which a cluster serves a model: a Deployment with a Service, or KServe."""

import shlex
from functools import partial
from typing import NamedTuple

from trireme.components.deployment import applying, checking, looks, manifests, registered
from trireme.components.deployment.asking import OpenInferencePod, ScoringPod
from trireme.components.deployment.deploying import Plan
from trireme.components.deployment.registered import Brought
from trireme.components.kubernetes.connection import Cluster

# https://github.com/SeldonIO/MLServer/blob/1.7.1/runtimes/mlflow/mlserver_mlflow/metadata.py
UNNAMED = "input-0"  # what MLServer calls an input without a name


class Place(NamedTuple):
    """Where a deployed model answers.

    Attributes:
        url: In the cluster.
        command: What brings it to port 8080 of this machine.
    """

    url: str
    command: str


def as_deployment(brought: Brought, tracking_uri: str, image: str) -> Plan:
    """Plans a Deployment of MLflow's scoring server with a Service.

    Args:
        brought: The model.
        tracking_uri: The MLflow server, as pods reach it.
        image: An image with MLflow and what the model needs.

    Raises:
        InputError: Pods cannot get at the model, or nothing can show that it answers rightly.
    """
    model = brought.model
    example = registered.example_file(model)
    rendered = manifests.deployment(model, example, tracking_uri, image)
    return Plan(
        model=model,
        manifests=rendered,
        pairs=checking.expected(brought),
        look=looks.at_deployment,
        ask=ScoringPod,
        listed=(looks.REPLICA_SETS,),
    )


def as_kserve(brought: Brought) -> Plan:
    """Plans a KServe InferenceService.

    Args:
        brought: The model.

    Raises:
        InputError: KServe cannot get at the model, or nothing can show that it answers rightly.
    """
    model = brought.model
    rendered = manifests.inference_service(model, registered.storage_uri(model))
    pairs = checking.expected(brought)
    schema = brought.described.get_input_schema()
    is_named = schema is not None and schema.has_input_names()
    ask = partial(
        OpenInferencePod,
        model=rendered["metadata"]["name"],
        name=schema.input_names()[0] if is_named else UNNAMED,
        dtype=pairs[0].inputs.dtype,
    )
    return Plan(model, [rendered], pairs, looks.at_inference_service, ask)


def place(cluster: Cluster, plan: Plan) -> Place:
    """Returns where a model answers that has been deployed.

    Args:
        cluster: The cluster.
        plan: What was deployed.
    """
    manifest = plan.manifests[0]
    name, namespace = manifest["metadata"]["name"], cluster.namespace
    forward = ["kubectl", "port-forward", "--namespace", namespace]
    if manifest["kind"] == "Deployment":
        url = f"http://{name}.{namespace}.svc/invocations"
        return Place(url, shlex.join([*forward, f"service/{name}", "8080:80"]))
    there = applying.find(cluster, manifest) or {}
    base = there.get("status", {}).get("address", {}).get("url", "")
    url = f"{base or f'http://{name}-predictor.{namespace}.svc'}/v2/models/{name}/infer"
    return Place(url, shlex.join([*forward, f"service/{name}-predictor", "8080:80"]))
