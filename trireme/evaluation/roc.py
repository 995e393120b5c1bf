"""ROC curves: that of all classes together, and the areas under those of each."""

from collections.abc import Iterable
from typing import NamedTuple

import numpy as np

POINTS = 40  # of a curve, which may have one for each sample; Kubeflow prints five lines for each


class Roc(NamedTuple):
    """What the ROC curves of a classifier say.

    Attributes:
        curve: That of all classes' probabilities together: false positive rates, true positive
            rates and thresholds.
        area: The area under the curve of each class against the others, on average; None where
            the samples are all of one class.
    """

    curve: tuple[list[float], list[float], list[float]]
    area: float | None


def roc(columns: Iterable[np.ndarray], labels: np.ndarray, true: np.ndarray) -> Roc:
    """Returns points of the curve, and the area.

    The points are where a true answer is passed, from the surest to the least sure; of more
    than half of ``POINTS`` some at equal distances.

    Args:
        columns: The probabilities of each class, of shape (samples), which are sorted in place.
        labels: The true class of each sample.
        true: The probability of the true class of each sample.
    """
    order = np.argsort(labels, kind="stable")
    classes = labels[order]
    limits = np.sort(true)
    indices = np.linspace(0, len(limits) - 1, POINTS // 2 - 1).astype(int)
    points, areas = _Points(np.unique(limits[indices])), []
    start = 0
    for number, column in enumerate(columns):
        end = int(np.searchsorted(classes, number, "right"))
        positives = np.sort(column[order[start:end]])
        start = end
        column.sort()
        points.add(column, positives)
        if 0 < len(positives) < len(column):
            areas.append(_area(column, positives))
    return Roc(points.curve(), float(np.mean(areas)) if areas else None)


def _area(everything: np.ndarray, positives: np.ndarray) -> float:
    """Returns the area under the curve of one class, from sorted probabilities.

    It is the share of pairs of a sample of the class and another one in which the former has the
    greater probability; pairs with equal ones count half. Source: Hanley and McNeil, The Meaning
    and Use of the Area under a ROC Curve, Radiology 143, 1982.
    """
    own, others = len(positives), len(everything) - len(positives)
    below, upto = (int(places.sum()) for places in _places(everything, positives))
    return ((below + upto) / 2 - own * own / 2) / (own * others)


def _places(values: np.ndarray, among: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Returns how many of sorted values are below each of others, and how many not above it."""
    return np.searchsorted(values, among, "left"), np.searchsorted(values, among, "right")


class _Points:
    """Points of a curve at thresholds, which are given in rising order, each two points."""

    def __init__(self, limits: np.ndarray) -> None:
        self._limits = limits
        self._all = np.zeros((2, len(limits)), np.int64)  # below a limit; at it, too
        self._true = np.zeros((2, len(limits)), np.int64)
        self._next = np.full(len(limits), np.inf)  # the least probability above a limit
        self._counts = np.zeros(2, np.int64)
        self._least = np.inf

    def add(self, everything: np.ndarray, positives: np.ndarray) -> None:
        """Takes in the sorted probabilities of a class."""
        for counts, values in ((self._all, everything), (self._true, positives)):
            counts += _places(values, self._limits)
        above = np.searchsorted(everything, self._limits, "right")
        is_below = above < len(everything)
        self._next[is_below] = np.minimum(self._next[is_below], everything[above[is_below]])
        self._counts += len(everything), len(positives)
        self._least = min(self._least, everything[0])

    def curve(self) -> tuple[list[float], list[float], list[float]]:
        """Returns the rates from 0 to 1, each once, and the thresholds."""
        total, true = self._counts
        passed = np.stack([total - self._all, true - self._true])  # (all or true, at or above, n)
        # From the greatest limit on: what is above it, then what is at it.
        passed = passed[:, ::-1, ::-1].transpose(0, 2, 1).reshape(2, -1)
        limits = np.stack([self._next, self._limits])[:, ::-1].T.ravel()
        ends = np.zeros((2, 1), np.int64), self._counts[:, None]
        passed = np.concatenate([ends[0], passed, ends[1]], 1)
        # 1 where scikit-learn has infinity, which no JSON can hold.
        limits = np.concatenate([[1.0], limits, [self._least]])
        new = np.append(True, (np.diff(passed) != 0).any(0))
        everything, positives = passed[:, new]
        false = (everything - positives) / max(total - true, 1)
        return false.tolist(), (positives / true).tolist(), limits[new].tolist()
