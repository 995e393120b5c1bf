"""Run a model from its ONNX file."""

from pathlib import Path

import numpy as np

from trireme.components.errors import StepFailed, first_line
from trireme.components.training.result.trained import Predict


def load_onnx(file: Path) -> Predict:
    """Returns what an ONNX file answers, on the CPU."""
    import onnxruntime

    try:
        session = onnxruntime.InferenceSession(file, providers=["CPUExecutionProvider"])
    except Exception as error:
        reason = first_line(error)
        raise StepFailed(f"{file.name} does not run in ONNX Runtime: {reason}") from None
    name = session.get_inputs()[0].name

    def predict(inputs: np.ndarray) -> np.ndarray:
        return session.run(None, {name: inputs})[0]

    return predict
