"""The samples to train on; to be copied along with the program."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import splits


def load(data: Path) -> tuple[Any, np.ndarray]:
    """Returns the images and labels to train on."""
    images, labels = splits.load(data, "train", SystemExit)
    if images.ndim != 4 or labels.shape != images.shape[:1]:
        raise SystemExit(
            "x has to be (samples, channels, height, width), and y (samples); "
            f"they are {images.shape} and {labels.shape}"
        )
    return images, labels


def batches(
    images: Any, labels: np.ndarray, size: int, seed: list[int], seen: int = 0
) -> Iterator[tuple[np.ndarray, ...]]:
    """Yields images, labels and the samples' weights in the loss; every sample comes once.

    The last batch is filled up to the same size with samples of no weight.

    Args:
        images: Of all samples.
        labels: Of all samples.
        size: Samples in a batch, of all replicas.
        seed: Of the order.
        seen: How many samples of this order have been trained on already.
    """
    order = np.random.default_rng(seed).permutation(len(images))
    for start in range(seen, len(order), size):
        taken = order[start : start + size]
        weights = np.zeros(size, np.float32)
        weights[: len(taken)] = 1 / len(taken)
        index = np.resize(taken, size)
        yield images[index], labels[index], weights
