"""The held-out split of a dataset: samples that training never saw, and what is true of them."""

from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from typing import NamedTuple

import numpy as np

from trireme.data.forms import PROGRAM
from trireme.evaluation import samples
from trireme.models.trained import NotLoadable, Predict
from trireme.plain import plain

TEST, VALIDATION = "test", "validation"
"""Splits of a dataset: what models are measured on, and what one of many is chosen by."""

END = 200  # characters of each end of what a framework says

BATCH = 256  # samples that go through a model at a time, where they are small
BATCH_BYTES = 1 << 26  # of inputs or outputs that a batch may have, where they are not


class HeldOut(NamedTuple):
    """Held-out samples.

    Attributes:
        labels: What is true of each: class numbers of shape (samples) for a classifier, floats
            of shape (samples) or (samples, targets) for a regression, the tokens to be foretold
            of shape (samples, length) for a language model, negative where none is asked for.
    """

    inputs: np.ndarray
    labels: np.ndarray


def held_out(data: Path, split: str = TEST) -> HeldOut:
    """Returns a held-out split of a dataset."""
    if not data.is_dir() or not any(data.iterdir()):  # it may be no longer in the cache
        raise NotLoadable("the run has no dataset", f"give {PROGRAM}")
    inputs, labels = samples.load(data, split)
    if not inputs.shape or not labels.shape or len(inputs) != len(labels) or len(labels) == 0:
        counts = [array.shape[0] if array.shape else "no" for array in (inputs, labels)]
        raise NotLoadable(f"there are {counts[0]} held-out samples and {counts[1]} labels")
    if labels.dtype.kind not in "iuf":
        raise NotLoadable("the held-out labels y are neither class numbers nor other numbers")
    if labels.dtype.kind == "f" and not np.isfinite(labels).all():
        raise NotLoadable("the held-out labels y hold infinite numbers or NaN")
    return HeldOut(inputs, labels)


def outputs_of(predict: Predict, inputs: np.ndarray) -> np.ndarray:
    """Returns a model's outputs for a batch."""
    try:
        # What is in a file is copied: frameworks want memory that they may write to.
        outputs = np.asarray(predict(inputs if inputs.flags.writeable else inputs.copy()))
    except NotLoadable:
        raise
    except Exception as error:
        shown = f"these samples, {inputs.dtype} of the shape {inputs.shape}"
        raise NotLoadable(f"the model does not take {shown}: {_shortened(str(error))}") from None
    if outputs.dtype.kind not in "iuf" or not outputs.shape or len(outputs) != len(inputs):
        raise NotLoadable(
            f"for {len(inputs)} samples the model's outputs have the shape {outputs.shape}, not "
            "with numbers for each of them"
        )
    return outputs


def _shortened(text: str) -> str:
    """Returns both ends of a text: PyTorch says first what is wrong, TensorFlow says it last."""
    line = " ".join(plain(text).split())
    return line if len(line) <= 2 * END else f"{line[:END]} … {line[-END:]}"


def batches(inputs: np.ndarray, outputs: np.ndarray) -> Iterator[slice]:
    """Returns the parts in which samples go through a model."""
    largest = max(inputs[:1].nbytes, outputs[:1].nbytes, 1)
    size = min(BATCH, max(1, BATCH_BYTES // largest))
    # All about as large: a last batch of one is what some exported programs do not take.
    count = -(-len(inputs) // size)
    ends = [len(inputs) * number // count for number in range(count + 1)]
    return (slice(start, end) for start, end in pairwise(ends))


def row_of(batches: list[np.ndarray], sample: int) -> np.ndarray:
    """Returns what batches, taken together, have of a sample."""
    for batch in batches:
        if sample < len(batch):
            return batch[sample]
        sample -= len(batch)
    raise IndexError(sample)


def predict_in_batches(predict: Predict, inputs: np.ndarray) -> np.ndarray:
    """Returns a model's outputs, computed in batches."""
    first = outputs_of(predict, inputs[:2])
    return np.concatenate([outputs_of(predict, inputs[part]) for part in batches(inputs, first)])
