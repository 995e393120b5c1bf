"""The gate: whether a model is good enough to be exported, and better than the one in use."""

from typing import Annotated, Any, NamedTuple

import numpy as np
from pydantic import Field, ValidationError

from components.errors import InputError
from components.part import Part

RESAMPLES = 10_000

Share = Annotated[float, Field(ge=0, le=1)]


class Gate(Part):
    """What a model has to reach, besides ``min_accuracy``, to take the champion's place."""

    better_by: Share = 0.0
    """How much more accurate than the champion it has to be on the same held-out samples."""

    confidence: Annotated[float, Field(ge=0.5, lt=1)] = 0.95
    """How sure that has to be: the share of bootstrap samples in which it is."""

    tolerance: Share | None = None
    """A model with fewer weights may be less accurate by this much; none: it may not."""

    class_loss: Share | None = None
    """How much of its recall no class may lose against the champion; none: whatever it may be."""


BETTER = Gate()


class Comparison(NamedTuple):
    """How a model does against the champion on the same samples.

    Attributes:
        version: The champion's version.
        accuracy: The champion's accuracy.
        gain: How much more accurate the model is; negative where it is less.
        low: Lower end of the interval that the gain is in with the gate's confidence.
        high: Upper end of it.
        sure: Share of bootstrap samples in which the model gains more than ``better_by``.
        recall_gain: By class, how much more of its recall the model has.
        weights_saved: How many weights fewer it has; 0 where that is not known.
    """

    version: str
    accuracy: float
    gain: float
    low: float
    high: float
    sure: float
    recall_gain: list[float]
    weights_saved: int


def parsed(options: dict[str, Any]) -> Gate:
    """Returns the gate that a pipeline's parameter describes.

    Raises:
        InputError: One sentence that says what is wrong.
    """
    try:
        return Gate(**options)
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        place = ".".join(map(str, first["loc"]))
        raise InputError(
            f"gate.{place}: {first['msg']}; it has {', '.join(Gate.model_fields)}"
        ) from None


def compare(
    version: str,
    right: np.ndarray,
    champion_right: np.ndarray,
    labels: np.ndarray,
    classes: int,
    weights_saved: int,
    gate: Gate,
) -> Comparison:
    """Compares two models by a paired bootstrap over the samples that both were asked about.

    Samples on which both are right or both are wrong change nothing, so drawing samples with
    replacement comes to drawing how many fall on which side: a multinomial distribution, see
    Efron and Tibshirani, An Introduction to the Bootstrap, 1993, chapter 16.

    Args:
        version: The champion's version.
        right: Whether the model is right, by sample.
        champion_right: Whether the champion is, by sample.
        labels: The true classes, by sample.
        classes: How many classes there are.
        weights_saved: How many weights fewer the model has.
        gate: What is asked for.
    """
    samples = len(right)
    sides = [np.sum(right & ~champion_right), np.sum(~right & champion_right)]
    shares = np.array([*sides, samples - sum(sides)]) / samples
    drawn = np.random.default_rng(0).multinomial(samples, shares, RESAMPLES)
    gains = (drawn[:, 0] - drawn[:, 1]) / samples
    outside = (1 - gate.confidence) / 2
    low, high = np.quantile(gains, [outside, 1 - outside])
    by_sample = right.astype(float) - champion_right
    counts = np.maximum(np.bincount(labels, minlength=classes), 1)
    return Comparison(
        version=version,
        accuracy=float(champion_right.mean()),
        gain=float(by_sample.mean()),
        low=float(low),
        high=float(high),
        sure=float((gains > gate.better_by).mean()),
        recall_gain=(np.bincount(labels, by_sample, classes) / counts).tolist(),
        weights_saved=weights_saved,
    )


def judge(comparison: Comparison | None, classes: list[str], gate: Gate) -> tuple[bool, str]:
    """Says whether a model takes the champion's place.

    Args:
        comparison: How it does against the champion; None where there is none.
        classes: Names of the classes.
        gate: What is asked for.

    Returns:
        Whether it does, and why in one sentence.
    """
    if comparison is None:
        return True, "there is no champion to be compared with"
    against = (
        f"{100 * comparison.gain:+.2f} points against champion version {comparison.version} "
        f"({100 * comparison.low:+.2f} to {100 * comparison.high:+.2f})"
    )
    losses = dict(zip(classes, comparison.recall_gain, strict=True))
    worst = min(losses, key=lambda name: losses[name])
    if gate.class_loss is not None and losses[worst] < -gate.class_loss:
        return False, f"{against}, but class {worst} loses {-100 * losses[worst]:.2f} points"
    if comparison.sure >= gate.confidence:
        return True, f"better: {against}"
    saves = comparison.weights_saved > 0
    if gate.tolerance is not None and saves and comparison.low >= -gate.tolerance:
        return True, f"smaller by {comparison.weights_saved:,} weights: {against}"
    margin = f"more than {100 * gate.better_by:g} points better" if gate.better_by else "better"
    return False, f"not surely {margin}: {against}"
