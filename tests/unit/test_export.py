"""components/export/export.py: what it writes answers as the model does, or is not written."""

import sys

import numpy as np
import onnxruntime
import pytest
import torch

from components.errors import InputError, StepFailed, TriremeError
from components.export import export as exporting
from components.export.export import export
from components.trainers.pytorch import classifier

pytestmark = pytest.mark.slow

NETWORKS = """
import random
import torch
from torch import nn

class Moody(nn.Module):
    '''Draws a number in Python, which an exported program has as a constant.'''
    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(4, 3)
    def forward(self, x):
        return self.layer(x) + random.uniform(1, 100)

class Branching(nn.Module):
    '''Takes another way by the content of its input, which cannot be exported.'''
    def forward(self, x):
        return x if float(x.sum()) > 0 else -x

class NotANumber(nn.Module):
    def forward(self, x):
        return x * float("nan")
"""


@pytest.fixture
def data(tmp_path):
    directory = tmp_path / "data"
    directory.mkdir()
    random = np.random.default_rng(0)
    x = random.normal(size=(100, 4)).astype(np.float32)
    np.savez(directory / "test.npz", x=x, y=np.zeros(100, dtype=int))
    return directory


@pytest.fixture
def code(tmp_path):
    directory = tmp_path / "code"
    directory.mkdir()
    (directory / "odd_networks.py").write_text(NETWORKS)
    yield directory
    sys.modules.pop("odd_networks", None)


@pytest.fixture
def destination(tmp_path):
    return tmp_path / "workspace" / "exported"


@pytest.fixture(scope="module")
def exported(tmp_path_factory):
    """The reference model, exported: where, the largest difference, and the model itself."""
    directory = tmp_path_factory.mktemp("reference")
    torch.manual_seed(0)
    network = classifier.Classifier(channels=1, classes=10, width=8).eval()
    (directory / "model").mkdir()
    (directory / "data").mkdir()
    saved = {
        "factory": "classifier:Classifier",
        "arguments": {"channels": 1, "classes": 10, "width": 8},
        "state_dict": network.state_dict(),
    }
    torch.save(saved, directory / "model" / "model.pt")
    x = np.random.default_rng(0).uniform(size=(100, 1, 8, 8)).astype(np.float32)
    np.savez(directory / "data" / "test.npz", x=x, y=np.zeros(100, dtype=int))
    code = exporting.Path(classifier.__file__).parent
    result = export(
        directory / "model",
        directory / "data",
        code,
        "classifier.py",
        "",
        "reference",
        directory / "workspace" / "exported",
    )
    yield directory / "workspace" / "exported", result, network
    sys.modules.pop("classifier", None)


def images(samples: int) -> np.ndarray:
    random = np.random.default_rng(samples)
    return random.uniform(size=(samples, 1, 8, 8)).astype(np.float32)


def answers(network: torch.nn.Module, inputs: np.ndarray) -> np.ndarray:
    with torch.inference_mode():
        return network(torch.from_numpy(inputs)).numpy()


def test_the_difference_is_below_the_tolerance_and_only_the_files_are_there(exported):
    directory, result, network = exported
    assert result.path == str(directory)
    assert 0 <= result.difference <= exporting.TOLERANCE
    assert {file.name for file in directory.iterdir()} == {"model.pt2", "model.onnx", "sample.npz"}
    assert [path.name for path in directory.parent.iterdir()] == ["exported"]
    with np.load(directory / "sample.npz") as sample:
        assert len(sample["inputs"]) == 2
        assert np.allclose(sample["outputs"], answers(network, sample["inputs"]), atol=1e-5)


@pytest.mark.parametrize("samples", [1, 2, 3, 17, 300])
def test_the_onnx_file_takes_any_batch_size(exported, samples):
    directory, _, network = exported
    session = onnxruntime.InferenceSession(
        directory / "model.onnx", providers=["CPUExecutionProvider"]
    )
    assert [item.name for item in session.get_inputs()] == ["input"]
    found = session.run(["output"], {"input": images(samples)})[0]
    assert np.allclose(found, answers(network, images(samples)), atol=1e-4)


@pytest.mark.parametrize("samples", [1, 2, 3, 17, 300])
def test_the_reloaded_program_takes_any_batch_size(exported, samples):
    directory, _, network = exported
    program = torch.export.load(directory / "model.pt2").module()
    found = answers(program, images(samples))
    assert np.allclose(found, answers(network, images(samples)), atol=1e-4)


def test_the_onnx_file_holds_its_weights(exported, tmp_path):
    # Alone in another folder, without anything beside it.
    directory, _, network = exported
    (tmp_path / "moved.onnx").write_bytes((directory / "model.onnx").read_bytes())
    session = onnxruntime.InferenceSession(
        tmp_path / "moved.onnx", providers=["CPUExecutionProvider"]
    )
    assert np.allclose(
        session.run(None, {"input": images(2)})[0], answers(network, images(2)), atol=1e-4
    )


def refuse(tmp_path, data, code, destination, network, state, kind=StepFailed) -> str:
    """Exports a model that must be refused; returns what is said, nothing must be left."""
    (tmp_path / "model").mkdir()
    saved = {"factory": f"odd_networks:{network}", "state_dict": state}
    torch.save(saved, tmp_path / "model" / "model.pt")
    with pytest.raises(kind) as caught:
        export(tmp_path / "model", data, code, "train.py", "", "odd", destination)
    message = str(caught.value)
    assert "\n" not in message
    return message


def left(destination) -> list[str]:
    parent = destination.parent
    return [path.name for path in parent.iterdir()] if parent.exists() else []


def test_a_file_that_answers_otherwise_is_refused(tmp_path, data, code, destination):
    state = {f"layer.{name}": x for name, x in torch.nn.Linear(4, 3).state_dict().items()}
    said = refuse(tmp_path, data, code, destination, "Moody", state)
    assert "does not answer as the trained model does" in said
    assert not destination.exists()
    assert left(destination) == []


def test_a_model_that_cannot_be_exported_is_refused(tmp_path, data, code, destination):
    said = refuse(tmp_path, data, code, destination, "Branching", {})
    assert said.startswith("torch.export cannot export the model: ")
    assert len(said) > len("torch.export cannot export the model: ")
    assert left(destination) == []


def test_answers_that_are_no_numbers_are_refused(tmp_path, data, code, destination):
    assert "does not answer" in refuse(tmp_path, data, code, destination, "NotANumber", {})
    assert left(destination) == []


def test_a_failure_leaves_what_was_exported_before(tmp_path, data, code, destination):
    destination.mkdir(parents=True)
    (destination / "model.onnx").write_text("of before")
    refuse(tmp_path, data, code, destination, "NoSuchNetwork", {}, kind=TriremeError)
    assert (destination / "model.onnx").read_text() == "of before"
    assert left(destination) == ["exported"]


def test_shapes_are_compared_too():
    with pytest.raises(StepFailed, match=r"shape \(2, 3\), the trained model in \(3, 2\)"):
        exporting._compare("model.onnx", np.zeros((2, 3)), np.zeros((3, 2)))


@pytest.mark.parametrize(
    ("scale", "difference", "accepted"),
    [(1.0, 0.9e-4, True), (1.0, 1.1e-4, False), (100.0, 0.9e-2, True), (0.01, 0.9e-4, True)],
)
def test_the_tolerance_grows_with_the_answers(scale, difference, accepted):
    expected = np.full((2, 2), scale)
    if accepted:
        assert exporting._compare("x", expected + difference, expected) == pytest.approx(difference)
    else:
        with pytest.raises(StepFailed):
            exporting._compare("x", expected + difference, expected)


@pytest.mark.parametrize("name", ["classifier", "my model", "a.b-c_d", "modèle"])
def test_names_that_the_registry_takes_are_accepted(name):
    exporting.check(name)


@pytest.mark.parametrize("name", ["", "  ", "a/b", "a:b", "a\nb", "it's", 'a"b', "a\x00b"])
def test_names_that_the_registry_does_not_take_are_refused(name):
    with pytest.raises(InputError, match="model_name"):
        exporting.check(name)
