"""A training program that is run by its file."""

import subprocess

import pytest

from trireme.pipeline.program import is_program, program_of


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """The folder where a person stands."""
    place = tmp_path / "project"
    place.mkdir()
    monkeypatch.chdir(place)
    return place


def write(folder, name, text="import torch\n"):
    (folder / name).parent.mkdir(parents=True, exist_ok=True)
    (folder / name).write_text(text)


def code(reference):
    found = program_of(reference).parameters
    return found["code_url"], found["code_directory"], found["entrypoint"]


def test_its_code_is_its_folder(folder):
    write(folder, "train.py")
    write(folder, "src/train.py")
    assert code("train.py") == (str(folder), "", "train.py")
    assert code("src/train.py") == (str(folder / "src"), "", "train.py")
    assert program_of("train.py").parameters["dataset_uri"] == "builtin://none"


def test_in_a_repository_paths_mean_what_they_mean_where_one_stands(folder, monkeypatch):
    subprocess.run(["git", "init", "--quiet"], check=True)
    write(folder, "team/model/train.py")
    assert code("team/model/train.py") == (str(folder), "", "team/model/train.py")
    monkeypatch.chdir(folder / "team")
    assert code("model/train.py") == (str(folder), "team", "model/train.py")
    assert code("../team/model/train.py") == (str(folder), "team", "model/train.py")
    monkeypatch.chdir(folder.parent)
    assert code("project/team/model/train.py") == (str(folder), "team/model", "train.py")


@pytest.mark.parametrize(
    ("text", "pipeline"),
    [
        ("import torch", "pytorch-training"),
        ("import sklearn", "pytorch-training"),
        ("import tensorflow as tf", "tensorflow-training"),
        ("def main():\n    from keras import layers", "tensorflow-training"),
        ("import tensorflow, torch", "pytorch-training"),
        ("from net import build", "tensorflow-training"),
        ("import os\nos.environ['KERAS_BACKEND'] = 'torch'\nimport keras", "pytorch-training"),
        ("from transformers import pipeline\npipeline('x')", "pytorch-training"),
    ],
)
def test_what_it_imports_tells_its_framework(folder, text, pipeline):
    write(folder, "net.py", "import keras\n")
    write(folder, "train.py", text)
    assert program_of("train.py").pipeline == pipeline


@pytest.mark.parametrize(
    "text",
    [
        "from kfp import dsl\n@dsl.pipeline\ndef churn(): pass",
        "from ours import pipeline\n@pipeline(name='x')\ndef churn(): pass",
        "from kfp import dsl\nchurn = dsl.pipeline(print)",
    ],
)
def test_a_file_with_pipelines_is_no_program(folder, text):
    write(folder, "churn.py", text)
    assert not is_program(folder / "churn.py")
    assert program_of("churn.py") is None


def test_what_is_no_program_is_left_to_who_loads_pipelines(folder):
    write(folder, "broken.py", "x = (\n")
    write(folder, "p.yaml", "a: 1\n")
    for reference in ("broken.py", "p.yaml", "nothing.py", "pytorch-training", "churn.py:churn"):
        assert program_of(reference) is None
