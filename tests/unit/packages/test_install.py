"""Packages of a run: what is there already, what is installed and built, and who uses it."""

import json
import zipfile
from pathlib import Path

import pytest
from projects import DYNAMIC

from trireme.errors import InputError, TriremeError
from trireme.job.job import TrainingJob
from trireme.manifests import render
from trireme.packages import install, present, use
from trireme.packages.uv import Uv
from trireme.runner.inputs import inputs_of
from trireme.tracking import journal


def test_wheels_stand_for_what_is_there(tmp_path):
    there = present.packages("pytorch")
    there.write_wheels(tmp_path)
    assert there.version("packaging") and not there.version("no-such-package")
    assert there.version("tensorflow") == there.version("tensorflow-cpu")
    stem = f"packaging-{there.version('packaging')}"
    (file,) = tmp_path.glob(f"{stem}-*.whl")
    with zipfile.ZipFile(file) as wheel:
        assert b"Name: packaging" in wheel.read(f"{stem}.dist-info/METADATA")


def test_in_a_pod_the_list_of_the_frameworks_image_says_what_is_there(tmp_path, monkeypatch):
    monkeypatch.setattr(present, "in_a_pod", lambda: True)
    monkeypatch.setattr(present, "LOCKS", tmp_path)
    with pytest.raises(TriremeError, match=r"has no .*tensorflow-cpu\.txt"):
        present.packages("tensorflow")
    (tmp_path / "tensorflow-cpu.txt").write_text(
        "six==1.17.0 \\\n    --hash=sha256:1\ntensorflow-cpu==2.21.0 \\\n    --hash=sha256:2\n"
    )
    there = present.packages("tensorflow")
    assert there.held == ["tensorflow-cpu==2.21.0", "tensorflow==2.21.0"]
    assert there.version("six") == "1.17.0"


@pytest.mark.parametrize(
    "start",
    [
        b"#!/opt/trireme/bin/python3\n",
        b"#!/bin/sh\n'''exec' '/a long/python' \"$0\" \"$@\"\n' '''\n",
    ],
)
def test_commands_run_with_the_python_that_is_first_in_path(tmp_path, start):
    script = tmp_path / "accelerate"
    script.write_bytes(start + b"import sys\n")
    script.chmod(0o755)
    install._make_movable(script)
    assert script.read_bytes() == b"#!/usr/bin/env python3\nimport sys\n"
    assert script.stat().st_mode & 0o111


def test_a_lock_of_another_python_is_not_installed_again(tmp_path):
    lock = tmp_path / "packages.txt"
    lock.write_text("--find-links wheels\n# Python 2.7 on linux-vax\ntiny==1.0\n")
    with pytest.raises(InputError, match=r"were chosen for Python 2\.7 on linux-vax, and this is"):
        install._read(str(lock))


@pytest.mark.parametrize("content", ["", "absl-py==2.1.0\n", "# Python packages\n", "\xff\0"])
def test_a_models_own_file_of_the_same_name_is_no_lock(tmp_path, content):
    (tmp_path / "packages.txt").write_text(content, "latin-1")
    assert install.of_model(tmp_path) == ""
    (tmp_path / "packages.txt").write_text("--no-index\n# Python 2.7 on linux-vax\n")
    with pytest.raises(InputError, match=r"were chosen for Python 2\.7"):
        install.of_model(tmp_path)


def test_of_a_pins_hashes_those_count_that_the_repository_wants(tmp_path):
    file = tmp_path / "requirements.txt"
    file.write_text("A_b==1 \\\n    --hash=sha256:2 --hash=sha256:9\n-r more.txt\nc\n")
    hashes = install._hashes(file)
    assert hashes == {"a-b==1": ["sha256:2", "sha256:9"]}
    (tmp_path / "more.txt").write_text(
        "c[x] == 1.0.0; python_version > '3' \\\n--hash=sha256:4\n-r requirements.txt\n"
    )
    assert install._hashes(file)["c==1"] == ["sha256:4"]
    (tmp_path / "requirements.txt").write_text(f"-r ../{tmp_path.name}/requirements.txt\na==1\n")
    assert install._hashes(file) == {}
    entry = "a-b==1 \\\n    --hash=sha256:1 \\\n    --hash=sha256:2"
    kept = install._with_hashes(entry, hashes["a-b==1"])
    assert kept == "a-b==1 \\\n    --hash=sha256:2"
    assert install._with_hashes(entry, None) == entry
    with pytest.raises(InputError, match=r"a-b==1 has none of the hashes that the repository"):
        install._with_hashes(entry, ["sha256:3"])


def test_a_run_without_requirements_has_no_packages(tmp_path, capsys):
    install.install([], tmp_path, tmp_path)
    assert (use.folder(tmp_path), capsys.readouterr()) == ("", ("", ""))
    (tmp_path / "requirements.txt").write_text("tiny\n")
    install.install([], tmp_path, tmp_path)
    assert "a requirements.txt, which is used only with -p req" in capsys.readouterr().err


def test_replicas_find_the_packages_after_the_code():
    job = TrainingJob(entrypoint="train.py", packages="/workspace/packages/abc$")
    (pod,) = [
        part["template"]["spec"] for part in render(job)["spec"]["pytorchReplicaSpecs"].values()
    ]
    (container,) = pod["containers"]
    values = {each["name"]: each.get("value") for each in container["env"]}
    assert values["PYTHONPATH"] == "/root/code:/workspace/packages/abc$$"
    assert container["command"][:2] == ["sh", "-c"]
    assert container["command"][3] == "/workspace/packages/abc$$"
    assert container["command"][-2:] == ["python3", "train.py"]
    own = job.model_copy(update={"env": {"PYTHONPATH": "/mine"}})
    (pod,) = [
        part["template"]["spec"] for part in render(own)["spec"]["pytorchReplicaSpecs"].values()
    ]
    env = {each["name"]: each.get("value") for each in pod["containers"][0]["env"]}
    assert env["PYTHONPATH"] == "/mine:/workspace/packages/abc$$"


def test_a_worker_of_an_mpi_job_still_runs_what_the_operator_has_it_run():
    job = TrainingJob(framework="mpi", entrypoint="train.py", packages="/packages")
    worker = render(job)["spec"]["mpiReplicaSpecs"]["Worker"]["template"]["spec"]["containers"][0]
    assert "command" not in worker


def test_other_packages_are_a_change_and_another_place_is_none():
    before, moved, changed = (
        inputs_of(TrainingJob(entrypoint="train.py", packages=place))
        for place in ("/a/1234", "/b/1234", "/a/5678")
    )
    assert before == moved != changed
    assert "packages" not in inputs_of(TrainingJob(entrypoint="train.py"))


@pytest.mark.parametrize(
    ("wanted", "found"),
    [
        (["pyproject.toml", "pipfile"], "pipfile small"),
        (["./pyproject.toml[every.one]", "pyproject.toml"], "big small"),
        (["pyproject.toml[train]", "sub/pyproject.toml:dev"], "big further small"),
        (["pyproject.toml:dev"], "further grouped"),
        (["pyproject.toml:own", "."], ". big small"),
        (["uv.lock", "uv.lock:more"], "further small"),
        (["uv.lock[train]"], "big small"),
        (["uv.lock:own", "./sub"], "./sub big small"),
        (["beside-1.0-py3-none-any.whl"], "./beside-1.0-py3-none-any.whl"),
    ],
)
def test_what_is_named_of_the_repository_is_what_is_resolved(code, wanted, found):
    there = present.packages("pytorch")
    lock, _ = install.resolved(wanted, "pytorch", there, Uv(code, "", there))
    entries = (entry.split()[0] for entry in install._entries(lock))
    assert sorted(entry.removesuffix("==1.0") for entry in entries) == found.split()


def test_a_package_of_the_repository_is_installed_with_its_extra(code, tmp_path):
    (tmp_path / "workspace").mkdir()
    install.install([".[train]"], code, tmp_path / "workspace")
    files = {file.stem for file in Path(use.folder(tmp_path / "workspace")).glob("*.py")}
    assert files == {"mine", "small", "big", "sitecustomize"}


def test_what_builds_a_package_is_given_nothing_that_opens_servers(code, hostile, tmp_path):
    (tmp_path / "workspace").mkdir()
    git = {"GIT_CONFIG_COUNT": "1", "GIT_CONFIG_KEY_0": "a.b", "GIT_CONFIG_VALUE_0": "x"}
    install.install(["."], code, tmp_path / "workspace", git=git)
    given = json.loads(hostile.read_text())
    assert "x" not in given.values() and "WAREHOUSE" not in given
    assert (given["MAX_JOBS"], given["TOKENIZERS_PARALLELISM"]) == ("2", "false")


@pytest.mark.parametrize("where", ["UV_DEFAULT_INDEX", "UV_INDEX", "PIP_INDEX_URL", "index-url"])
def test_nor_the_password_of_the_index_that_it_is_from(
    index, code, hostile, untracked, tmp_path, monkeypatch, where
):
    index.login = "ada:hunter2"
    url = f"http://{index.login}@127.0.0.1:{index.server_port}"
    monkeypatch.delenv("UV_DEFAULT_INDEX")
    if where == "UV_INDEX":
        (tmp_path / "empty").mkdir()
        monkeypatch.setenv("UV_DEFAULT_INDEX", (tmp_path / "empty").as_uri())
        url = f"own={url}"
    if where == "index-url":
        (untracked / "secrets" / "mine").mkdir(parents=True)
        (untracked / "secrets" / "mine" / where).write_text(url)
    else:
        monkeypatch.setenv(where, url)
    build = (code / "pyproject.toml").read_text().partition("[build-system]")[2]
    (code / "pyproject.toml").write_text(f"{DYNAMIC}[build-system]{build}")
    (code / "backend.py").write_text(
        f"{(code / 'backend.py').read_text()}\ndef get_requires_for_build_wheel(settings=None):\n"
        "    return ['grouped']\n"
    )
    (tmp_path / "workspace").mkdir()
    install.install(
        [".", "small"], code, tmp_path / "workspace", secret="mine" if where == "index-url" else ""
    )
    files = {file.stem for file in Path(use.folder(tmp_path / "workspace")).glob("*.py")}
    assert files == {"mine", "small", "sitecustomize"}
    kept = "".join(file.read_text() for file in untracked.rglob(journal.PACKAGES))
    assert "hunter2" not in hostile.read_text() + kept and "small==1.0" in kept


def test_a_requirements_file_may_want_nothing_built(code, hostile, tmp_path):
    (code / "requirements.txt").write_text("--only-binary :all:\n.\n")
    (tmp_path / "workspace").mkdir()
    with pytest.raises(InputError, match=r"^requirements: mine has no wheel, and a requirements "):
        install.install(["requirements.txt"], code, tmp_path / "workspace")
    assert not hostile.exists()
