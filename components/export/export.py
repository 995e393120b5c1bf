"""Export a trained model to files that run without its training code, and prove them right."""

import re
import warnings
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from components.errors import InputError, StepFailed
from components.evaluation.evaluate import held_out, predict
from components.tracking import journal
from components.training.result import load_model
from components.workspace import written_whole

if TYPE_CHECKING:
    import torch

SAMPLES = 64  # real samples that every exported file is compared on
TOLERANCE = 1e-4  # largest difference accepted, relative to the largest output
INLINE_LIMIT = 1 << 30  # bytes of weights that fit into the ONNX file itself (protobuf: 2 GiB)


class Exported(NamedTuple):
    """A model in forms that run without its training code.

    Attributes:
        path: The directory that holds ``model.pt2`` (torch.export) and ``model.onnx``.
        difference: Largest absolute difference of any file's outputs from the model's.
    """

    path: str
    difference: float


def check(name: str) -> None:
    """Refuses a name that MLflow's model registry does not take.

    Raises:
        InputError: The name is empty or holds ``/``, ``:`` or a control character.
    """
    if not name.strip() or re.search(r"[/:\x00-\x1f\x7f'\"]", name):
        raise InputError(
            f"model_name {name!r}: must be a name, without slash, colon, quotes or line breaks"
        )


def export(
    model: Path,
    data: Path,
    code: Path,
    entrypoint: str,
    factory: str,
    name: str,
    destination: Path,
) -> Exported:
    """Writes a model as a torch.export program and as ONNX, with a dynamic batch size.

    Each file is loaded back and has to answer as the model does on real held-out samples.

    Args:
        model: What was MODEL_DIR.
        data: The staged dataset, whose held-out samples are used.
        code: The training code's repository.
        entrypoint: The training program in it.
        factory: ``module:callable`` that builds the network, where the model needs it.
        name: The registered model that this becomes a version of.
        destination: The directory to make; it appears whole or not at all.

    Raises:
        StepFailed: The model cannot be exported, or a file answers differently.
    """
    with written_whole(destination) as partial:
        network = load_model(model, code, entrypoint, factory)
        inputs = held_out(data)[0][:SAMPLES]
        expected = predict(network, inputs)
        program = _export_program(network, inputs, partial / "model.pt2")
        _export_onnx(program, partial / "model.onnx")
        differences = {
            "pt2": _compare("model.pt2", _run_program(partial / "model.pt2", inputs), expected),
            "onnx": _compare("model.onnx", _run_onnx(partial / "model.onnx", inputs), expected),
        }
        np.savez(partial / "sample.npz", inputs=inputs[:2], outputs=expected[:2])
    largest = max(differences.values())
    journal.log_params({"tolerance": TOLERANCE, "samples_compared": len(inputs)})
    journal.log_metrics({f"difference_{form}": value for form, value in differences.items()})
    journal.log_artifact(destination, "exported")
    journal.log_model(destination / "model.onnx", name, destination / "sample.npz")
    journal.summarize(f"model.pt2 and model.onnx, largest difference {largest:.1e}")
    return Exported(str(destination), largest)


def _export_program(
    network: "torch.nn.Module", inputs: np.ndarray, file: Path
) -> "torch.export.ExportedProgram":
    import torch

    batch = torch.export.Dim("batch", min=1)
    try:
        # Two samples: a batch of one would be taken for a constant.
        example = (torch.from_numpy(inputs[:2]),)
        program = torch.export.export(network, example, dynamic_shapes=({0: batch},))
    except Exception as error:
        raise StepFailed(f"torch.export cannot export the model: {_first_line(error)}") from None
    torch.export.save(program, file)
    return program


def _export_onnx(program: "torch.export.ExportedProgram", file: Path) -> None:
    import torch

    size = sum(value.numel() * value.element_size() for value in program.state_dict.values())
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            torch.onnx.export(
                program,
                f=file,
                dynamo=True,
                input_names=["input"],
                output_names=["output"],
                external_data=size > INLINE_LIMIT,
                verbose=False,
            )
    except Exception as error:
        raise StepFailed(f"the model cannot be written as ONNX: {_first_line(error)}") from None


def _run_program(file: Path, inputs: np.ndarray) -> np.ndarray:
    import torch

    return predict(torch.export.load(file).module(), inputs)


def _run_onnx(file: Path, inputs: np.ndarray) -> np.ndarray:
    import onnxruntime

    session = onnxruntime.InferenceSession(file, providers=["CPUExecutionProvider"])
    return session.run(None, {session.get_inputs()[0].name: inputs})[0]


def _compare(name: str, outputs: np.ndarray, expected: np.ndarray) -> float:
    """Returns the largest absolute difference.

    Raises:
        StepFailed: It is more than TOLERANCE allows, or the shapes differ.
    """
    if outputs.shape != expected.shape:
        raise StepFailed(
            f"{name} answers in the shape {outputs.shape}, the trained model in {expected.shape}"
        )
    difference = float(np.abs(outputs - expected).max())
    allowed = TOLERANCE * max(1.0, float(np.abs(expected).max()))
    if not difference <= allowed:  # also when it is not a number
        raise StepFailed(
            f"{name} does not answer as the trained model does: largest difference "
            f"{difference:.3g}, allowed {allowed:.3g}"
        )
    return difference


def _first_line(error: Exception) -> str:
    return (str(error).strip().splitlines() or [type(error).__name__])[0]
