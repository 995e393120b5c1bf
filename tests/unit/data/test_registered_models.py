"""trireme/data/sources/registered.py: a base model from MLflow's registry."""

import shutil
from pathlib import Path

import pytest

from trireme.data import base_model
from trireme.data.description import described
from trireme.data.uri import Place, absolute, at_commit, place
from trireme.errors import InputError
from trireme.tracking import journal

pytestmark = pytest.mark.slow


@pytest.fixture
def client(mlflow_store, untracked, monkeypatch, tmp_path):
    """A registry with the model ``assistant``, whose first version is the champion."""
    import mlflow

    shutil.copy(mlflow_store, tmp_path / "mlflow.db")
    uri = f"sqlite:///{tmp_path / 'mlflow.db'}"
    monkeypatch.setenv("MLFLOW_TRACKING_URI", uri)
    monkeypatch.setenv("MLFLOW_DISABLE_TELEMETRY", "true")
    client = mlflow.MlflowClient(uri)
    client.create_registered_model("assistant")
    for number, weights in enumerate((b"first", b"second")):
        package = tmp_path / "packages" / str(number)
        for name, content in (
            ("MLmodel", b"flavors: {}"),
            ("adapter/adapter_config.json", b"{}"),
            ("components/tokenizer/tokenizer.json", b"of components"),
            ("components/tokenizer/vocab.txt", b"words"),
            ("model/config.json", b"{}"),
            ("model/model.safetensors", weights),
            ("model/tokenizer.json", b"of the model"),
        ):
            (package / name).parent.mkdir(parents=True, exist_ok=True)
            (package / name).write_bytes(content)
        tags = {"base_model.license": "mit"}
        client.create_model_version("assistant", package.as_uri(), tags=tags)
    client.set_registered_model_alias("assistant", "champion", "1")
    return client


def staged(uri, tmp_path):
    workspace = tmp_path / "run"
    shutil.rmtree(workspace, ignore_errors=True)
    workspace.mkdir()
    with journal.opened(workspace, "dataset"):
        base_model.stage_base_model(workspace, uri, "", {})
    tags = {}
    for each in journal.read(workspace, "dataset"):
        tags |= each.get("tags", {})
    folder = Path(base_model.folder(workspace))
    return {file.name: file.read_bytes() for file in folder.rglob("*") if file.is_file()}, tags


@pytest.mark.parametrize(
    ("uri", "version", "weights"),
    [
        ("models:/assistant", "1", b"first"),
        ("models:/assistant@champion", "1", b"first"),
        ("models:/assistant/2", "2", b"second"),
    ],
)
def test_it_is_staged_as_transformers_loads_it_with_its_lineage(
    client, tmp_path, uri, version, weights
):
    files, tags = staged(uri, tmp_path)
    assert files == {
        "config.json": b"{}",
        "model.safetensors": weights,
        "tokenizer.json": b"of the model",
        "vocab.txt": b"words",
    }
    assert tags["base_model.uri"] == uri
    assert tags["base_model.version"] == f"models:/assistant/{version}"
    assert tags["base_model.license"] == "mit"
    assert at_commit(uri, tags["base_model.version"]) == f"models:/assistant/{version}"


def test_an_alias_that_moves_is_another_base_model(client, tmp_path):
    _, before = staged("models:/assistant@champion", tmp_path)
    client.set_registered_model_alias("assistant", "champion", "2")
    files, after = staged("models:/assistant@champion", tmp_path)
    assert files["model.safetensors"] == b"second"
    assert before["base_model.fingerprint"] != after["base_model.fingerprint"]


@pytest.mark.parametrize(
    ("uri", "said"),
    [
        ("models:/helper", "there is no registered model 'helper'; there are assistant"),
        ("models:/assistant@best", "has no alias 'best'; it has champion"),
        ("models:/assistant/9", "has no version 9; it has 2, 1"),
        ("models:/assistant/latest", "must be models:/NAME, models:/NAME@ALIAS or models:/NAME"),
        ("models://assistant", "must be models:/NAME, models:/NAME@ALIAS or models:/NAME/VERSION"),
    ],
)
def test_one_that_is_not_there_is_refused_before_a_run(client, uri, said):
    with pytest.raises(InputError) as refused:
        base_model.check(uri, "", {})
    assert str(refused.value).startswith(f"base_model {uri!r}: ")
    assert said in str(refused.value)


def test_it_is_no_dataset_and_no_path():
    with pytest.raises(InputError, match=r"models:/ goes with a base model, not with a dataset"):
        described("models:/assistant", "", {})
    assert place("models:/assistant@best") == Place("models", "assistant", "", "best")
    assert absolute("models:/assistant") == "models:/assistant"
