"""Agreement of an exported file with the trained model: how closely it has to answer."""

import numpy as np

from trireme.errors import StepFailed

TOLERANCES = {
    # The framework's own form runs the same operations; ONNX Runtime has operations of its own,
    # and of bfloat16 it has none, so that ONNX has those numbers as float32.
    ".pt2": {"float64": 1e-8, "float32": 1e-5, "float16": 2e-3, "bfloat16": 1e-2},
    "": {"float64": 1e-8, "float32": 1e-5, "float16": 2e-3, "bfloat16": 1e-2},
    ".onnx": {"float64": 1e-6, "float32": 1e-4, "float16": 1e-2, "bfloat16": 5e-2},
}
"""Largest difference accepted, relative to the largest output, by the file's suffix and the type of
number that the model computes with. A SavedModel is a folder without suffix."""

SMALLEST = 0.1
"""Answers below this are compared as if they were this large: what they were computed from was."""

SHARE = 0.1
"""Of the largest answer: differ by more they must not, however small they all are."""

NOISE = 1e-7
"""What numbers computed from others of about 1 are apart by, also where all answers are 0."""

TOLERANCE = TOLERANCES[".onnx"]["float32"]  # of ONNX files of ordinary models


def largest_difference(
    name: str, outputs: np.ndarray, expected: np.ndarray, tolerance: float = TOLERANCE
) -> float:
    """Returns the largest absolute difference of an exported file's answers.

    Args:
        tolerance: What is accepted, see ``allowed``.
    """
    if outputs.shape != expected.shape:
        raise StepFailed(
            f"{name} returns the shape {outputs.shape}, the trained model {expected.shape}"
        )
    expected = expected.astype(np.float64)
    with np.errstate(invalid="ignore"):
        apart = np.abs(outputs.astype(np.float64) - expected)
    difference = float(np.where(outputs == expected, 0.0, apart).max())  # infinite ones, too
    most = allowed(largest(expected), tolerance)
    if not difference <= most:  # also when it is not a number
        raise StepFailed(
            f"{name} differs from the trained model: largest difference {difference:.3g}, "
            f"allowed {most:.3g}"
        )
    return difference


def largest(answers: np.ndarray) -> float:
    """Returns the largest size of the answers that are finite; 0 where there are none."""
    return float(np.abs(answers[np.isfinite(answers)]).max(initial=0.0))


def allowed(size: float, tolerance: float = TOLERANCE) -> float:
    """Returns the largest absolute difference that is accepted where the largest answer has a size.

    Args:
        tolerance: What is accepted, relative to that size, or to ``SMALLEST``.
    """
    return min(tolerance * max(SMALLEST, size), max(SHARE * size, NOISE))
