"""A trained model as the later steps see it, whatever framework it is of."""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from trireme.data.forms import PROGRAM
from trireme.errors import TriremeError, first_line

Predict = Callable[[np.ndarray], np.ndarray]  # outputs for inputs, samples along the first axis


class NotLoadable(TriremeError):
    """A model that cannot be loaded or evaluated without more being said.

    Attributes:
        way_out: What a person can do about it, where the sentence does not say it.
    """

    def __init__(self, message: str, way_out: str = f"mend that, or give {PROGRAM}") -> None:
        super().__init__(message)
        self.way_out = way_out


@dataclass(frozen=True)
class TrainedModel:
    """A trained model on the CPU, in evaluation mode.

    Attributes:
        precision: What it computes with: float64, float32, float16 or bfloat16.
        largest_batch: How many samples the network takes at a time, where it has a limit;
            ``predict`` takes any number.
    """

    framework: str
    network: Any
    predict: Predict
    weights: int
    precision: str = "float32"
    largest_batch: int | None = None


def no_tensor(output: Any) -> NotLoadable:
    """Returns what to say of a model that returns something else than a tensor."""
    return NotLoadable(
        f"the model returns a {type(output).__name__}; only a model that returns one tensor can be "
        "evaluated and exported"
    )


def read(path: Path, expected: str, load: Callable[[Path], Any]) -> Any:
    """Reads what a training program left."""
    try:
        return load(path)
    except Exception as error:
        raise NotLoadable(f"{path.name} is not {expected}: {first_line(error)}") from None
