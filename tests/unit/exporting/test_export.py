"""trireme/exporting/export.py: what it writes answers as the model does, or is not written."""

import os
import subprocess
import sys

import numpy as np
import onnxruntime
import pytest
import torch

from trireme.errors import InputError, StepFailed, TriremeError
from trireme.evaluation.source import Source
from trireme.exporting import agreement
from trireme.exporting import export as exporting
from trireme.exporting.export import export
from trireme.exporting.isolated import STEP, isolated
from trireme.models.trained import TrainedModel
from trireme.tracking import journal
from trireme.tracking.registry import check_name
from trireme.trainers import pytorch_classifier

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

class Spectral(nn.Module):
    '''PyTorch can export it, ONNX has no eigenvalues.'''
    def forward(self, x):
        return torch.linalg.eigvalsh(x.unsqueeze(-1) * x.unsqueeze(-2))

class Several(nn.Module):
    def forward(self, x):
        return x, x + 1

class Named(nn.Module):
    def forward(self, x):
        return {"logits": x}

class Regression(nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.LayerNorm(8), nn.Linear(8, 1))
        self.bfloat16()
    def forward(self, x):
        return self.layers(x).squeeze(1)

class Language(nn.Module):
    '''A table of 32 positions limits how long sequences may be.'''
    def __init__(self):
        super().__init__()
        self.tokens = nn.Embedding(50, 8)
        self.positions = nn.Parameter(torch.randn(32, 8))
        self.head = nn.Linear(8, 50)
    def forward(self, tokens):
        x = (self.tokens(tokens) + self.positions[: tokens.shape[1]]).unsqueeze(1)
        x = nn.functional.scaled_dot_product_attention(x, x, x, is_causal=True)
        return self.head(x.squeeze(1))

class Choosing(Language):
    '''Short sequences take another way, of which only one is exported.'''
    def forward(self, tokens):
        return super().forward(tokens) if tokens.shape[1] > 10 else self.head(self.tokens(tokens))

@torch.library.custom_op("odd::double", mutates_args=())
def double(x: torch.Tensor) -> torch.Tensor:
    return x * 2

double.register_fake(torch.empty_like)

class Doubling(nn.Module):
    '''Needs an operation that this module registers.'''
    def forward(self, x):
        return double(x)
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
    network = pytorch_classifier.Classifier(channels=1, classes=10, width=8).eval()
    (directory / "model").mkdir()
    (directory / "data").mkdir()
    saved = {
        "factory": "pytorch_classifier:Classifier",
        "arguments": {"channels": 1, "classes": 10, "width": 8},
        "state_dict": network.state_dict(),
    }
    torch.save(saved, directory / "model" / "model.pt")
    x = np.random.default_rng(0).uniform(size=(100, 1, 8, 8)).astype(np.float32)
    np.savez(directory / "data" / "test.npz", x=x, y=np.zeros(100, dtype=int))
    code = exporting.Path(pytorch_classifier.__file__).parent
    result = export(
        Source(directory / "model", code, "pytorch_classifier.py"),
        directory / "data",
        "reference",
        directory / "workspace" / "exported",
    )
    yield directory / "workspace" / "exported", result, network
    sys.modules.pop("pytorch_classifier", None)


def images(samples: int) -> np.ndarray:
    random = np.random.default_rng(samples)
    return random.uniform(size=(samples, 1, 8, 8)).astype(np.float32)


def answers(network: torch.nn.Module, inputs: np.ndarray) -> np.ndarray:
    with torch.inference_mode():
        return network(torch.from_numpy(inputs)).numpy()


def test_the_difference_is_below_the_tolerance_and_only_the_files_are_there(exported):
    directory, result, network = exported
    assert result.path == directory
    assert 0 <= max(result.differences.values()) <= agreement.TOLERANCE
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
        export(Source(tmp_path / "model", code, "train.py"), data, "odd", destination)
    message = str(caught.value)
    assert "\n" not in message
    return message


def left(destination) -> list[str]:
    parent = destination.parent
    return [path.name for path in parent.iterdir()] if parent.exists() else []


def test_a_file_that_answers_otherwise_is_refused(tmp_path, data, code, destination):
    state = {f"layer.{name}": x for name, x in torch.nn.Linear(4, 3).state_dict().items()}
    said = refuse(tmp_path, data, code, destination, "Moody", state)
    assert "differs from the trained model" in said
    assert not destination.exists()
    assert left(destination) == []


def test_a_model_that_cannot_be_exported_is_refused(tmp_path, data, code, destination):
    said = refuse(tmp_path, data, code, destination, "Branching", {})
    assert said.startswith("torch.export cannot export the model: ")
    assert len(said) > len("torch.export cannot export the model: ")
    assert left(destination) == []


def test_what_onnx_lacks_is_named(tmp_path, data, code, destination):
    said = refuse(tmp_path, data, code, destination, "Spectral", {})
    assert said.startswith("the model cannot be written as ONNX: No ONNX function found for")
    assert "eigh" in said
    assert left(destination) == []


def test_what_needs_the_training_code_is_refused(tmp_path, data, code, destination):
    said = refuse(tmp_path, data, code, destination, "Doubling", {})
    assert said.startswith("model.pt2, loaded back without the training code, does not work: ")
    assert "torch.ops.odd.double" in said
    assert left(destination) == []


def test_nothing_of_the_surroundings_is_importable(tmp_path, code, monkeypatch):
    # Were it on the path, this would be taken for the library.
    (code / "onnxruntime.py").write_text("raise RuntimeError('the one of the training code')")
    monkeypatch.setenv("PYTHONPATH", str(code))
    monkeypatch.chdir(code)
    file = tmp_path / "model.onnx"
    file.write_bytes(b"no model")
    with isolated("numpy") as reloaded, pytest.raises(StepFailed) as caught:
        reloaded(file, [np.zeros(1)])
    assert "ONNXRuntimeError" in str(caught.value)


def test_a_process_that_dies_is_reported(tmp_path):
    with (
        isolated("no_such_framework") as reloaded,
        pytest.raises(StepFailed, match="that loads odd back exited with status 1") as caught,
    ):
        reloaded(tmp_path / "odd", [np.zeros(1)])
    assert "No module named 'no_such_framework'" in caught.value.detail


@pytest.mark.parametrize("network", ["Several", "Named"])
def test_several_answers_are_refused(tmp_path, data, code, destination, network):
    said = refuse(tmp_path, data, code, destination, network, {}, kind=TriremeError)
    assert "only a model that returns one tensor can be evaluated and exported" in said
    assert left(destination) == []


def export_network(tmp_path, code, destination, network, x) -> dict[str, str]:
    """Exports a network with random weights; returns the parameters that are recorded."""
    (tmp_path / "model").mkdir()
    (tmp_path / "inputs").mkdir()
    np.savez(tmp_path / "inputs" / "test.npz", x=x, y=np.zeros(len(x), dtype=int))
    namespace = {}
    exec(compile(NETWORKS.split("@torch.library")[0], "odd_networks", "exec"), namespace)
    saved = {"factory": f"odd_networks:{network}", "state_dict": namespace[network]().state_dict()}
    torch.save(saved, tmp_path / "model" / "model.pt")
    with journal.opened(tmp_path, "export"):
        export(
            Source(tmp_path / "model", code, "train.py"), tmp_path / "inputs", "odd", destination
        )
    records = journal.read(tmp_path, "export")
    (params,) = [record["params"] for record in records if "params" in record]
    return params


@pytest.mark.parametrize("most", [8, 1024])
def test_a_program_with_a_largest_batch_is_exported_with_it(tmp_path, data, destination, most):
    (tmp_path / "model").mkdir()
    batch = torch.export.Dim("b", min=1, max=most)
    network = torch.nn.Linear(4, 3)
    program = torch.export.export(network, (torch.ones(4, 4),), dynamic_shapes=({0: batch},))
    torch.export.save(program, tmp_path / "model" / "model.pt2")
    source = Source(tmp_path / "model", tmp_path, "train.py")
    inputs = np.load(data / "test.npz")["x"]
    assert np.allclose(source.load().predict(inputs), answers(network, inputs), atol=1e-6)
    assert export(source, data, "bounded", destination).samples == min(most, exporting.SAMPLES)
    written = torch.export.load(destination / "model.pt2")
    assert [limits.upper for limits in written.range_constraints.values()] == [most]
    onnx, found = reloaded_answers(destination, inputs[:most])
    assert np.allclose(onnx, found, atol=1e-5)


def reloaded_answers(destination, inputs) -> list[np.ndarray]:
    session = onnxruntime.InferenceSession(
        destination / "model.onnx", providers=["CPUExecutionProvider"]
    )
    program = torch.export.load(destination / "model.pt2").module()
    return [session.run(None, {"input": inputs})[0], answers(program, inputs)]


def test_a_regression_network_of_low_precision_is_exported(tmp_path, code, destination):
    x = np.random.default_rng(0).normal(size=(5, 4)).astype(np.float32)
    params = export_network(tmp_path, code, destination, "Regression", x)
    assert params["samples_compared"] == 5
    assert params["tolerance_onnx"] == agreement.TOLERANCES[".onnx"]["bfloat16"]
    assert params["tolerance_pt2"] == agreement.TOLERANCES[".pt2"]["bfloat16"]
    assert "sequence_length" not in params
    onnx, program = reloaded_answers(destination, x[:3])
    assert onnx.shape == program.shape == (3,)
    assert onnx.dtype == program.dtype == np.float32
    assert np.allclose(onnx, program, atol=5e-2)
    weights = torch.export.load(destination / "model.pt2").state_dict.values()
    assert {value.dtype for value in weights} == {torch.bfloat16}


def test_a_language_model_takes_sequences_of_any_length(tmp_path, code, destination):
    tokens = np.random.default_rng(0).integers(0, 50, size=(5, 16))
    params = export_network(tmp_path, code, destination, "Language", tokens)
    assert params["sequence_length"] == "any"
    for length in (1, 7, 32):
        onnx, program = reloaded_answers(destination, np.ones((2, length), dtype=int))
        assert onnx.shape == program.shape == (2, length, 50)
        assert np.allclose(onnx, program, atol=1e-4)


def test_where_other_lengths_cannot_be_exported_it_is_fixed(tmp_path, code, destination):
    tokens = np.random.default_rng(0).integers(0, 50, size=(5, 16))
    params = export_network(tmp_path, code, destination, "Choosing", tokens)
    assert params["sequence_length"] == 16
    onnx, program = reloaded_answers(destination, tokens[:1])
    assert np.allclose(onnx, program, atol=1e-4)


@pytest.mark.parametrize(
    ("lengths", "length", "shorter"), [((16,), 16, False), ((1, 2), 2, False), ((8, 16), 16, True)]
)
def test_other_lengths_are_tried_if_the_model_takes_them(lengths, length, shorter):
    def answer(inputs):
        if inputs.shape[1] not in lengths:
            raise ValueError
        return inputs

    trained = TrainedModel("pytorch", None, answer, 0)
    assert exporting._takes_shorter(trained, np.zeros((3, length), dtype=int)) == shorter


@pytest.mark.parametrize(("numbers", "samples"), [(10, 64), (100, 10), (5000, 2)])
def test_fewer_samples_are_compared_where_answers_are_large(numbers, samples, monkeypatch):
    monkeypatch.setattr(exporting, "ANSWER_LIMIT", 1000)
    trained = TrainedModel("pytorch", None, lambda inputs: np.zeros((1, numbers)), 0)
    assert len(exporting._samples(trained, np.zeros((100, 4)))) == samples


def test_a_failure_leaves_what_was_exported_before(tmp_path, data, code, destination):
    destination.mkdir(parents=True)
    (destination / "model.onnx").write_text("of before")
    refuse(tmp_path, data, code, destination, "NoSuchNetwork", {}, kind=TriremeError)
    assert (destination / "model.onnx").read_text() == "of before"
    assert left(destination) == ["exported"]


@pytest.mark.parametrize(("outputs", "expected"), [(np.nan, 1.0), (1.0, np.nan), (np.nan, np.nan)])
def test_answers_that_are_no_numbers_are_refused(outputs, expected):
    with pytest.raises(StepFailed, match="differs from the trained model"):
        agreement.largest_difference(
            "model.onnx", np.full((2, 3), outputs), np.full((2, 3), expected)
        )


def test_the_same_infinity_is_no_difference():
    masked = np.array([[1.0, -np.inf], [2.0, -np.inf]])
    assert agreement.largest_difference("model.onnx", masked, masked) == 0
    with pytest.raises(StepFailed, match="differs from the trained model"):
        agreement.largest_difference("model.onnx", -masked, masked)


def test_shapes_are_compared_too():
    with pytest.raises(StepFailed, match=r"shape \(2, 3\), the trained model \(3, 2\)"):
        agreement.largest_difference("model.onnx", np.zeros((2, 3)), np.zeros((3, 2)))


def test_a_process_that_dies_is_told_with_its_last_lines(tmp_path):
    with (
        pytest.raises(StepFailed, match=r"process that loads x.onnx back exited") as caught,
        isolated("no_such_module") as reloaded,
    ):
        reloaded(tmp_path / "x.onnx", [np.zeros(1)])
    assert "No module named 'no_such_module'" in caught.value.detail


@pytest.mark.parametrize(
    ("scale", "difference", "accepted"),
    [
        (1.0, 0.9e-4, True),
        (1.0, 1.1e-4, False),
        (100.0, 0.9e-2, True),
        (1e-3, 0.9e-5, True),  # of what was computed from greater numbers
        (1e-4, 1e-4, False),
        (9e-6, 9e-6, False),
        (9e-6, 0.8e-6, True),
        (0.0, 0.9e-7, True),
        (0.0, 1.1e-7, False),
    ],
)
def test_the_tolerance_grows_with_the_answers(scale, difference, accepted):
    expected = np.full((2, 2), scale)
    if accepted:
        assert agreement.largest_difference("x", expected + difference, expected) == pytest.approx(
            difference
        )
    else:
        with pytest.raises(StepFailed):
            agreement.largest_difference("x", expected + difference, expected)


@pytest.mark.parametrize("name", ["classifier", "my model", "a.b-c_d", "modèle"])
def test_names_that_the_registry_takes_are_accepted(name):
    check_name(name)


@pytest.mark.parametrize(
    "name", ["", "  ", "a/b", "a:b", "ready?", "a\nb", "it's", 'a"b', "a\x00b"]
)
def test_names_that_the_registry_does_not_take_are_refused(name):
    with pytest.raises(InputError, match="model_name"):
        check_name(name)


FORK = """
import os, sys
from pathlib import Path
import numpy as np
from trireme.errors import StepFailed
from trireme.exporting.isolated import STEP, isolated

file = Path(sys.argv[1])
own = Path(f"/proc/self/task/{os.getpid()}/children")
with isolated("torch.export.pt2_archive", is_shared=True) as reloaded:
    (pid,) = own.read_text().split()
    print(Path(f"/proc/{pid}/cmdline").read_text() == Path("/proc/self/cmdline").read_text())
    for is_killed in False, True:
        if is_killed:
            os.kill(int(pid), 9)
        try:
            reloaded(file, [np.zeros(1)])
        except StepFailed as error:
            print(error)
print("left:", own.read_text())
"""
"""What an export does in the process of its step."""


MISSING = """
from pathlib import Path
import numpy as np
from trireme.exporting.isolated import isolated

with isolated("no_such_framework", is_shared=True) as reloaded:
    try:
        reloaded(Path("odd"), [np.zeros(1)])
    except Exception as error:
        print(error, error.detail)
"""


def in_a_step(program, *arguments, **options):
    """Returns what a program prints whose process is a step's."""
    command = [sys.executable, "-c", program, *arguments]
    environment = os.environ | {STEP: "true"} | options.pop("env", {})
    return subprocess.run(
        command, env=environment, capture_output=True, text=True, check=True, **options
    ).stdout


def test_a_fork_tells_what_it_cannot_load():
    said = in_a_step(MISSING)
    assert "the process that loads odd back exited with status 1" in said
    assert "No module named 'no_such_framework'" in said


def test_a_step_loads_files_back_in_a_fork_of_it(tmp_path, code):
    (code / "onnxruntime.py").write_text("raise RuntimeError('the one of the training code')")
    file = tmp_path / "model.onnx"
    file.write_bytes(b"no model")
    said = in_a_step(FORK, str(file), env={"PYTHONPATH": str(code)}, cwd=code).splitlines()
    assert said[0] == "True"
    assert "ONNXRuntimeError" in said[1]
    assert said[2] == "the process that loads model.onnx back was ended by SIGKILL"
    assert said[3] == "left: "
