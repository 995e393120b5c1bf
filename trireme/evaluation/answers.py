"""A classifier's answers as they came, and their probabilities in parts that fit in memory."""

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

from trireme.evaluation.figures import are_probabilities

PART = 1 << 25  # bytes of the probabilities that are there at a time


class Answers(NamedTuple):
    """A classifier's answers, batch by batch: probabilities or logits, (samples, classes)."""

    batches: list[np.ndarray]

    def scales(self) -> np.ndarray | None:
        """Returns what makes probabilities of logits; None where the answers are probabilities.

        Returns:
            For each sample, its largest logit and the sum of the powers, of shape (2, samples).
        """
        if all(are_probabilities(batch) for batch in self.batches):
            return None
        pieces = []
        for batch in self.batches:
            powers = batch.astype(float)
            largest = powers.max(1)
            powers -= largest[:, None]
            np.exp(powers, out=powers)
            pieces.append((largest, powers.sum(1)))
        return np.stack([np.concatenate(arrays) for arrays in zip(*pieces, strict=True)])

    def columns(self, scales: np.ndarray | None, classes: int) -> Iterator[np.ndarray]:
        """Yields the probabilities of one class after another, each of shape (samples).

        An array is the caller's to change. Classes that the model does not know have 0.
        """
        samples, known = sum(map(len, self.batches)), self.batches[0].shape[1]
        width = max(1, PART // (8 * samples))
        for first in range(0, known, width):
            part = np.empty((min(width, known - first), samples))
            start = 0
            for batch in self.batches:
                end = start + len(batch)
                part[:, start:end] = batch[:, first : first + width].T
                start = end
            yield from part if scales is None else probabilities(part, scales)
        for _ in range(known, classes):
            yield np.zeros(samples)

    def of(self, scales: np.ndarray | None, classes: np.ndarray) -> np.ndarray:
        """Returns for each sample the probability of one class, which may be another for each."""
        parts, start = [], 0
        for batch in self.batches:
            of_batch = classes[start : start + len(batch)]
            start += len(batch)
            is_known = of_batch < batch.shape[1]
            outputs = np.take_along_axis(batch, np.where(is_known, of_batch, 0)[:, None], 1)[:, 0]
            parts.append(np.where(is_known, outputs.astype(float), -np.inf))
        picked = np.concatenate(parts)
        return np.maximum(picked, 0) if scales is None else probabilities(picked, scales)


def probabilities(logits: np.ndarray, scales: np.ndarray) -> np.ndarray:
    """Returns the probabilities of logits, in their place: floats of shape (..., samples)."""
    largest, total = scales
    logits -= largest
    np.exp(logits, out=logits)
    logits /= total
    return logits
