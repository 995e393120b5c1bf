"""Where the cases run: a namespace with our own manifests' rights, MLflow and a git server."""

import base64
import json
import os
import secrets
import socket
import subprocess
import time
import urllib.request
from contextlib import contextmanager, suppress
from pathlib import Path

import yaml

HERE = Path(__file__).parent
ROOT = HERE.parents[1]
VARIABLE = "TRIREME_TEST_PLACE"
"""Hands the place that the first process has made to those that run the cases."""

READY = 300  # seconds in which MLflow and git have to be there, images pulled


def kubectl(*words, given="", namespace=""):
    """Returns what kubectl prints."""
    command = ["kubectl", *(["--namespace", namespace] if namespace else []), *words]
    done = subprocess.run(command, input=given, capture_output=True, text=True)
    if done.returncode:
        raise RuntimeError(f"{' '.join(command)}: {done.stderr.strip()}")
    return done.stdout


def serves(kind):
    """Tells whether the cluster has a resource, such as ``workflows.argoproj.io``."""
    with suppress(RuntimeError):
        return bool(kubectl("get", "crd", kind, "--output", "name"))
    return False


def make(images):
    """Makes a place; returns what leads to it, to be handed to ``Place``."""
    name = f"trireme-test-{secrets.token_hex(3)}"
    password = secrets.token_urlsafe(16)
    kubectl("create", "namespace", name)
    try:
        restricted = ("enforce", "warn")
        labels = [f"pod-security.kubernetes.io/{mode}=restricted" for mode in restricted]
        kubectl("label", "namespace", name, *labels)
        users = secret(
            "mlflow-server",
            MLFLOW_AUTH_ADMIN_USERNAME="admin",
            MLFLOW_AUTH_ADMIN_PASSWORD=password,
            MLFLOW_FLASK_SERVER_SECRET_KEY=password,
        )
        for document in (*_rights(name), users, credentials(name, password)):
            kubectl("apply", "--filename", "-", given=json.dumps(document), namespace=name)
        for config_map, files in (("code", "code"), ("git-daemon", "git_daemon.py")):
            given = ("create", "configmap", config_map, f"--from-file={HERE / files}")
            kubectl(*given, namespace=name)
        services = (HERE / "services.yaml").read_text()
        for ours, pulled in images.items():
            services = services.replace(ours, pulled)
        kubectl("apply", "--filename", "-", given=services, namespace=name)
        ready = ("wait", "--for=condition=Ready", "pod/mlflow", "pod/git", f"--timeout={READY}s")
        kubectl(*ready, namespace=name)
    except BaseException:
        remove(name)
        raise
    return {"namespace": name, "password": password}


def remove(name):
    """Removes a place and all that is in it."""
    kubectl("delete", "namespace", name, "--ignore-not-found")


def secret(name, **content):
    """Returns a Secret."""
    encoded = {key: base64.b64encode(text.encode()).decode() for key, text in content.items()}
    return {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": name}, "data": encoded}


def credentials(place, password):
    """Returns the Secret that leads the runs of a namespace to a place's MLflow."""
    return secret(
        "trireme-mlflow",
        MLFLOW_TRACKING_URI=f"http://mlflow.{place}:5000",
        MLFLOW_TRACKING_USERNAME="admin",
        MLFLOW_TRACKING_PASSWORD=password,
    )


def _rights(namespace):
    """Yields what our own manifests give a namespace of runs, for another namespace."""
    rendered = kubectl("kustomize", str(ROOT / "manifests/overlays/argo"))
    for document in yaml.safe_load_all(
        rendered.replace("namespace: trireme\n", f"namespace: {namespace}\n")
    ):
        is_there = document["metadata"].get("namespace") == namespace
        if is_there and "argoproj.io" not in document["apiVersion"]:
            yield document


class Place:
    """The place of this test run, as its cases see it."""

    def __init__(self, namespace, password):
        self.namespace = namespace
        self.password = password
        self.code = f"git://git.{namespace}/code"

    @classmethod
    def given(cls):
        return cls(**json.loads(os.environ[VARIABLE]))

    @contextmanager
    def tracking(self):
        """Brings MLflow to this machine; yields its URL."""
        port = _free_port()
        command = ["kubectl", "--namespace", self.namespace, "port-forward", "service/mlflow"]
        forwarding = subprocess.Popen([*command, f"{port}:5000"], stdout=subprocess.DEVNULL)
        url = f"http://127.0.0.1:{port}"
        try:
            _wait_for(f"{url}/health")
            yield url
        finally:
            forwarding.terminate()
            forwarding.wait()


def _free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def _wait_for(url):
    for _ in range(100):
        with suppress(OSError):
            urllib.request.urlopen(url, timeout=5).close()
            return
        time.sleep(0.2)
    raise RuntimeError(f"{url} does not answer")
