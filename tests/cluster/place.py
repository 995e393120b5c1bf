"""Where the cases run: a namespace with our own manifests' rights, MLflow and a git server."""

import base64
import json
import os
import secrets
import socket
import subprocess
import tempfile
import threading
import time
import urllib.request
from contextlib import contextmanager, suppress
from pathlib import Path

import yaml

HERE = Path(__file__).parent
ROOT = HERE.parents[1]
VARIABLE = "TRIREME_TEST_PLACE"
"""Hands the place that the first process has made to those that run the cases."""

LABEL = "trireme-test"
"""Of what a place has outside of its namespace, and of namespaces: the place that it is of."""

READY = 300  # seconds in which MLflow and git have to be there, images pulled

# The policies of our manifests let a run's pods go to nothing else in the cluster's own networks.
EVERY_POD = [{"namespaceSelector": {}}]
OPEN = {
    "apiVersion": "networking.k8s.io/v1",
    "kind": "NetworkPolicy",
    "metadata": {"name": "open"},
    "spec": {
        "podSelector": {},
        "policyTypes": ["Ingress", "Egress"],
        "ingress": [{"from": EVERY_POD}],
        "egress": [{"to": EVERY_POD}],
    },
}


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
    try:
        namespace(name, name)
        restricted = [
            f"pod-security.kubernetes.io/{mode}=restricted" for mode in ("enforce", "warn")
        ]
        kubectl("label", "namespace", name, *restricted)
        users = secret(
            "mlflow-server",
            MLFLOW_AUTH_ADMIN_USERNAME="admin",
            MLFLOW_AUTH_ADMIN_PASSWORD=password,
            MLFLOW_FLASK_SERVER_SECRET_KEY=password,
        )
        create(name, users, credentials(name, password))
        for config_map, files in (("code", "code"), ("git-daemon", "git_daemon.py")):
            given = ("create", "configmap", config_map, f"--from-file={HERE / files}")
            kubectl(*given, namespace=name)
        services = (HERE / "services.yaml").read_text()
        for ours, pulled in images.items():
            services = services.replace(ours, pulled)
        create(name, *yaml.safe_load_all(services))
        ready = ("wait", "--for=condition=Ready", "pod/mlflow", "pod/git", f"--timeout={READY}s")
        kubectl(*ready, namespace=name)
    except BaseException:
        remove(name)
        raise
    return {"namespace": name, "password": password}


def remove(place):
    """Removes the namespaces of a place and all that is in them."""
    kubectl("delete", "namespace", "--selector", f"{LABEL}={place}", "--ignore-not-found")


def namespace(name, place):
    """Makes a namespace of a place, with the rights of our manifests."""
    kubectl("create", "namespace", name)
    kubectl("label", "namespace", name, f"{LABEL}={place}")
    ours = rendered("overlays/argo/runs", name)
    pipelines = "argoproj.io/"  # which the cluster may not know; runs bring theirs along
    there = [each for each in ours if not each["apiVersion"].startswith(pipelines)]
    create(name, *(each for each in there if each["kind"] != "Namespace"), OPEN)


def create(namespace, *objects):
    """Makes objects in a namespace."""
    listed = {"apiVersion": "v1", "kind": "List", "items": objects}
    kubectl("create", "--filename", "-", given=json.dumps(listed), namespace=namespace)


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


def rendered(runs, namespace):
    """Returns what our manifests for runs hold, with the right to deploy, for a namespace."""
    with tempfile.TemporaryDirectory() as folder:
        manifests = os.path.relpath(ROOT / "manifests", Path(folder).resolve())
        own = {
            "namespace": namespace,
            "resources": [f"{manifests}/{runs}"],
            "components": [f"{manifests}/parts/deploying"],
        }
        (Path(folder) / "kustomization.yaml").write_text(yaml.safe_dump(own))
        return list(yaml.safe_load_all(kubectl("kustomize", folder)))


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
        is_over = threading.Event()

        def forward():
            while not is_over.is_set():  # one that has lost its connection ends
                with subprocess.Popen([*command, f"{port}:5000"], stdout=subprocess.DEVNULL) as one:
                    while one.poll() is None and not is_over.wait(0.2):
                        pass
                    one.terminate()
                is_over.wait(1)

        forwarding = threading.Thread(target=forward)
        forwarding.start()
        url = f"http://127.0.0.1:{port}"
        try:
            _wait_for(f"{url}/health")
            yield url
        finally:
            is_over.set()
            forwarding.join()


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
