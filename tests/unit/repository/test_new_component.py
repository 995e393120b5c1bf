"""make component: what it makes is a step that works, and is as the other ones are."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]


@pytest.fixture
def tree(tmp_path):
    """A copy of the tree that a component can be added to."""
    for name in ("components", "docs", "pipelines", "trainers", "trireme"):
        ignored = shutil.ignore_patterns("__pycache__")
        shutil.copytree(ROOT / name, tmp_path / name, symlinks=True, ignore=ignored)
    (tmp_path / "tests" / "unit").mkdir(parents=True)
    tests = [f"tests/{name}.py" for name in ("conftest", "tracking_uri", "unit/conftest")]
    for file in ("Makefile", "pyproject.toml", *tests):
        shutil.copy(ROOT / file, tmp_path / file)
    return tmp_path


def made(tree, name):
    words = ["make", "component", f"NAME={name}"]
    return subprocess.run(words, cwd=tree, capture_output=True, text=True)


@pytest.mark.slow
def test_what_it_makes_passes_its_test_and_the_linter(tree):
    assert made(tree, "one_of_a_test").returncode == 0
    environment = os.environ | {"PYTHONPATH": str(tree)}
    for words in (
        ["pytest", "-q", "tests/unit/one_of_a_test/test_one_of_a_test.py"],
        ["ruff", "check", "."],
    ):
        done = subprocess.run(
            [sys.executable, "-m", *words],
            cwd=tree,
            env=environment,
            capture_output=True,
            text=True,
        )
        assert done.returncode == 0, done.stdout


@pytest.mark.parametrize("name", ["", "Label", "two words", "dataset", "a/b"])
def test_a_name_that_cannot_be_is_refused(tree, name):
    before = sorted((tree / "components").iterdir())
    done = made(tree, name)
    assert done.returncode == 2
    assert done.stderr.startswith("error: ")
    assert sorted((tree / "components").iterdir()) == before
