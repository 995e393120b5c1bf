"""Measures of a regression: the figures that scikit-learn has, and how sure they are."""

from collections.abc import Iterator

import numpy as np

from trireme.evaluation.bootstrap import interval, resampled
from trireme.evaluation.figures import NO_NUMBERS, WORST, Chart, Evaluation, Score, Worst
from trireme.evaluation.held_out import row_of
from trireme.models.trained import NotLoadable

DOTS = 1000  # that are drawn

SCORE = Score("mean absolute error", -1)


class Regression:
    """Takes in the answers of a model that foretells one or several numbers."""

    score = SCORE

    def __init__(self) -> None:
        self._said: list[np.ndarray] = []
        self._true: list[np.ndarray] = []

    def add(self, outputs: np.ndarray, labels: np.ndarray) -> None:
        """Takes in a batch.

        Args:
            outputs: What the model says, of shape (samples), (samples, 1) or that of the
                labels.
            labels: What is true, of shape (samples) or (samples, targets).
        """
        predicted, true = (array.reshape(len(array), -1) for array in (outputs, labels))
        if predicted.shape != true.shape or labels.ndim > 2:
            raise NotLoadable(
                f"the model's outputs have the shape {outputs.shape}, and the labels y have "
                f"{labels.shape}"
            )
        if not np.isfinite(predicted).all():
            raise NotLoadable(*NO_NUMBERS)
        self._said.append(predicted)
        self._true.append(true)

    def scores(self) -> np.ndarray:
        """Returns the absolute error of each sample, on average over its targets, below zero."""
        return -np.concatenate([np.abs(error).mean(1) for error in self._errors()])

    def evaluation(self) -> Evaluation:
        """Returns what all batches together say."""
        scores = self.scores()
        samples = len(scores)
        squares = sum((error**2).sum(0) for error in self._errors()) / samples  # by target
        error = -float(scores.mean())
        figures = {
            "mean_absolute_error": error,
            "rmse": float(np.sqrt(squares).mean()),
            "largest_error": float(max(np.abs(error).max() for error in self._errors())),
        }
        if samples > 1:  # of one sample it is not defined
            figures["r2"] = _r2(squares, self._variances(samples))
        low, high = interval(resampled(scores))
        return Evaluation(
            headline=f"mean absolute error {error:.4g} on {samples:,} held-out samples",
            figures=figures,
            between=(-high, -low),
            score=SCORE,
            scores=scores,
            chart=Chart("Prediction", "true", "said", {"samples": self._dots()}, dots=True),
            worst=[
                Worst(int(n), *self._words(int(n)), f"{-scores[n]:.4g} apart")
                for n in np.argsort(scores, kind="stable")[:WORST]
            ],
        )

    def _errors(self) -> Iterator[np.ndarray]:
        for predicted, true in zip(self._said, self._true, strict=True):
            yield predicted.astype(float) - true

    def _variances(self, samples: int) -> np.ndarray:
        """Returns how far the truth of each target is from its mean, squared, on average."""
        mean = sum(true.sum(0, dtype=float) for true in self._true) / samples
        return sum(((true - mean) ** 2).sum(0) for true in self._true) / samples

    def _dots(self) -> tuple[list[float], list[float]]:
        """Returns some of the numbers, at equal distances: what is true and what was said."""
        size = sum(predicted.size for predicted in self._said)
        shown = np.linspace(0, size - 1, min(DOTS, size)).astype(int)
        true, predicted = (_picked(batches, shown) for batches in (self._true, self._said))
        return true, predicted

    def _words(self, sample: int) -> tuple[str, str]:
        """Returns what is true of a sample and what was said of it."""
        true, predicted = (row_of(batches, sample) for batches in (self._true, self._said))
        return _listed(true), _listed(predicted)


def _r2(squares: np.ndarray, variances: np.ndarray) -> float:
    """Returns the share of the variance that is explained, on average over the targets."""
    varies = variances > 0
    unexplained = np.where(varies, squares / np.where(varies, variances, 1), squares > 0)
    return float(1 - unexplained.mean())


def _picked(batches: list[np.ndarray], places: np.ndarray) -> list[float]:
    """Returns the numbers at rising places of all batches together."""
    numbers, start = [], 0
    for batch in batches:
        first, last = np.searchsorted(places, [start, start + batch.size])
        numbers += batch.ravel()[places[first:last] - start].astype(float).tolist()
        start += batch.size
    return numbers


def _listed(numbers: np.ndarray) -> str:
    more = ", ..." if len(numbers) > 4 else ""
    return ", ".join(f"{number:.4g}" for number in numbers[:4]) + more
