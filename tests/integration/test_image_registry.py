"""make images PUSH=1, trireme images: images at a registry of Docker's, on loopback."""

import base64
import json
import os
import shutil
import subprocess
import sys
import time

import pytest
import requests
import yaml
from git_servers import free_port

from images import build
from trireme.compiling import registry
from trireme.images import BASE, PYTORCH

REGISTRY = shutil.which("docker-registry")
PODMAN = build.builder(["podman"])

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(not (REGISTRY and PODMAN), reason="needs docker-registry and podman"),
]

CONFIG = """
version: 0.1
storage: {filesystem: {rootdirectory: %s}, delete: {enabled: true}}
http: {addr: "127.0.0.1:%d"}
"""

# Stands for a build of minutes; everything else is podman's own.
QUICK = """#!/bin/sh
if [ "$1" = build ]; then
    while [ "$1" != --tag ]; do shift; done
    echo "$2" > %(context)s/name
    printf 'FROM scratch\\nCOPY name /name\\n' > %(context)s/Containerfile
    exec %(podman)s build -q --tag "$2" %(context)s
fi
exec %(podman)s "$@"
"""

PIPELINE = """
from kfp import dsl

@dsl.component(base_image="{there}", install_kfp_package=False)
def first() -> None:
    pass

@dsl.component(base_image="{gone}", install_kfp_package=False)
def second() -> None:
    pass

@dsl.pipeline(name="two")
def two():
    first()
    second()
"""


def start(folder, port, more=""):
    config = folder / "config.yml"
    config.write_text(CONFIG % (folder / "images", port) + more)
    server = subprocess.Popen(
        [REGISTRY, "serve", config], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    )
    until = time.monotonic() + 20
    while time.monotonic() < until:
        try:
            requests.get(f"http://127.0.0.1:{port}/v2/", timeout=5)
            return server
        except requests.ConnectionError:
            time.sleep(0.1)
    raise AssertionError("the registry does not answer")


@pytest.fixture
def host(tmp_path):
    """A registry; returns where it is."""
    port = free_port()
    server = start(tmp_path, port)
    yield f"127.0.0.1:{port}"
    server.terminate()
    server.wait()


@pytest.fixture
def quick(tmp_path, monkeypatch):
    """A folder with a podman that builds small images, and a tree of the project's to build."""
    context, programs = tmp_path / "context", tmp_path / "programs"
    context.mkdir()
    programs.mkdir()
    podman = programs / "podman"
    podman.write_text(QUICK % {"context": context, "podman": shutil.which("podman")})
    podman.chmod(0o755)
    tree = tmp_path / "tree"
    for folder in ("images", "trireme"):
        (tree / folder).mkdir(parents=True)
        for file in (build.ROOT / folder).glob("*.py"):
            shutil.copy(file, tree / folder)
    monkeypatch.setenv("PATH", f"{programs}:{os.environ['PATH']}")
    monkeypatch.setenv("PUSH_OPTIONS", "--tls-verify=false")
    return tree


def make_images(tree, *words):
    return subprocess.run(
        [sys.executable, tree / "images" / "build.py", *words], capture_output=True, text=True
    )


def trireme(folder, *words):
    return subprocess.run(
        [sys.executable, "-m", "trireme", *words],
        cwd=folder,
        env=os.environ | {"TRIREME_HOME": str(folder / "home"), "PYTHONPATH": str(build.ROOT)},
        capture_output=True,
        text=True,
    )


def test_what_is_pushed_is_written_pinned_and_found(host, quick, tmp_path):
    done = make_images(quick, "base", "--registry", f"{host}/team", "--push")
    assert done.returncode == 0, done.stderr
    done = make_images(quick, "pytorch", "--registry", f"{host}/team", "--push")
    assert done.returncode == 0, done.stderr
    pushed = yaml.safe_load((quick / "images.yaml").read_text())
    assert pushed.keys() == {BASE, PYTORCH}
    for image in pushed.values():
        assert image.startswith(f"{host}/team/")
        assert registry.is_there(image) is True
    # What the digest names is what was built.
    name, _, digest = pushed[BASE].removeprefix(f"{host}/").partition("@")
    found = requests.get(
        f"http://{host}/v2/{name}/manifests/{digest}",
        headers={"Accept": registry.MANIFESTS},
        timeout=5,
    )
    assert found.headers["Docker-Content-Digest"] == digest
    pins = str(quick / "images.yaml")
    listed = trireme(tmp_path, "images", "pytorch-training", "--images", pins, "-o", "json")
    assert listed.returncode == 0, listed.stderr
    images = json.loads(listed.stdout)["images"]
    assert {each["name"] for each in images} == {*pushed.values()}
    assert all(each["pinned"] and each["there"] for each in images)
    made = trireme(tmp_path, "compile", "pytorch-training", "--images", pins)
    assert (made.returncode, made.stderr) == (0, "")


def test_what_is_missing_or_not_pinned_is_told(host, quick, tmp_path):
    done = make_images(quick, "base", "--registry", host, "--push")
    assert done.returncode == 0, done.stderr
    there, gone = f"{host}/base:{BASE.rpartition(':')[2]}", f"{host}/none:1"
    (tmp_path / "two.py").write_text(PIPELINE.format(there=there, gone=gone))
    listed = trireme(tmp_path, "images", "two.py", "-o", "json")
    assert [
        (each["name"], each["used_by"], each["pinned"], each["there"])
        for each in json.loads(listed.stdout)["images"]
    ] == [(there, ["first"], False, True), (gone, ["second"], False, False)]
    plan = trireme(tmp_path, "plan", "two.py", "--target", "argo")
    assert plan.stderr.splitlines() == [
        f"note: without a digest, so that what is run can change: {there}, {gone}; --images pins "
        "them",
        f"warning: not in their registries: {gone}",
    ]
    unasked = trireme(tmp_path, "plan", "two.py", "--target", "argo", "--no-check")
    assert len(unasked.stderr.splitlines()) == 1


def test_a_login_is_used_and_without_one_nothing_is_told(tmp_path, monkeypatch):
    port = free_port()
    (tmp_path / "users").write_text(
        # bcrypt of "secret", as htpasswd writes it
        "somebody:$2y$05$abcdefghijklmnopqrstuuOQiyCxlgf/oeuTqixKmWdcYUh4Hjl0a\n"
    )
    auth = "auth: {htpasswd: {realm: here, path: %s}}\n" % (tmp_path / "users")
    server = start(tmp_path, port, auth)
    image = f"127.0.0.1:{port}/none:1"
    try:
        monkeypatch.setenv("REGISTRY_AUTH_FILE", str(tmp_path / "auth.json"))
        assert registry.is_there(image) is None
        login = base64.b64encode(b"somebody:secret").decode()
        kept = {"auths": {f"127.0.0.1:{port}": {"auth": login}}}
        (tmp_path / "auth.json").write_text(json.dumps(kept))
        assert registry.is_there(image) is False
    finally:
        server.terminate()
        server.wait()
