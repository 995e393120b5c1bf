"""Export a trained model to files that run without its training code, and prove them right."""

import re
from pathlib import Path
from typing import NamedTuple

import numpy as np

from components.errors import InputError, StepFailed
from components.evaluation.evaluate import held_out, predict
from components.export import pytorch, tensorflow
from components.tracking import journal
from components.training.result.load import load_model
from components.workspace import written_whole

SAMPLES = 64  # real samples that every exported file is compared on
TOLERANCE = 1e-4  # largest difference accepted, relative to the largest output

_WRITERS = {"pytorch": pytorch.write, "tensorflow": tensorflow.write}


class Exported(NamedTuple):
    """A model in forms that run without its training code.

    Attributes:
        path: The directory that holds ``model.onnx``, and ``model.pt2`` of torch.export or the
            SavedModel ``saved_model``.
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
    promote: bool = False,
    champion: str = "",
) -> Exported:
    """Writes a model as ONNX and in its framework's own form, with a dynamic batch size.

    Each is loaded back and has to answer as the model does on real held-out samples.

    Args:
        model: What was MODEL_DIR.
        data: The staged dataset, whose held-out samples are used.
        code: The training code's repository.
        entrypoint: The training program in it.
        factory: ``module:callable`` that builds the network, where the model needs it.
        name: The registered model that this becomes a version of.
        destination: The directory to make; it appears whole or not at all.
        promote: Whether it becomes the champion when it is registered.
        champion: The version that it was found better than; empty where there was none.

    Raises:
        StepFailed: The model cannot be exported, or what was written answers differently.
    """
    with written_whole(destination) as partial:
        trained = load_model(model, code, entrypoint, factory)
        inputs = held_out(data)[0][:SAMPLES]
        expected = predict(trained.answer, inputs)
        written = _WRITERS[trained.framework](trained.network, inputs, partial)
        differences = {
            file: _compare(file, predict(answer, inputs), expected)
            for file, answer in written.items()
        }
        np.savez(partial / "sample.npz", inputs=inputs[:2], outputs=expected[:2])
    largest = max(differences.values())
    journal.log_params({"tolerance": TOLERANCE, "samples_compared": len(inputs)})
    journal.log_metrics(
        {f"difference_{file.split('.')[-1]}": value for file, value in differences.items()}
    )
    journal.log_artifact(destination, "exported")
    journal.log_model(
        destination / "model.onnx",
        name,
        destination / "sample.npz",
        tags={"weights": str(trained.weights), "framework": trained.framework},
        promote=promote,
        champion=champion,
    )
    journal.summarize(f"{' and '.join(differences)}, largest difference {largest:.1e}")
    return Exported(str(destination), largest)


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
