"""The gate: whether a model is good enough to be exported, and better than the one in use."""

from collections.abc import Mapping
from typing import NamedTuple

import numpy as np

from trireme.evaluation.bootstrap import paired_interval, resampled
from trireme.evaluation.figure_names import words
from trireme.evaluation.figures import Evaluation, Score
from trireme.evaluation.options import MIN_ACCURACY, Gate
from trireme.tracking.registry import NO_CHAMPION

KNOWN = 12  # figures that are named when another is asked for

MOST = 1000  # times the samples that there are, more than which nobody has

BETTER = Gate()


class Comparison(NamedTuple):
    """How a model does against the champion on the same samples.

    Attributes:
        gain: How much better the model is; negative where it is worse.
        between: What the gain is between: with the gate's confidence it is above the first, and
            with that confidence below the second.
        recall_gain: By class, how much more of its recall the model has; empty where there are
            no classes.
        weights_saved: How many weights fewer it has; 0 where that is not known.
        samples: How many held-out samples both have answered.
    """

    version: str
    score: Score
    champion: float
    gain: float
    between: tuple[float, float]
    recall_gain: dict[str, float]
    weights_saved: int
    samples: int

    @property
    def champion_shown(self) -> float:
        """The champion's mean as people know it: an error is not below zero."""
        return self.champion if self.score.factor > 0 else -self.champion


class Verdict(NamedTuple):
    """What the gate says.

    Attributes:
        score: Its headline figure on the held-out split, such as the accuracy, 0 to 1; 0 when
            it could not be evaluated.
        champion: The version that it was compared with; empty if there is none.
        against: One sentence that compares it with that version.
    """

    passed: bool
    score: float
    reason: str
    promote: bool = False
    champion: str = ""
    against: str = ""


class Judged(NamedTuple):
    """A verdict and the figures it rests on."""

    verdict: Verdict
    evaluation: Evaluation | None
    comparison: Comparison | None


def check_thresholds(
    figures: Mapping[str, float], gate: Gate, min_accuracy: float
) -> tuple[bool, str]:
    """Tells whether a model is good enough to be exported, and why in one sentence."""
    # The default is for who has no figure of that name, too; another one was asked for.
    is_meant = "accuracy" in figures or min_accuracy not in (0, MIN_ACCURACY)
    bounds = [("accuracy", min_accuracy, f"min_accuracy {min_accuracy:g}", False)]
    bounds = bounds if is_meant else []
    bounds += [(name, bound, f"gate.least {bound:g}", False) for name, bound in gate.least.items()]
    bounds += [(name, bound, f"gate.most {bound:g}", True) for name, bound in gate.most.items()]
    clauses = []
    for name, bound, called, is_most in bounds:
        if name not in figures:
            names = ", ".join(list(figures)[:KNOWN])
            return False, f"the gate asks for a figure {name!r}, and there are {names}"
        value = figures[name]
        passed = value <= bound if is_most else value >= bound
        how = ("is above", "is within") if is_most else ("is below", "reaches")
        clauses.append(f"{words(name)} {_number(name, value)} {how[passed]} {called}")
        if not passed:
            return False, f"held-out {clauses[-1]}"
    if not clauses:
        name, value = next(iter(figures.items()))
        return True, f"held-out {words(name)} {value:.4g}, and no threshold is set"
    return True, f"held-out {', '.join(clauses)}"


def _number(name: str, value: float) -> str:
    return f"{value:.4f}" if name == "accuracy" else f"{value:.4g}"


def compare(
    evaluation: Evaluation, version: str, champion: np.ndarray, weights_saved: int, gate: Gate
) -> Comparison:
    """Compares a model with the champion's scores, sample by sample."""
    by_sample = evaluation.scores - champion
    recall_gain, classes = {}, evaluation.classes
    if classes and evaluation.labels is not None:
        sums = np.bincount(evaluation.labels, by_sample, len(classes.names))
        counts = np.bincount(evaluation.labels, minlength=len(classes.names))
        means = sums / np.maximum(counts, 1)
        recall_gain = dict(zip(classes.names, means.tolist(), strict=True))
    return Comparison(
        version=version,
        score=evaluation.score,
        champion=float(champion.mean()),
        gain=float(by_sample.mean()),
        between=paired_interval(by_sample, resampled(by_sample), 2 * gate.confidence - 1),
        recall_gain=recall_gain,
        weights_saved=weights_saved,
        samples=len(by_sample),
    )


def judge(comparison: Comparison | None, gate: Gate) -> tuple[bool, str]:
    """Tells whether a model becomes the champion, and why in one sentence."""
    if comparison is None:
        return True, NO_CHAMPION
    against = _against(comparison)
    losses = comparison.recall_gain
    worst = min(losses, key=lambda name: losses[name], default="")
    if gate.class_loss is not None and losses and losses[worst] < -gate.class_loss:
        return False, f"{against}, but class {worst} loses {-100 * losses[worst]:.2f} points"
    low, high = comparison.between
    if low > gate.better_by:
        return True, f"better than the champion: {against}"
    saves = comparison.weights_saved > 0
    if gate.tolerance is not None and saves and low >= -gate.tolerance:
        return True, f"smaller by {comparison.weights_saved:,} weights: {against}"
    if high < 0:
        return False, f"worse than the champion: {against}"
    return False, f"{_not_surely(comparison, gate.better_by)}: {against}"


def _not_surely(comparison: Comparison, better_by: float) -> str:
    """Says what a comparison is that leaves open which model is better, and what would tell."""
    margin = "better"
    if better_by:
        shown = abs(comparison.score.factor) * better_by
        margin = " ".join(filter(None, [f"more than {shown:g}", comparison.score.unit, "better"]))
    beyond = comparison.gain - better_by
    if beyond <= 0 and better_by:
        return f"not {margin} than the champion"
    if beyond < 0:
        return "perhaps worse than the champion, not surely"
    if not beyond:
        return "as good as the champion"
    # What a mean is between shrinks with the root of the number of samples.
    times = ((comparison.gain - comparison.between[0]) / beyond) ** 2
    sentence = f"perhaps {margin} than the champion, not surely"
    if times > MOST:
        return sentence
    return f"{sentence}; {_about(comparison.samples * times)} held-out samples would tell"


def _about(count: float) -> str:
    """Returns a count as a person says it, by its first two digits."""
    return f"about {float(f'{count:.2g}'):,.0f}"


def _against(comparison: Comparison) -> str:
    name, factor, unit = comparison.score
    ends = sorted(factor * end for end in comparison.between)
    is_share = unit == "points"
    digits = "+.2f" if is_share else "+.4g"
    gain, low, high = (f"{value:{digits}}" for value in (factor * comparison.gain, *ends))
    figure = " ".join(filter(None, [gain, unit, "" if is_share else f"of {name}"]))
    return f"{figure} against version {comparison.version} ({low} to {high})"
