"""trireme init: an example is copied, or trireme.yaml is written; nothing is overwritten."""

import pytest
import yaml

from trireme.pipeline import beginning


@pytest.fixture
def here(tmp_path, monkeypatch, trireme):
    monkeypatch.chdir(tmp_path)
    return trireme


def test_an_example_is_copied_with_all_its_files(here, tmp_path):
    status, output, errors = here("init", "--example", "ci")
    assert (status, errors) == (0, "")
    assert "\n  cd ci\n" in output and "\n  python data.py\n" in output
    copied = {path.relative_to(tmp_path / "ci") for path in (tmp_path / "ci").rglob("*")}
    source = beginning._folder() / "ci"
    assert copied == {path.relative_to(source) for path in source.rglob("*")}
    assert (tmp_path / "ci" / ".github" / "workflows" / "train.yml").exists()


def test_examples_are_listed(here):
    status, output, _ = here("init", "--example", "list")
    assert status == 0
    assert [line.split()[0] for line in output.splitlines()] == list(beginning.examples())


@pytest.mark.parametrize(
    "words", [["mine", "--example", "keras"], ["mine/f", "--example", "keras"]]
)
def test_what_is_there_is_not_overwritten(here, tmp_path, words):
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "f").write_text("of mine")
    status, output, errors = here("init", *words)
    assert (status, output) == (2, "")
    assert "is there already, and is not overwritten" in errors
    assert [path.name for path in (tmp_path / "mine").iterdir()] == ["f"]


def test_an_example_that_there_is_not_is_refused(here, tmp_path):
    status, _, errors = here("init", "--example", "mxnet")
    assert status == 2
    assert errors.startswith("error: --example 'mxnet': must be one of ci, gitops, ")
    assert [*tmp_path.iterdir()] == []


@pytest.mark.parametrize(
    ("text", "pipeline"),
    [
        ("import torch", "pytorch-training"),
        ("import keras", "tensorflow-training"),
        ("import sklearn", "pytorch-training"),
    ],
)
def test_the_framework_of_the_program_that_is_there_is_told(here, tmp_path, text, pipeline):
    (tmp_path / "fit.py").write_text(text)
    (tmp_path / "data").mkdir()
    status, output, errors = here("init")
    assert (status, errors) == (0, "")
    assert f"the pipeline {pipeline} trains with it" in output
    assert "\n  trireme run fit.py --data @data\n" in output
    kept = yaml.safe_load((tmp_path / "trireme.yaml").read_text())
    assert kept == {"code": {"code": {"url": "./"}}, "datasets": {"data": {"uri": "./data"}}}
    # What was written is what the other commands read.
    status, output, errors = here("config", "list")
    assert (status, errors) == (0, "")
    assert {line.split()[1] for line in output.splitlines()[1:]} == {"code", "data"}
    status, output, errors = here("init")
    assert (status, output) == (2, "")
    assert errors == "error: trireme.yaml: is there already, and is not overwritten\n"


@pytest.mark.parametrize(
    ("files", "words"),
    [
        ([], "there is no training program"),
        (["a.py", "b.py"], "there are several programs, a.py, b.py"),
    ],
)
def test_a_folder_without_one_program_is_told(here, tmp_path, files, words):
    for name in files:
        (tmp_path / name).write_text("import torch")
    status, _, errors = here("init")
    assert status == 2 and words in errors
    assert not (tmp_path / "trireme.yaml").exists()


def test_what_to_type_in_another_folder_begins_by_going_there(here, tmp_path):
    (tmp_path / "my mine").mkdir()
    (tmp_path / "my mine" / "train.py").write_text("import torch")
    output = here("init", "my mine")[1]
    assert "\n  cd 'my mine'\n  trireme run train.py --data FOLDER\n" in output
    assert "@data" not in (tmp_path / "my mine" / "trireme.yaml").read_text()


def test_train_py_is_the_program_of_several(here, tmp_path):
    for name in ("data.py", "train.py"):
        (tmp_path / name).write_text("import torch")
    assert "train.py: PyTorch" in here("init")[1]
