"""Models that a TensorFlow program left."""

import math
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np

from trireme.components.training.result.trained import NotLoadable, TrainedModel, no_tensor, read

SERVING = "serving_default"  # the signature that TensorFlow Serving calls
COARSEST_FIRST = ("bfloat16", "float16", "float32", "float64")


def load_saved_model(directory: Path) -> TrainedModel:
    """Loads a SavedModel, https://www.tensorflow.org/guide/saved_model."""
    import tensorflow as tf

    loaded = read(directory, "a SavedModel", lambda path: tf.saved_model.load(str(path)))
    signatures = dict(loaded.signatures)
    if SERVING not in signatures and len(signatures) != 1:
        raise NotLoadable(
            f"the SavedModel in {directory.name} has no signature {SERVING}; it has "
            f"{', '.join(signatures) or 'none'}"
        )
    signature = signatures.get(SERVING) or next(iter(signatures.values()))
    inputs, outputs = signature.structured_input_signature[1], signature.structured_outputs
    if len(inputs) != 1 or len(outputs) != 1:
        raise NotLoadable(
            f"the SavedModel in {directory.name} takes {', '.join(inputs) or 'nothing'} and "
            f"returns {', '.join(outputs) or 'nothing'}; a model to evaluate takes one tensor and "
            "returns one"
        )
    ((name, taken),) = inputs.items()

    def call(tensor: Any) -> Any:
        return next(iter(signature(**{name: tf.cast(tensor, taken.dtype)}).values()))

    return _as_trained(loaded, call, signature.variables)


def load_keras(file: Path) -> TrainedModel:
    """Loads a Keras model, without the code that it may hold."""
    import tensorflow as tf

    def load(path: Path) -> Any:
        return tf.keras.models.load_model(path, compile=False, safe_mode=True)

    model = read(file, "a Keras model that loads without the training code", load)
    return _as_trained(model, lambda tensor: model(tensor, training=False), model.weights)


def _as_trained(loaded: Any, call: Any, variables: Iterable[Any]) -> TrainedModel:
    import tensorflow as tf

    # A module, because what is saved has to hold the variables that its functions use.
    module = tf.Module()
    module.loaded = loaded
    module.call = tf.function(call)

    def predict(inputs: np.ndarray) -> np.ndarray:
        output = module.call(tf.constant(inputs))
        if not isinstance(output, tf.Tensor):
            raise no_tensor(output)
        return output.numpy()

    weights = sum(math.prod(variable.shape) for variable in variables)
    types = {tf.as_dtype(variable.dtype).name for variable in variables}
    precision = next((name for name in COARSEST_FIRST if name in types), "float32")
    return TrainedModel("tensorflow", module, predict, weights, precision)
