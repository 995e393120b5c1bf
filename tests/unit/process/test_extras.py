"""What an extra would bring and is not installed: one sentence, whatever the command."""

import importlib.metadata
import json
import subprocess
import sys
from pathlib import Path

import pytest

import trireme
from trireme.errors import InputError
from trireme.process import extras

# The command line where some packages are not installed.
WITHOUT = """
import sys
from importlib.machinery import PathFinder

class Seen:
    def find_spec(name, path=None, target=None):
        if name.partition(".")[0] not in hidden:
            return PathFinder.find_spec(name, path, target)
    find_distributions = PathFinder.find_distributions
    invalidate_caches = PathFinder.invalidate_caches

hidden, sys.argv = sys.argv[1].split(","), ["trireme", *sys.argv[2:]]
sys.meta_path[sys.meta_path.index(PathFinder)] = Seen

from trireme.cli import app as cli
cli.main()
"""


@pytest.mark.parametrize(
    ("hidden", "command", "said"),
    [
        ("numpy", "deploy classifier", "numpy is not installed: {models}"),
        ("sqlalchemy", "serve classifier", "sqlalchemy is not installed: {models}"),
        ("sqlalchemy", "ui", "sqlalchemy is not installed: {models}"),
        ("sqlalchemy", "run pytorch-training", "sqlalchemy is not installed: {models}"),
        ("tensorboard", "tensorboard mine", "tensorboard is not installed: {tensorboard}"),
        ("torch", "run pytorch-training", "install it with: {pytorch}"),
    ],
)
def test_a_command_says_what_to_install(untracked, hidden, command, said):
    done = subprocess.run(
        [sys.executable, "-c", WITHOUT, hidden, *command.split()],
        cwd=Path(trireme.__file__).parents[1],
        capture_output=True,
        text=True,
        timeout=240,
    )
    assert done.returncode == 2
    assert done.stderr.startswith("error: ") and done.stderr.count("\n") == 1
    brought = {extra: extras.installing(extra) for extra in ("models", "pytorch", "tensorboard")}
    assert said.format_map(brought) in done.stderr


@pytest.mark.parametrize(
    ("module", "extra"),
    [
        ("onnxruntime", "models"),
        ("sklearn", "models"),
        ("torch", "pytorch"),
        ("tensorflow", "tensorflow"),
        ("mpi4py", "mpi"),
        ("psycopg2", "server"),
        ("typer", ""),
        ("churn", ""),
    ],
)
def test_the_extra_that_brings_a_module_is_known(module, extra):
    assert extras.of(module) == extra


def test_it_is_named_where_a_part_of_it_is_missing():
    with pytest.raises(InputError, match="sklearn is not installed"), extras.explained():
        raise ModuleNotFoundError(name="sklearn.metrics")


def test_what_no_extra_brings_is_an_error_as_any_other():
    with pytest.raises(ModuleNotFoundError), extras.explained():
        raise ModuleNotFoundError(name="churn.features")


@pytest.mark.parametrize(
    ("origin", "said"),
    [
        (None, "pip install 'trireme-pipelines[models]'"),
        (
            {"url": "file:///home/me/my%20code", "dir_info": {"editable": True}},
            "pip install -e '/home/me/my code[models]'",
        ),
        ({"url": "file:///home/me/code", "dir_info": {}}, "pip install '/home/me/code[models]'"),
        (
            {"url": "https://example.org/trireme.whl", "archive_info": {}},
            "pip install 'trireme-pipelines[models] @ https://example.org/trireme.whl'",
        ),
        (
            {"url": "https://example.org/it.git", "vcs_info": {"vcs": "git", "commit_id": "ab12"}},
            "pip install 'trireme-pipelines[models] @ git+https://example.org/it.git@ab12'",
        ),
    ],
)
def test_an_extra_is_brought_from_where_this_copy_was_installed(monkeypatch, origin, said):
    class Installed:
        def read_text(self, name):
            assert name == "direct_url.json"
            return origin and json.dumps(origin)

    monkeypatch.setattr(importlib.metadata, "distribution", lambda name: Installed())
    assert extras.installing("models") == said
