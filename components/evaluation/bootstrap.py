"""How sure a mean over held-out samples is."""

import numpy as np

RESAMPLES = 10_000
VALUES = 500  # different ones that are told apart

CONFIDENCE = 0.95
"""With which the figures of a model are said to be between two others."""


def resampled(values: np.ndarray) -> np.ndarray:
    """Returns the means of ``RESAMPLES`` samples drawn with replacement, always the same ones.

    Source: Efron and Tibshirani, An Introduction to the Bootstrap, 1993, chapters 6 and 16.

    Args:
        values: A number for each sample, of shape (samples).
    """
    found, counts = np.unique(values, return_counts=True)
    if len(found) > VALUES:
        # Of equal width, as the few that are far out say the most about how sure the mean is; and
        # of as many samples each, as else one that is very far out has all others be the same.
        places = ((found - found[0]) / (found[-1] - found[0]) * VALUES).astype(int)
        ranks = np.cumsum(counts) * VALUES // counts.sum()
        groups = np.unique(places * (VALUES + 1) + ranks, return_inverse=True)[1]
        sums, counts = np.bincount(groups, found * counts), np.bincount(groups, counts)
        found = sums / counts
    drawn = np.random.default_rng(0).multinomial(len(values), counts / len(values), RESAMPLES)
    return drawn @ found / len(values)


def interval(means: np.ndarray, confidence: float = CONFIDENCE) -> tuple[float, float]:
    """Returns what a mean is between, from resampled ones."""
    outside = (1 - confidence) / 2
    low, high = np.quantile(means, [outside, 1 - outside])
    return float(low), float(high)
