"""images/build.py: how images are built; tests/images looks at what comes of it."""

import itertools
import os
import re
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest
import yaml

from images import build
from trireme import images

LOCKS = build.ROOT / "images/locks"
NOT_FROZEN = {"setuptools", "wheel"}  # pip freeze leaves them out
PINNED = re.compile(r"^([A-Za-z0-9_.-]+)==([^\s;]+)", re.MULTILINE)


def pins(text):
    plain = {name.lower().replace("_", "-"): version for name, version in PINNED.findall(text)}
    return {name: version.removesuffix("+cpu") for name, version in plain.items()}


def arguments(command):
    given = [after for _, after in itertools.pairwise(command)]
    return dict(part.split("=", 1) for part in given if re.match(r"[A-Z]+=", part))


@pytest.mark.parametrize("accelerator", ["cpu", "cuda"])
@pytest.mark.parametrize("name", build.IMAGES)
def test_every_image_has_a_stage_and_a_lock(name, accelerator):
    command = build.command("podman", name, accelerator, "0" * 40)
    stages = re.findall(
        r"^FROM .* AS (\w+)$", (build.ROOT / "images/Containerfile").read_text(), re.M
    )
    assert command[command.index("--target") + 1] in stages
    assert (LOCKS / f"{arguments(command)['LOCK']}.txt").exists()


def test_an_image_for_gpus_has_another_name():
    assert build.tag("pytorch", "cuda") == build.tag("pytorch", "cpu") + "-cuda"
    assert build.tag("base", "cuda") == build.tag("base", "cpu")


@pytest.mark.parametrize(
    "lock", ["base", "pytorch-cpu", "tensorflow-cpu", "jax", "xgboost", "mlflow"]
)
def test_images_have_the_versions_of_the_lock_with_hashes(lock):
    text = (LOCKS / f"{lock}.txt").read_text()
    ours = pins((build.ROOT / "requirements.lock").read_text())
    found = pins(text)
    assert found
    assert {name for name in found if found[name] != ours.get(name)} <= NOT_FROZEN
    requirements = re.split(r"\n(?=\S)", text.strip())
    assert [part for part in requirements if "--hash=sha256:" not in part] == []


@pytest.mark.parametrize("lock", sorted({file.stem for file in LOCKS.glob("*.txt")} - {"build"}))
def test_every_image_has_all_that_the_project_asks_for(lock):
    project = tomllib.loads((build.ROOT / "pyproject.toml").read_text())["project"]
    asked = {re.match(r"[\w-]+", each)[0] for each in project["dependencies"]}
    assert asked <= pins((LOCKS / f"{lock}.txt").read_text()).keys()


def test_every_image_that_a_compiled_step_names_is_built():
    spec = next(
        yaml.safe_load_all((build.ROOT / "tests/golden/tensorflow-training.yaml").read_text())
    )
    used = {of["container"]["image"] for of in spec["deploymentSpec"]["executors"].values()}
    assert used <= set(build.IMAGES.values())


@pytest.mark.parametrize(
    ("given", "path", "words"),
    [
        (["nonsense"], "/usr/bin:/bin", "no image nonsense: there are base, pytorch"),
        (["base"], "/nonexistent", "no builder works; install one of podman, buildah, docker"),
        (["--builder", "docker"], "/nonexistent", "no builder works; install one of docker"),
    ],
)
def test_what_cannot_be_built_is_said_in_a_sentence(given, path, words):
    script = str(Path(build.__file__))
    done = subprocess.run(
        [sys.executable, script, *given], env={"PATH": path}, capture_output=True, text=True
    )
    assert done.returncode == 2
    assert words in done.stderr
    assert "Traceback" not in done.stderr


@pytest.mark.parametrize("parent", ["", "another"])
def test_a_tree_that_is_no_checkout_is_built_all_the_same(parent, tmp_path, make_repository):
    """Even if it lies in a checkout of something else, which has another commit."""
    make_repository("another").commit("text")
    tree = tmp_path / parent / "tarball"
    for folder in ("images", "trireme"):
        (tree / folder).mkdir(parents=True)
        for file in (build.ROOT / folder).glob("*.py"):
            shutil.copy(file, tree / folder)
    podman = tree / "podman"
    podman.write_text('#!/bin/sh\necho "$@"\n')
    podman.chmod(0o755)
    done = subprocess.run(
        [sys.executable, str(tree / "images/build.py"), "base"],
        env={"PATH": f"{tree}:{os.environ['PATH']}"},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    assert done.stderr == f"note: {tree} is at no commit that git knows; the images name none\n"
    assert "REVISION= " in done.stdout


def test_what_an_image_copies_is_sent_to_the_builder():
    text = (build.ROOT / "images" / "Containerfile").read_text()
    copied = re.findall(r"^COPY (?!--)(.+) \S+$", text, re.M)
    tops = {source.split("/")[0] for line in copied for source in line.split()}
    sent = {
        line[1:] for line in (build.ROOT / ".dockerignore").read_text().split() if line[0] == "!"
    }
    assert tops == sent


def test_what_was_pushed_before_stays_in_the_file(tmp_path):
    file = tmp_path / "images.yaml"
    assert build.read(file) == {}
    one = {"ghcr.io/trireme/base:1": f"r:5000/base@sha256:{'0' * 64}"}
    build.write(file, one)
    build.write(file, build.read(file) | {"ghcr.io/trireme/mpi:1": "r/mpi@sha256:1"})
    assert yaml.safe_load(file.read_text()) == one | {"ghcr.io/trireme/mpi:1": "r/mpi@sha256:1"}


@pytest.mark.parametrize(
    ("given", "words"),
    [
        (["--push"], "--registry and --push go together"),
        (["--registry", "r.example.org"], "--registry and --push go together"),
        (["--push", "--registry", "https://r.example.org"], "must be as in registry.example.org"),
        (["--push", "--registry", "r.example.org/Team"], "must be as in registry.example.org"),
    ],
)
def test_where_images_go_is_checked_before_any_is_built(given, words):
    script = [sys.executable, str(Path(build.__file__)), "base", *given]
    done = subprocess.run(script, env={"PATH": "/nonexistent"}, capture_output=True, text=True)
    assert done.returncode == 2
    assert words in done.stderr


def test_images_are_tagged_with_the_version_of_the_project():
    project = tomllib.loads((build.ROOT / "pyproject.toml").read_text())["project"]
    assert project["version"] == images.VERSION
    assert {name.rpartition(":")[2] for name in build.IMAGES.values()} == {images.VERSION}
