"""A run of the reference trainer with two processes, made again by ``trireme reproduce``."""

import shutil
import subprocess
from pathlib import Path

import pytest
import torch

from trireme.data.staging import stage

TRAINER = Path(__file__).resolve().parents[2] / "trainers" / "pytorch_classifier.py"

pytestmark = pytest.mark.slow


class Original:
    """A run, and what it was made from."""

    def __init__(self, trireme, data):
        self.trireme, self.data = trireme, data
        (self.run,) = trireme.parents()
        training = trireme.nested(self.run)["train"]
        self.model = Path(training.info.artifact_uri, "model", "model.pt")

    def reproduce(self, wanted=None):
        """Returns how the command ended and the MLflow runs that it opened."""
        before = {run.info.run_id for run in self.trireme.parents()}
        result = self.trireme.call("reproduce", wanted or self.run.info.run_id)
        assert self.trireme.wait_for_no_processes() == []
        opened = [run for run in self.trireme.parents() if run.info.run_id not in before]
        return result, opened


@pytest.fixture(scope="module")
def original(tmp_path_factory, trireme_type, mlflow_store):
    """A run of what was not committed; the repository has another commit since."""
    trireme = trireme_type(tmp_path_factory.mktemp("home"))
    shutil.copy(mlflow_store, trireme.home)
    repository, data = tmp_path_factory.mktemp("code"), tmp_path_factory.mktemp("data") / "digits"
    stage("builtin://digits", data)
    (data / "test.npz").unlink()  # only how it is trained matters here
    program = repository / TRAINER.name
    for module in TRAINER.parent.glob("*.py"):
        shutil.copy(module, repository)
    git(repository, "init", "--quiet")
    works = program.read_text()
    program.write_text("raise SystemExit('committed')")
    git(repository, "add", ".")
    git(repository, "commit", "--quiet", "-m", "First")
    program.write_text(works)

    link = trireme.home / "code"
    link.symlink_to(repository)
    given = {
        "code_url": "code",
        "entrypoint": TRAINER.name,
        "args": '["--epochs", "3"]',
        "dataset_uri": data,
        "seed": 11,
    }
    flags = [word for name, value in given.items() for word in ("-p", f"{name}={value}")]
    result = trireme.call("run", "pytorch-training", *flags)
    assert result.returncode == 0, result.stderr

    link.unlink()
    program.write_text("raise SystemExit('a later commit')")
    git(repository, "commit", "--quiet", "--all", "-m", "Second")
    return Original(trireme, data)


def git(directory, *arguments):
    identity = ["-c", "user.name=A", "-c", "user.email=a@example.org"]
    subprocess.run(["git", "-C", str(directory), *identity, *arguments], check=True)


@pytest.fixture
def restored(original):
    """Puts the dataset and the recorded model back."""
    files = [original.data / "train.npz", original.model]
    before = [file.read_bytes() for file in files]
    yield original
    for file, content in zip(files, before, strict=True):
        file.write_bytes(content)


def test_the_same_commit_data_and_seed_give_the_same_bits(original):
    assert original.run.data.tags["git.dirty"] == "true"
    assert original.run.data.tags["git.bundle"] == "code.pack"
    result, (again,) = original.reproduce(original.run.info.run_name)
    assert result.returncode == 0, result.stderr
    assert result.stderr == ""
    sentence = "is bit-identical, 6 tensors with 29,066 parameters"
    assert f"{sentence}, as that of {original.run.info.run_name}" in result.stdout

    assert again.data.tags["reproduces"] == original.run.info.run_id
    assert again.data.tags["reproduction"] == sentence
    assert again.data.tags["git.commit"] == original.run.data.tags["git.commit"]
    assert again.data.params["seed"] == "11"
    assert again.info.experiment_id == original.run.info.experiment_id
    steps = original.trireme.nested(again)
    assert set(steps) == {"checkout", "dataset", "train", "finish"}
    assert {run.info.status for run in [again, *steps.values()]} == {"FINISHED"}
    assert original.trireme.client.search_registered_models() == []


def test_a_model_that_differs_is_told_with_the_tensor_and_the_distance(restored):
    saved = torch.load(restored.model, weights_only=True)
    saved["state_dict"]["head.bias"][3] += 0.5
    torch.save(saved, restored.model)
    result, (again,) = restored.reproduce()
    assert result.returncode == 1
    (error,) = result.stderr.splitlines()
    assert "differs in 1 of 6 tensors, most in model.pt state_dict.head.bias" in error
    assert "is up to 0.5 away" in error
    assert again.data.tags["reproduction"].startswith("differs in 1 of 6 tensors")


def test_data_that_has_changed_is_refused_before_anything_is_trained(restored):
    with (restored.data / "train.npz").open("ab") as file:
        file.write(b"more")
    result, opened = restored.reproduce()
    assert result.returncode == 1
    (error,) = result.stderr.splitlines()
    assert f"the dataset {restored.data} has changed" in error
    recorded = restored.run.data.tags["dataset.fingerprint"]
    assert f"was trained on {recorded}, and it is sha256:" in error
    assert error.count("sha256:") == 2
    assert error.count(recorded) == 1
    assert opened == []


def test_a_run_of_something_else_is_refused(original):
    client = original.trireme.client
    other = client.create_run(original.run.info.experiment_id, run_name="theirs").info.run_id
    try:
        result, opened = original.reproduce(other)
    finally:
        client.delete_run(other)
    assert result.returncode == 2
    assert result.stderr == f"error: run theirs ({other}) is not a run of a Trireme pipeline\n"
    assert (result.stdout, opened) == ("", [])
