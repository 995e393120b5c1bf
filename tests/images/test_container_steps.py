"""A step that is a command of its image, run here by podman or docker."""

import os
import subprocess
import sys

import pytest

from images import build
from tests.images.containers import is_built

pytestmark = pytest.mark.images

PIPELINE = """
from kfp import dsl


@dsl.container_component
def shout(text: str, out: dsl.OutputPath(str), art: dsl.Output[dsl.Artifact]):
    script = 'printf "%s!$WHO$HOME" "$0" > "$1"; env | grep -c MLFLOW_RUN_ID > "$2"'
    return dsl.ContainerSpec(
        image="IMAGE", command=["sh", "-c"], args=[script, text, out, art.path]
    )


@dsl.component(base_image="python:3.11", install_kfp_package=False)
def see(text: str, art: dsl.Input[dsl.Artifact]):
    print("SEEN", text, open(art.path).read())


@dsl.pipeline(name="shouting")
def shouting(text: str = "it's"):
    shouted = shout(text=text)
    # Its own, not those of podman or docker, which need theirs.
    shouted.set_env_variable("HOME", "/nowhere").set_env_variable("PATH", "/bin:/usr/bin")
    shouted.set_env_variable("WHO", "a\\nb=")
    see(text=shouted.outputs["out"], art=shouted.outputs["art"])
"""


def test_what_a_container_leaves_the_next_step_is_given(tmp_path):
    if not is_built("base"):
        pytest.skip("the image base is not built here")
    (tmp_path / "shouting.py").write_text(PIPELINE.replace("IMAGE", build.tag("base", "cpu")))
    done = subprocess.run(
        [sys.executable, "-m", "trireme", "run", "shouting.py", "--verbose"],
        cwd=tmp_path,
        env=os.environ | {"TRIREME_HOME": str(tmp_path / "home")},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert "SEEN it's!a\n" in done.stdout and "b=/nowhere 1" in done.stdout
