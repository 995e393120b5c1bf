"""Run a model from its ONNX file."""

from pathlib import Path

import numpy as np

from trireme.errors import StepFailed, first_line
from trireme.models.trained import Predict

_FLOATS = {
    "tensor(float16)": np.float16,
    "tensor(float)": np.float32,
    "tensor(double)": np.float64,
}
"""By ONNX Runtime's names of what a model takes."""


def load_onnx(file: Path) -> Predict:
    """Returns what an ONNX file answers, on the CPU, to floats of any precision."""
    import onnxruntime

    try:
        session = onnxruntime.InferenceSession(file, providers=["CPUExecutionProvider"])
    except Exception as error:
        reason = first_line(error)
        raise StepFailed(f"{file.name} does not run in ONNX Runtime: {reason}") from None
    model_input = session.get_inputs()[0]
    dtype = _FLOATS.get(model_input.type)

    def predict(inputs: np.ndarray) -> np.ndarray:
        if dtype and inputs.dtype.kind == "f":  # a dataset may have another precision
            inputs = inputs.astype(dtype, copy=False)
        return session.run(None, {model_input.name: inputs})[0]

    return predict
