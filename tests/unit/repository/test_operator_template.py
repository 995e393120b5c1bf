"""manifests/operator: the container with which the training operator has workers wait."""

import shutil
import subprocess
from pathlib import Path

import pytest
import yaml

from trireme.images import BASE, USER

OPERATOR = Path(__file__).parents[3] / "manifests" / "operator"


def container(master):
    """Returns the container as the training operator 1.9 makes it of its template."""
    text = yaml.safe_load((OPERATOR / "init-container.yaml").read_text())["data"]
    template = text["init-container.yaml"]
    values = {"InitContainerImage": BASE, "MaxTries": "1", "MasterAddr": master}
    for name, value in values.items():
        template = template.replace(f"{{{{.{name}}}}}", value)
    assert "{{" not in template
    (made,) = yaml.safe_load(template)
    return made


def waits(master, programs):
    """Runs it with nothing but some programs; returns its exit status."""
    command = container(master)["command"]
    return subprocess.run(command, env={"PATH": str(programs)}, capture_output=True).returncode


@pytest.fixture
def programs(tmp_path):
    """What a Debian has of what it needs; no nslookup. It does not sleep."""
    for name in ("sh", "seq", "getent"):
        (tmp_path / name).symlink_to(shutil.which(name))
    (tmp_path / "sleep").symlink_to(shutil.which("true"))
    return tmp_path


def test_it_ends_when_the_master_has_an_address(programs):
    assert waits("localhost", programs) == 0
    assert waits("x" * 300, programs) == 1  # which needs no server to be no name


def test_it_is_allowed_where_pod_security_is_restricted():
    context = container("train-master-0")["securityContext"]
    assert context == {
        "allowPrivilegeEscalation": False,
        "capabilities": {"drop": ["ALL"]},
        "runAsNonRoot": True,
        "runAsUser": USER,
        "seccompProfile": {"type": "RuntimeDefault"},
    }


def test_it_runs_in_an_image_that_the_steps_need_anyhow():
    patch = yaml.safe_load((OPERATOR / "patch.yaml").read_text())
    (operator,) = patch["spec"]["template"]["spec"]["containers"]
    assert f"--pytorch-init-container-image={BASE}" in operator["args"]
