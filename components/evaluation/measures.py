"""How good a classifier is: scikit-learn's figures, and how sure they are."""

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from components.evaluation.gate import RESAMPLES
from components.training.result.trained import NotLoadable

CONFIDENCE = 0.95
ROC_POINTS = 100  # of a curve, which may have one for each sample
MISTAKES = 12  # that a person may want to look at


class Mistake(NamedTuple):
    """A sample that is classified wrong.

    Attributes:
        sample: Its number in the held-out split, from 0.
        truth: Its class.
        said: The class that the model takes it for.
        sure: The probability that the model gives that.
    """

    sample: int
    truth: str
    said: str
    sure: float


@dataclass(frozen=True)
class Evaluation:
    """How a classifier does on the held-out split.

    Attributes:
        classes: Names of the classes.
        accuracy: Share of samples classified right, 0 to 1.
        accuracy_range: What the accuracy is between, with a confidence of 95 %.
        macro_f1: Mean over the classes of the harmonic mean of precision and recall.
        log_loss: Mean negative logarithm of the probability given to the true class.
        roc_auc: Area under the ROC curve, every class against the others, averaged over the
            classes; None where the samples are of one class.
        roc: Points of the ROC curve of all classes' probabilities together: false positive
            rates, true positive rates and thresholds.
        precision: Per class.
        recall: Per class.
        support: Held-out samples per class.
        confusion: Samples by true class (rows) and predicted class (columns).
        mistakes: The worst ones: those whose true class the model thinks the least likely.
    """

    classes: list[str]
    accuracy: float
    accuracy_range: tuple[float, float]
    macro_f1: float
    log_loss: float
    roc_auc: float | None
    roc: tuple[list[float], list[float], list[float]]
    precision: list[float]
    recall: list[float]
    support: list[int]
    confusion: list[list[int]]
    mistakes: list[Mistake]


def measure(outputs: np.ndarray, labels: np.ndarray, names: list[str]) -> Evaluation:
    """Measures a classifier.

    Args:
        outputs: Probabilities or logits, of shape (samples, classes).
        labels: The true classes, counted from 0, of shape (samples).
        names: Of the classes; not used where there are more or fewer.

    Raises:
        NotLoadable: The outputs have another shape.
    """
    from sklearn.metrics import confusion_matrix, f1_score, precision_recall_fscore_support

    if outputs.ndim != 2 or len(outputs) != len(labels):
        raise NotLoadable(f"the model answers in the shape {outputs.shape}, not (samples, classes)")
    if not np.isfinite(outputs).all():
        raise NotLoadable("the model answers with numbers that are infinite or none at all (NaN)")
    predicted = outputs.argmax(1)
    classes = list(range(max(outputs.shape[1], int(labels.max()) + 1)))
    precision, recall, _, support = precision_recall_fscore_support(
        labels, predicted, labels=classes, zero_division=0.0
    )
    right = predicted == labels
    likely = _probabilities(outputs, len(classes))
    called = names if len(names) == len(classes) else [str(index) for index in classes]
    return Evaluation(
        classes=called,
        accuracy=float(right.mean()),
        accuracy_range=_range(right),
        macro_f1=float(f1_score(labels, predicted, average="macro", zero_division=0.0)),
        log_loss=_log_loss(likely, labels),
        roc_auc=_roc_auc(likely, labels),
        roc=_roc(likely, labels),
        precision=precision.tolist(),
        recall=recall.tolist(),
        support=support.tolist(),
        confusion=confusion_matrix(labels, predicted, labels=classes).tolist(),
        mistakes=_worst(likely, labels, predicted, called),
    )


def _worst(
    likely: np.ndarray, labels: np.ndarray, predicted: np.ndarray, names: list[str]
) -> list[Mistake]:
    wrong = np.flatnonzero(predicted != labels)
    worst = wrong[np.argsort(likely[wrong, labels[wrong]], kind="stable")][:MISTAKES]
    return [
        Mistake(
            int(sample),
            names[labels[sample]],
            names[predicted[sample]],
            float(likely[sample, predicted[sample]]),
        )
        for sample in worst
    ]


def _probabilities(outputs: np.ndarray, classes: int) -> np.ndarray:
    """Returns the probability of each class; 0 for one that the model does not know."""
    outputs = outputs.astype(float)
    are_probabilities = (outputs >= 0).all() and np.allclose(outputs.sum(1), 1, atol=1e-3)
    if not are_probabilities:
        powers = np.exp(outputs - outputs.max(1, keepdims=True))
        outputs = powers / powers.sum(1, keepdims=True)
    return np.pad(outputs, ((0, 0), (0, classes - outputs.shape[1])))


def _range(right: np.ndarray) -> tuple[float, float]:
    """Returns what the bootstrap says the accuracy is between."""
    share, samples = right.mean(), len(right)
    drawn = np.random.default_rng(0).binomial(samples, share, RESAMPLES) / samples
    low, high = np.quantile(drawn, [(1 - CONFIDENCE) / 2, (1 + CONFIDENCE) / 2])
    return float(low), float(high)


def _log_loss(likely: np.ndarray, labels: np.ndarray) -> float:
    from sklearn.metrics import log_loss

    if likely.shape[1] == 1:
        return 0.0  # scikit-learn wants two classes
    return float(log_loss(labels, likely, labels=np.arange(likely.shape[1])))


def _roc_auc(likely: np.ndarray, labels: np.ndarray) -> float | None:
    from sklearn.metrics import roc_auc_score

    known = np.unique(labels)
    if len(known) < 2:
        return None
    each = [roc_auc_score(labels == index, likely[:, index]) for index in known]
    return float(np.mean(each))


def _roc(likely: np.ndarray, labels: np.ndarray) -> tuple[list[float], list[float], list[float]]:
    from sklearn.metrics import roc_curve

    truth = np.arange(likely.shape[1]) == labels[:, None]
    false, true, thresholds = roc_curve(truth.ravel(), likely.ravel())
    thresholds[0] = 1.0  # where scikit-learn has infinity, which no JSON can hold
    false = np.nan_to_num(false)  # where there is one class only
    kept = np.unique(np.linspace(0, len(false) - 1, ROC_POINTS).astype(int))
    return false[kept].tolist(), true[kept].tolist(), thresholds[kept].tolist()
