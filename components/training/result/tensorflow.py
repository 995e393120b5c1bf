"""Models that a TensorFlow program left."""

import math
from pathlib import Path
from typing import Any

from components.training.result.trained import NotLoadable, TrainedModel, read

SERVING = "serving_default"  # the signature that TensorFlow Serving calls


def load_saved_model(directory: Path) -> TrainedModel:
    """Loads a SavedModel, https://www.tensorflow.org/guide/saved_model.

    Args:
        directory: The folder that holds ``saved_model.pb``.

    Raises:
        NotLoadable: It cannot be read, or no signature of it maps one tensor to one tensor.
    """
    import tensorflow as tf

    loaded = read(directory, "a SavedModel", lambda path: tf.saved_model.load(str(path)))
    signatures = dict(loaded.signatures)
    if SERVING not in signatures and len(signatures) != 1:
        raise NotLoadable(
            f"the SavedModel in {directory.name} has no signature {SERVING}; it has "
            f"{', '.join(signatures) or 'none'}"
        )
    signature = signatures.get(SERVING) or next(iter(signatures.values()))
    inputs, outputs = list(signature.structured_input_signature[1]), signature.structured_outputs
    if len(inputs) != 1 or len(outputs) != 1:
        raise NotLoadable(
            f"the SavedModel in {directory.name} takes {', '.join(inputs) or 'nothing'} and "
            f"returns {', '.join(outputs) or 'nothing'}; a model to evaluate takes one tensor and "
            "returns one"
        )
    (name,) = inputs
    weights = sum(math.prod(variable.shape) for variable in signature.variables)

    def call(tensor: Any) -> Any:
        return next(iter(signature(**{name: tensor}).values()))

    return _as_trained(loaded, call, weights)


def load_keras(file: Path) -> TrainedModel:
    """Loads a Keras model, without the code that it may hold.

    Args:
        file: The ``.keras`` file.

    Raises:
        NotLoadable: It is something else, or cannot be read without executing code from it.
    """
    import tensorflow as tf

    def load(path: Path) -> Any:
        return tf.keras.models.load_model(path, compile=False, safe_mode=True)

    model = read(file, "a Keras model that loads without the training code", load)
    return _as_trained(model, lambda tensor: model(tensor, training=False), model.count_params())


def _as_trained(loaded: Any, call: Any, weights: int) -> TrainedModel:
    import tensorflow as tf

    # A module, because what is saved has to hold the variables that its functions use.
    module = tf.Module()
    module.loaded = loaded
    module.call = tf.function(call)
    return TrainedModel(
        "tensorflow", module, lambda inputs: module.call(tf.constant(inputs)).numpy(), weights
    )
