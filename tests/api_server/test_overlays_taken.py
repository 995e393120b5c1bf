"""A real API server takes what kustomize makes of manifests/, of the kinds that it knows."""

import json
import shutil
import subprocess
from pathlib import Path

import pytest
import yaml
from player import NAMESPACES

MANIFESTS = Path(__file__).parents[2] / "manifests"

pytestmark = [
    pytest.mark.cluster,
    pytest.mark.skipif(not shutil.which("kubectl"), reason="kubectl is not installed"),
]


def kubectl(*arguments, stdin=""):
    return subprocess.run(["kubectl", *arguments], input=stdin, capture_output=True, text=True)


def group(thing):
    """Returns the API group of an object; that of the oldest has no name."""
    return thing["apiVersion"].rpartition("/")[0]


@pytest.mark.parametrize("overlay", ["kind", "kubeflow", "kubeflow-single-user", "argo", "aliyun"])
def test_the_api_server_takes_the_overlay(overlay, real):
    strict = {"metadata": {"labels": {"pod-security.kubernetes.io/warn": "restricted"}}}
    real.patch(NAMESPACES, real.namespace, "", strict)
    known = {line.rpartition("/")[0] for line in kubectl("api-versions").stdout.split()}
    rendered = kubectl("kustomize", str(MANIFESTS / "overlays" / overlay)).stdout
    things = list(yaml.load_all(rendered, yaml.CSafeLoader))
    for thing in things:
        if "namespace" in thing["metadata"]:  # the only one that is there
            thing["metadata"]["namespace"] = real.namespace
    asked = ("apply", "--server-side", "--dry-run=server", "--validate=strict", "--filename=-")
    taken = [thing for thing in things if group(thing) in known]
    done = kubectl(*asked, stdin=json.dumps({"apiVersion": "v1", "kind": "List", "items": taken}))
    assert done.returncode == 0, done.stderr
    assert len(done.stdout.splitlines()) == len(taken)
    assert "PodSecurity" not in done.stderr
    if missing := {group(thing) for thing in things} - known:
        pytest.skip(f"the cluster has no {', '.join(sorted(missing))}; it takes all else")
