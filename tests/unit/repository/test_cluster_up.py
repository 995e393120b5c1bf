"""manifests/cluster-up.sh with stand-ins for docker, kind and kubectl: whether its names fit."""

import functools
import itertools
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

from images import build
from trireme.frameworks import KINDS

MANIFESTS = Path(__file__).parents[3] / "manifests"
PROGRAMS = ("docker", "kind", "kubectl")
SYSTEM = ("base64", "cat", "dirname", "grep", "head", "sed", "sh", "sort", "tr")
STAND_IN = """#!/bin/sh
printf '%s ' "${0##*/}" "$@" | tr '\\n' ' ' >> calls; echo >> calls
case "$*" in
"kustomize "*) exec "$KUBECTL" "$@" ;;
"get clusters") echo other ;;
*" get service minio "*) echo service/minio ;;
*"--output name --filename -") cat > workflow; echo workflow.argoproj.io/a ;;
*.status.phase*) echo "$PHASE" ;;
esac
"""

pytestmark = pytest.mark.skipif(not shutil.which("kubectl"), reason="kubectl is not installed")


class Script:
    """The script in a copy of what it needs, and what it asks of its programs."""

    def __init__(self, place, programs):
        self.folder, self.bin = place / "manifests", place / "bin"
        shutil.copytree(MANIFESTS, self.folder)
        shutil.copytree(build.ROOT / "trireme", place / "trireme", symlinks=True)
        (place / "images").mkdir()
        for file in (build.ROOT / "images").glob("*.py"):
            shutil.copy(file, place / "images")
        self.bin.mkdir()
        for name in SYSTEM:
            (self.bin / name).symlink_to(shutil.which(name))
        (self.bin / "python3").symlink_to(sys.executable)
        for name in programs:
            (self.bin / name).write_text(STAND_IN)
            (self.bin / name).chmod(0o755)

    def run(self, phase):
        """Runs it; a run of a pipeline ends in the phase."""
        environment = {"KUBECTL": shutil.which("kubectl"), "HOME": os.environ["HOME"]}
        return subprocess.run(
            [str(self.folder / "cluster-up.sh")],
            env={"PATH": str(self.bin), "PHASE": phase, **environment},
            capture_output=True,
            text=True,
        )

    @property
    def calls(self):
        """What was called, split at spaces."""
        return [line.split() for line in (self.folder / "calls").read_text().splitlines()]

    @functools.cached_property
    def rendered(self):
        """What the manifests make."""
        command = ["kubectl", "kustomize", str(self.folder / "overlays/kind")]
        done = subprocess.run(command, check=True, capture_output=True)
        return list(yaml.load_all(done.stdout, yaml.CSafeLoader))


@pytest.fixture(scope="module")
def script(tmp_path_factory):
    """The script, which has run."""
    made = Script(tmp_path_factory.mktemp("cluster"), PROGRAMS)
    done = made.run("Succeeded")
    assert done.returncode == 0, done.stdout + done.stderr
    return made


def after(calls, *options):
    """Returns what follows one of some options in calls."""
    return [
        value for call in calls for option, value in itertools.pairwise(call) if option in options
    ]


def test_all_that_it_names_is_there(script):
    given = set(after(script.calls, "--filename", "--patch-file", "--kustomize", "kustomize"))
    elsewhere = {name for name in given if re.match("https://|github.com/", name)}
    assert len(elsewhere) == 2 and all(re.search(r"v\d+\.\d+\.\d+", name) for name in elsewhere)
    here = given - elsewhere - {"-"}
    assert {"overlays/kind", "operator"} <= here
    assert [name for name in here if not (MANIFESTS / name).exists()] == []


CRD = """\
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: NAME.kubeflow.org}
"""
DEPLOYMENT = """\
apiVersion: apps/v1
kind: Deployment
metadata: {name: training-operator, namespace: kubeflow}
spec:
  template:
    spec:
      containers:
      - {name: training-operator, command: [/manager]}
"""


def test_the_training_operator_leaves_mpijobs_to_the_mpi_operator(tmp_path):
    """Both own a CRD of the name, as of training operator v1.9.0 and MPI operator v0.8.0."""
    shutil.copytree(MANIFESTS / "operator", tmp_path / "operator")
    file = tmp_path / "operator/kustomization.yaml"
    made = yaml.safe_load(file.read_text())
    assert made["resources"][0].startswith("https://github.com/kubeflow/training-operator/")
    made["resources"][0] = "theirs.yaml"
    file.write_text(yaml.safe_dump(made))
    crds = [CRD.replace("NAME", name) for name in ("mpijobs", "pytorchjobs")]
    (tmp_path / "operator/theirs.yaml").write_text("---\n".join([*crds, DEPLOYMENT]))
    command = ["kubectl", "kustomize", str(tmp_path / "operator")]
    done = subprocess.run(command, check=True, capture_output=True)
    found = {thing["kind"]: thing for thing in yaml.safe_load_all(done.stdout)}
    assert found.keys() == {"CustomResourceDefinition", "Deployment", "ConfigMap"}
    assert found["CustomResourceDefinition"]["metadata"]["name"] == "pytorchjobs.kubeflow.org"
    (container,) = found["Deployment"]["spec"]["template"]["spec"]["containers"]
    schemes = [word for word in container["args"] if word.startswith("--enable-scheme=")]
    ours = [kind for kind in KINDS.values() if kind.provider == KINDS["TFJob"].provider]
    assert set(schemes) == {f"--enable-scheme={kind.name.lower()}" for kind in ours}
    assert container["command"] == ["/manager"]


def test_it_loads_the_images_that_it_builds_and_the_manifests_name(script):
    built = after([call for call in script.calls if call[0] == "docker"], "--tag")
    loaded = [call[-1] for call in script.calls if call[:3] == ["kind", "load", "docker-image"]]
    assert built == loaded
    of_no_pipeline = {build.IMAGES[name] for name in ("mpi", "jax", "xgboost")}
    assert set(loaded) == set(build.IMAGES.values()) - of_no_pipeline


def test_it_waits_for_what_the_manifests_start(script):
    started = {
        (thing["metadata"]["namespace"], thing["kind"].lower(), thing["metadata"]["name"])
        for thing in script.rendered
        if thing["kind"] in ("Deployment", "StatefulSet")
    }
    waited = {(call[2], *call[5:7]) for call in script.calls if call[3:5] == ["rollout", "status"]}
    assert started <= waited


def test_it_runs_the_default_pipeline(script):
    workflow = yaml.safe_load((script.folder / "workflow").read_text())
    assert workflow["metadata"]["namespace"] == "trireme"
    name = workflow["spec"]["workflowTemplateRef"]["name"]
    assert [thing["kind"] for thing in script.rendered if thing["metadata"]["name"] == name] == [
        "WorkflowTemplate"
    ]
    assert "arguments" not in workflow["spec"]


def test_it_fails_as_the_run_does(script):
    assert script.run("Failed").returncode == 1


def test_what_is_not_installed_is_said_before_anything_is_done(tmp_path):
    script = Script(tmp_path, ["docker"])
    done = script.run("")
    assert (done.returncode, done.stderr) == (2, "error: there is no kind\n")
    assert not (script.folder / "calls").exists()
