"""The confidence interval of a mean over held-out samples."""

import numpy as np

RESAMPLES = 10_000
VALUES = 500  # different ones that are told apart
FEW = 16  # values whose every subset is looked at

CONFIDENCE = 0.95
"""With which the figures of a model are said to be between two others."""


def resampled(values: np.ndarray) -> np.ndarray:
    """Returns the means of ``RESAMPLES`` samples drawn with replacement, always the same ones.

    Source: Efron and Tibshirani, An Introduction to the Bootstrap, 1993, chapters 6 and 16.

    Args:
        values: A number for each sample, of shape (samples).
    """
    unique, counts = np.unique(values, return_counts=True)
    if len(unique) > VALUES:
        # Of equal width, as the few that are far out say the most about how sure the mean is; and
        # of as many samples each, as else one that is very far out has all others be the same.
        places = ((unique - unique[0]) / (unique[-1] - unique[0]) * VALUES).astype(int)
        ranks = np.cumsum(counts) * VALUES // counts.sum()
        groups = np.unique(places * (VALUES + 1) + ranks, return_inverse=True)[1]
        sums, counts = np.bincount(groups, unique * counts), np.bincount(groups, counts)
        unique = sums / counts
    drawn = np.random.default_rng(0).multinomial(len(values), counts / len(values), RESAMPLES)
    return drawn @ unique / len(values)


def interval(means: np.ndarray, confidence: float = CONFIDENCE) -> tuple[float, float]:
    """Returns what a mean is between, from resampled ones."""
    outside = (1 - confidence) / 2
    low, high = np.quantile(means, [outside, 1 - outside])
    return float(low), float(high)


def paired_interval(
    values: np.ndarray, means: np.ndarray, confidence: float
) -> tuple[float, float]:
    """Returns what the mean of paired differences is between, also of few and for great confidence.

    By the bootstrap alone too little is known of both: its samples of few values are too much
    alike, and its ends are no farther out than one of ``RESAMPLES``.

    Args:
        means: What ``resampled`` returns for the values.
    """
    outside, (low, high) = (1 - confidence) / 2, interval(means, confidence)
    return min(low, _lowest(values, outside)), max(high, -_lowest(-values, outside))


def _lowest(values: np.ndarray, outside: float) -> float:
    """Returns what the mean is above, but for so small a probability.

    Where two models are equal, either could have the better answer to any sample; so nothing is
    known of a difference but how far it is from 0, and those that are 0 say nothing.
    """
    from scipy.special import betaincinv, stdtrit

    changed = values[values != 0]
    count, sizes = len(changed), np.abs(changed)
    if not count:
        return 0.0
    if np.allclose(sizes, sizes[0], atol=0):  # as of answers that are right or wrong
        # McNemar's test, by the interval of Clopper and Pearson, Biometrika 26, 1934.
        won = int((changed > 0).sum())
        share = float(betaincinv(won, count - won + 1, outside)) if won else 0.0
        lowest = (2 * share - 1) * sizes[0]
    elif count <= FEW:
        # Hartigan, Using subsample values as typical values, JASA 64, 1969.
        subsets = np.arange(1, 1 << count)[:, None] >> np.arange(count) & 1
        rank = int(outside * (1 << count))
        lowest = np.sort(subsets @ changed / subsets.sum(1))[rank - 1] if rank else -np.inf
    else:
        error = changed.std(ddof=1) / np.sqrt(count)
        lowest = changed.mean() + stdtrit(count - 1, outside) * error
    return float(lowest * count / len(values))
