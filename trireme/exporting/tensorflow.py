"""Write a TensorFlow network as a SavedModel and as ONNX."""

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from trireme.errors import StepFailed, first_line
from trireme.models.tensorflow import SERVING
from trireme.models.trained import TrainedModel

if TYPE_CHECKING:
    import tensorflow as tf


def write(
    trained: TrainedModel, inputs: np.ndarray, any_length: bool, directory: Path
) -> Iterator[Path]:
    """Writes the folder ``saved_model`` and ``model.onnx``, with a dynamic batch size."""
    import tensorflow as tf

    shape = [None, *inputs.shape[1:]]
    if any_length:
        shape[1] = None
    spec = tf.TensorSpec(shape, inputs.dtype, name="input")
    network = trained.network
    serve = tf.function(lambda tensor: {"output": network.call(tensor)}, input_signature=[spec])
    _write_saved_model(network, serve, directory / "saved_model")
    yield directory / "saved_model"
    _write_onnx(serve, spec, directory / "model.onnx")
    yield directory / "model.onnx"


def _write_saved_model(network: "tf.Module", serve: "tf.Function", directory: Path) -> None:
    import tensorflow as tf

    try:
        signatures = {SERVING: serve.get_concrete_function()}
        tf.saved_model.save(network, str(directory), signatures)
    except Exception as error:
        raise StepFailed(f"TensorFlow cannot save the model: {first_line(error)}") from None


def _write_onnx(serve: "tf.Function", spec: "tf.TensorSpec", file: Path) -> None:
    import tf2onnx

    try:
        tf2onnx.convert.from_function(serve, input_signature=[spec], output_path=str(file))
    except Exception as error:
        raise StepFailed(f"the model cannot be written as ONNX: {first_line(error)}") from None
