"""Write a TensorFlow network as a SavedModel and as ONNX."""

from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from components.errors import StepFailed
from components.export.onnx_file import load_onnx
from components.training.result.tensorflow import SERVING, load_saved_model
from components.training.result.trained import Answer, first_line

if TYPE_CHECKING:
    import tensorflow as tf


def write(network: "tf.Module", inputs: np.ndarray, directory: Path) -> dict[str, Answer]:
    """Writes the folder ``saved_model`` and ``model.onnx``, with a dynamic batch size.

    Args:
        network: A module with the function ``call``.
        inputs: A few samples.
        directory: Where both go.

    Returns:
        By file name, what it answers when it is loaded back.

    Raises:
        StepFailed: The network cannot be written in one of these forms.
    """
    import tensorflow as tf

    spec = tf.TensorSpec([None, *inputs.shape[1:]], inputs.dtype, name="input")
    serve = tf.function(lambda tensor: {"output": network.call(tensor)}, input_signature=[spec])
    _export_saved_model(network, serve, directory / "saved_model")
    _export_onnx(serve, spec, directory / "model.onnx")
    return {
        "saved_model": load_saved_model(directory / "saved_model").answer,
        "model.onnx": load_onnx(directory / "model.onnx"),
    }


def _export_saved_model(network: "tf.Module", serve: "tf.Function", directory: Path) -> None:
    import tensorflow as tf

    try:
        signatures = {SERVING: serve.get_concrete_function()}
        tf.saved_model.save(network, str(directory), signatures)
    except Exception as error:
        raise StepFailed(f"TensorFlow cannot save the model: {first_line(error)}") from None


def _export_onnx(serve: "tf.Function", spec: "tf.TensorSpec", file: Path) -> None:
    import tf2onnx

    try:
        tf2onnx.convert.from_function(serve, input_signature=[spec], output_path=str(file))
    except Exception as error:
        raise StepFailed(f"the model cannot be written as ONNX: {first_line(error)}") from None
