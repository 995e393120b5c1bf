"""trireme/data/base_model.py."""

import json
from pathlib import Path

import pytest

from trireme.data import base_model
from trireme.data.uri import at_commit
from trireme.errors import InputError
from trireme.tracking import journal


@pytest.fixture
def weights(tmp_path):
    """A folder with a model."""
    folder = tmp_path / "weights"
    folder.mkdir()
    (folder / "model.safetensors").write_bytes(b"abc")
    return folder


def test_it_is_staged_beside_the_data_and_recorded_as_a_base_model(weights, tmp_path):
    workspace = tmp_path / "run"
    workspace.mkdir()
    assert base_model.folder(workspace) == ""
    with journal.opened(workspace, "dataset"):
        staged = base_model.stage_base_model(workspace, str(weights), "", {})
    assert Path(base_model.folder(workspace), "model.safetensors").read_bytes() == b"abc"
    records = journal.read(workspace, "dataset")
    said = {name: value for each in records for name, value in each.get("tags", {}).items()}
    expected = {"base_model.uri": str(weights), "base_model.fingerprint": staged.fingerprint}
    assert said == expected
    (used,) = (each["dataset"] for each in records if "dataset" in each)
    assert (used["uri"], used["context"]) == (str(weights), "base_model")


@pytest.mark.parametrize(
    ("card", "license"),
    [
        ("---\nlicense: apache-2.0\n---\n# A\n", "apache-2.0"),
        ("---\nlicense: [mit, other]\n---\n", "mit, other"),
        ("---\ntags: [a]\n---\n", ""),
        ("---\nlicense: {\n---\n", ""),
        ("# A model\n", ""),
        (None, ""),
    ],
)
def test_the_license_is_that_of_its_card(weights, tmp_path, card, license):
    if card is not None:
        (weights / "README.md").write_text(card)
    workspace = tmp_path / "run"
    workspace.mkdir()
    with journal.opened(workspace, "dataset"):
        base_model.stage_base_model(workspace, str(weights), "", {})
    said = {}
    for each in journal.read(workspace, "dataset"):
        said |= each.get("tags", {})
    assert said.get("base_model.license", "") == license


@pytest.mark.parametrize(
    ("uri", "secret", "options", "said"),
    [
        ("/does/not/exist", "", {}, "base_model '/does/not/exist': there is no such file"),
        ("hf://org", "", {}, "base_model 'hf://org': must be hf://org/name"),
        ("/", "Keys", {}, "base_model_secret"),
        ("hf://org/name", "", {"includes": []}, "base_model_options.includes"),
        ("pvc://models/net", "", {}, "base_model 'pvc://models/net': is mounted, which needs"),
    ],
)
def test_bad_input_names_the_parameters_of_the_base_model(uri, secret, options, said):
    with pytest.raises(InputError) as refused:
        base_model.check(uri, secret, options)
    assert said in str(refused.value)
    assert "dataset_" not in str(refused.value)


def test_on_a_cluster_its_claim_has_to_be_mounted():
    base_model.check("pvc://models/net", "", {}, claims=["models"])
    with pytest.raises(InputError, match="base_model 'pvc://models/net': the claim is not mounted"):
        base_model.check("pvc://models/net", "", {}, claims=[])


def test_its_secret_is_one_of_its_own(monkeypatch, tmp_path):
    from trireme.data.description import described

    monkeypatch.setenv("TRIREME_DATASET_TOKEN", "of the data")
    monkeypatch.setenv("TRIREME_BASE_MODEL_TOKEN", "of the model")
    found = described("hf://org/name", "trireme-base-model", {}, base_model.BaseModel)
    assert (found.secret, found.purpose) == ("trireme-base-model", "base_model")


@pytest.mark.parametrize(
    ("uri", "pinned"),
    [
        ("hf://org/net", "hf://org/net@abc"),
        ("hf://org/net@main/sub/a.txt", "hf://org/net@abc/sub/a.txt"),
        ("hf://datasets/org/net@v1", "hf://datasets/org/net@abc"),
    ],
)
def test_a_repository_is_named_at_a_commit(uri, pinned):
    assert at_commit(uri, "abc") == pinned


def test_a_saved_dataset_is_a_base_model_too(tmp_path, monkeypatch):
    from trireme.pipeline import saved

    options = {"include": ["*.json"]}
    content = {"datasets": {"net": {"uri": "hf://org/net", "options": options, "mount": "/x"}}}
    (tmp_path / "trireme.yaml").write_text(json.dumps(content))
    monkeypatch.chdir(tmp_path)
    found = saved.expanded({"base_model": "@net", "workers": 1}, {"base_model", "workers"})
    assert found == {"base_model": "hf://org/net", "base_model_options": options, "workers": 1}
