"""A pod that tries what a run will need: its images, and MLflow from where a step runs."""

import time
import uuid
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from itertools import pairwise
from typing import Any

import yaml

from trireme import images
from trireme.errors import TriremeError
from trireme.kubernetes import pods
from trireme.kubernetes.connection import Cluster
from trireme.kubernetes.errors import Refused
from trireme.kubernetes.log_tail import log_tail
from trireme.kubernetes.resources import CONFIG_MAPS, DEPLOYMENTS, PODS
from trireme.runner.cluster.checks import Finding, Verdict
from trireme.tracking.environment import SECRET

LIMIT = 600  # seconds in which all images have to be there
UNSCHEDULABLE = 20.0  # seconds that it may find no node
PAUSE = 1.0  # seconds between two looks
MLFLOW = "mlflow"  # the container that asks MLflow

_NOTHING = "/trireme-probe"  # a command that no image has: the image is there, and does not run


def probe(
    cluster: Cluster, to_try: Sequence[str], account: str, on_wait: Callable[[str], None]
) -> Iterator[Finding]:
    """Tries images, the first of which has Trireme, and MLflow by a pod that is removed again.

    Args:
        account: The service account of the pod, which has what images are pulled with; empty for
            the namespace's own.
        on_wait: Called with a sentence when it takes long.
    """
    body = _pod(list(dict.fromkeys(to_try)), account)
    try:
        pod = cluster.create(PODS, body, cluster.namespace)
    except Refused as error:
        yield Finding(Verdict.UNKNOWN, f"no pod can be made that tries images and MLflow: {error}")
        return
    try:
        yield from _watched(cluster, pod["metadata"]["name"], on_wait)
    finally:
        with suppress(TriremeError):  # its time limit ends it
            cluster.delete(PODS, pod["metadata"]["name"], cluster.namespace, pod["metadata"]["uid"])


def engine_images(cluster: Cluster) -> list[str]:
    """Returns what engines run beside each step, as far as this user may see it."""
    try:
        deployments = cluster.items(DEPLOYMENTS, "")
    except Refused:
        return []
    references = []
    for deployment in deployments:
        for container in deployment["spec"]["template"]["spec"]["containers"]:
            name, _, tag = container["image"].rpartition(":")
            if name.endswith("/workflow-controller"):
                references.append(_executor(cluster, deployment, container, tag))
            if name.endswith("/kfp-api-server"):
                variables = {
                    variable["name"]: variable.get("value")
                    for variable in container.get("env") or []
                }
                references += [
                    variables.get(f"V2_{part.upper()}_IMAGE")
                    or f"ghcr.io/kubeflow/kfp-{part}:{tag}"
                    for part in ("driver", "launcher")
                ]
    return list(dict.fromkeys(references))


def _executor(
    cluster: Cluster, deployment: dict[str, Any], container: dict[str, Any], tag: str
) -> str:
    """Returns the image of Argo's executor, as its controller is told in one of three ways."""
    words = [*(container.get("command") or []), *(container.get("args") or [])]
    for word, following in pairwise([*words, ""]):
        if word.startswith("--executor-image"):
            return word.partition("=")[2] or following
    with suppress(Refused):
        namespace = deployment["metadata"]["namespace"]
        config = cluster.find(CONFIG_MAPS, "workflow-controller-configmap", namespace) or {}
        executor = yaml.safe_load((config.get("data") or {}).get("executor") or "{}")
        if executor.get("image"):
            return str(executor["image"])
    return f"quay.io/argoproj/argoexec:{tag}"


def _pod(to_try: list[str], account: str) -> dict[str, Any]:
    own_image, *others = to_try
    asks = {
        "name": MLFLOW,
        "image": own_image,
        "command": ["python", "-m", "trireme.tracking.probe"],
        "envFrom": [{"secretRef": {"name": SECRET, "optional": True}}],
        "resources": _resources("1Gi"),
    }
    containers = [asks] + [
        {"name": f"image-{n}", "image": it, "command": [_NOTHING], "resources": _resources("64Mi")}
        for n, it in enumerate(others)
    ]
    for container in containers:
        container["securityContext"] = {
            "allowPrivilegeEscalation": False,
            "capabilities": {"drop": ["ALL"]},
        }
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            "name": f"trireme-probe-{uuid.uuid4().hex[:8]}",
            "annotations": {"sidecar.istio.io/inject": "false"},
            "labels": {"app.kubernetes.io/name": "trireme-probe"},
        },
        "spec": {
            "restartPolicy": "Never",
            "activeDeadlineSeconds": LIMIT + 60,
            "terminationGracePeriodSeconds": 1,
            "automountServiceAccountToken": False,
            "securityContext": {
                "runAsNonRoot": True,
                "runAsUser": images.USER,
                "seccompProfile": {"type": "RuntimeDefault"},
            },
            "containers": containers,
        }
        | ({"serviceAccountName": account} if account else {}),
    }


def _resources(memory: str) -> dict[str, dict[str, str]]:
    return {
        "requests": {"cpu": "10m", "memory": memory},
        "limits": {"cpu": "1", "memory": memory},  # a quota may ask for them
    }


def _watched(cluster: Cluster, name: str, on_wait: Callable[[str], None]) -> Iterator[Finding]:
    """Yields what is found of each container as soon as it is known."""
    began, reported, is_told = time.monotonic(), set[str](), False
    while True:
        pod = cluster.find(PODS, name, cluster.namespace)
        waited = time.monotonic() - began
        if pod is None:
            yield Finding(Verdict.UNKNOWN, f"pod {name} was removed before it had tried all")
            return
        for container in pod["spec"]["containers"]:
            if container["name"] not in reported and (
                findings := list(_of(cluster, pod, container))
            ):
                reported.add(container["name"])
                yield from findings
        if len(reported) == len(pod["spec"]["containers"]):
            return
        reason = pods.waiting_reason(pod)
        if not pod["spec"].get("nodeName") and waited > UNSCHEDULABLE:
            yield Finding(
                Verdict.FAILED, f"a pod of 1Gi finds no node: {reason or 'no reason is given'}"
            )
            return
        if waited > LIMIT:
            missing = [
                container["image"]
                for container in pod["spec"]["containers"]
                if container["name"] not in reported
            ]
            words = f"not pulled within {LIMIT} s: {', '.join(missing)}"
            yield Finding(Verdict.UNKNOWN, words)
            return
        if waited > UNSCHEDULABLE and not is_told:
            on_wait(f"pod {name} pulls images, {LIMIT} s at most")
            is_told = True
        time.sleep(PAUSE)


def _of(cluster: Cluster, pod: dict[str, Any], container: dict[str, Any]) -> Iterator[Finding]:
    """Yields what is known of a container, if that is all that there is to know."""
    status, image = pods.container_status(pod, container["name"]), container["image"]
    state = status.get("state", {})
    waiting = state.get("waiting", {})
    if waiting.get("reason") in (*pods.NO_IMAGE, "ErrImagePull"):
        message = pods.joined(waiting["reason"], waiting.get("message", ""))
        yield Finding(Verdict.FAILED, f"image {image} cannot be pulled: {message}")
        return
    if container["name"] != MLFLOW:
        if status.get("imageID"):
            yield Finding(Verdict.OK, f"image {image} can be pulled")
        return
    if not (ended := state.get("terminated")):
        return
    yield Finding(Verdict.OK, f"image {image} can be pulled")
    try:
        *_, message = log_tail(cluster, pod, MLFLOW, 20, previous=False) or [""]
    except TriremeError as error:
        message = f"its log cannot be read: {error}"
    if "No module named" in message or ended["exitCode"] not in (0, 1):
        words = f"image {image} cannot ask MLflow: {message or ended.get('message', '')}"
        yield Finding(Verdict.UNKNOWN, words)
    else:
        yield Finding(Verdict.FAILED if ended["exitCode"] else Verdict.OK, message)
