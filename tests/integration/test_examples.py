"""examples/: what their pages say to type gives what they say one sees."""

import importlib.util
import os
import re
import shutil
import stat
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

ROOT = Path(__file__).parents[2]
EXAMPLES = sorted(page.parent.name for page in (ROOT / "examples").glob("*/README.md"))
NEEDS = {
    "hugging-face": "transformers",
    "keras": "tensorflow",
    "lightning": "lightning",
    "xgboost": "xgboost",
}
BLOCK = re.compile(r"^```console\n(.*?)^```", re.MULTILINE | re.DOTALL)


@pytest.fixture
def run(tmp_path, monkeypatch):
    """Runs a line of a shell where an example is; returns what it has said, and its status."""
    programs = tmp_path / "programs"
    programs.mkdir()
    for name, words in (("trireme", "-m trireme"), ("python", "")):
        program = programs / name
        program.write_text(f'#!/bin/sh\nexec {sys.executable} {words} "$@"\n')
        program.chmod(program.stat().st_mode | stat.S_IXUSR)
    for name in ("KUBECONFIG", "KF_PIPELINES_ENDPOINT", "KFP_ENDPOINT"):
        monkeypatch.delenv(name, raising=False)
    here = {
        "PATH": f"{programs}:{os.environ['PATH']}",
        "PYTHONPATH": str(ROOT),
        "TRIREME_HOME": str(tmp_path / "home"),
        "HOME": str(tmp_path),
        "COLUMNS": "100",
    }
    kept = {name: text for name, text in os.environ.items() if not name.startswith("MLFLOW_")}

    def run(line, folder):
        done = subprocess.run(
            ["sh", "-c", line], cwd=folder, env=kept | here, capture_output=True, text=True
        )
        return done.stdout + done.stderr, done.returncode

    return run


def typed(page):
    """Yields each line that a page says to type, and the lines that one sees then."""
    for block in BLOCK.findall(page.read_text()):
        for part in re.split(r"^\$ ", block, flags=re.MULTILINE)[1:]:
            line, *seen = part.splitlines()
            yield line, [each for each in seen if each.strip()]


def is_seen(line):
    """Returns what a line of a page means: … stands for anything, spaces for any number."""
    words = [re.escape(word).replace("…", ".*") for word in line.split()]
    return re.compile(r"\s*" + r"\s+".join(words) + r"\s*").fullmatch


@pytest.mark.slow
@pytest.mark.parametrize("name", EXAMPLES)
def test_an_example_does_what_its_page_says(name, run, tmp_path):
    if (module := NEEDS.get(name)) and not importlib.util.find_spec(module):
        pytest.skip(f"needs {module}")
    said, status = run(f"trireme init --example {name}", tmp_path)
    assert status == 0, said
    folder = tmp_path / name
    steps = list(typed(folder / "README.md"))
    assert steps
    for line, expected in steps:
        said, status = run(line, folder)
        assert status == 0, said
        left = iter(said.splitlines())
        for each in expected:
            assert any(map(is_seen(each), left)), f"{each!r} is not, or not there, in:\n{said}"


@pytest.mark.parametrize("name", EXAMPLES)
def test_programs_of_examples_know_nothing_of_trireme(name):
    for file in (ROOT / "examples" / name).rglob("*.py"):
        assert file.name == "pipeline.py" or "trireme" not in file.read_text().lower(), file


def test_the_page_of_examples_names_each():
    text = (ROOT / "examples" / "README.md").read_text()
    assert re.findall(r"^\| \[([\w-]+)\]", text, re.MULTILINE) == EXAMPLES


@pytest.mark.slow
def test_what_ci_runs_works(run, tmp_path):
    """But for what installs packages, or asks a cluster."""
    shutil.copytree(ROOT / "examples" / "ci", tmp_path / "ci")
    github = yaml.safe_load((tmp_path / "ci" / ".github/workflows/train.yml").read_text())
    gitlab = yaml.safe_load((tmp_path / "ci" / ".gitlab-ci.yml").read_text())
    lines = [step["run"] for step in github["jobs"]["train"]["steps"] if "run" in step]
    assert lines == ["pip install -r requirements.txt", *gitlab["train"]["script"]]
    for line in lines[1:]:
        said, status = run(line, tmp_path / "ci")
        assert status == 0, said


@pytest.mark.slow
@pytest.mark.skipif(not shutil.which("kubectl"), reason="kubectl is not installed")
def test_what_gitops_applies_is_whole(run, tmp_path):
    shutil.copytree(ROOT / "examples" / "gitops", tmp_path / "gitops")
    for line, _ in typed(tmp_path / "gitops" / "README.md"):
        assert run(line, tmp_path / "gitops")[1] == 0
    built = subprocess.run(
        ["kubectl", "kustomize", tmp_path / "gitops" / "cluster"], capture_output=True, check=True
    )
    made = {each["kind"]: each for each in yaml.safe_load_all(built.stdout)}
    assert made.keys() == {"WorkflowTemplate", "CronWorkflow"}
    assert {each["metadata"]["namespace"] for each in made.values()} == {"trireme"}
    reference = made["CronWorkflow"]["spec"]["workflowSpec"]["workflowTemplateRef"]
    assert reference == {"name": made["WorkflowTemplate"]["metadata"]["name"]}
