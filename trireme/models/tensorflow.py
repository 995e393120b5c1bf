"""Models that a TensorFlow program left."""

import math
import re
import zipfile
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np

from trireme.errors import first_line
from trireme.models.trained import NotLoadable, TrainedModel, no_tensor, read

SERVING = "serving_default"  # the signature that TensorFlow Serving calls
_CAUSE = re.compile(r"Exception encountered: |Example error message for object .*:\s+")
"""What Keras says a cause after, which comes below all that it was about to make."""

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
    ((name, spec),) = inputs.items()

    def call(tensor: Any) -> Any:
        return next(iter(signature(**{name: tf.cast(tensor, spec.dtype)}).values()))

    return _as_trained(loaded, call, signature.variables)


def load_keras(file: Path) -> TrainedModel:
    """Loads a Keras model, without the code that it may hold."""
    import tensorflow as tf

    def load(path: Path) -> Any:
        if not zipfile.is_zipfile(path):  # of which Keras says that it is not there
            raise ValueError("it is no zip archive, or one that is cut off")
        try:
            return tf.keras.models.load_model(path, compile=False, safe_mode=True)
        except Exception as error:
            cause = _CAUSE.split(str(error))[-1].strip() or first_line(error)
            # What follows the first sentence is how to run the file's code, which is not done here.
            sentence = cause.splitlines()[0].partition(". ")[0]
            raise ValueError(
                f"{sentence}; a SavedModel, as model.export writes it, needs no code"
            ) from None

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
