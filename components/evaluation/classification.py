"""How good a classifier is: scikit-learn's figures, and how sure they are."""

import numpy as np

from trireme.components.evaluation.bootstrap import interval, resampled
from trireme.components.evaluation.figures import (
    NO_NUMBERS,
    WORST,
    Chart,
    Classes,
    Evaluation,
    Score,
    Worst,
    are_probabilities,
)
from trireme.components.training.result.trained import NotLoadable

ROC_POINTS = 100  # of a curve, which may have one for each sample

SCORE = Score("accuracy", 100, "points")


class Classification:
    """Takes in a classifier's answers, batch by batch."""

    score = SCORE

    def __init__(self, names: list[str]) -> None:
        self._names = names
        self._outputs: list[np.ndarray] = []
        self._labels: list[np.ndarray] = []

    def add(self, outputs: np.ndarray, labels: np.ndarray) -> None:
        """Takes in a batch.

        Args:
            outputs: Probabilities or logits, of shape (samples, classes).
            labels: The true classes, counted from 0, of shape (samples).
        """
        if outputs.ndim != 2:
            raise NotLoadable(
                f"the model's outputs have the shape {outputs.shape}, not (samples, classes)"
            )
        if labels.min() < 0:
            raise NotLoadable("the labels y are not class numbers, counted from 0")
        if not np.isfinite(outputs).all():
            raise NotLoadable(NO_NUMBERS)
        if labels.max() >= max(outputs.shape[1], len(self._names)):
            raise NotLoadable(
                f"the labels y hold the class {labels.max()}, but the model has "
                f"{outputs.shape[1]} classes"
            )
        self._outputs.append(outputs)
        self._labels.append(labels)

    def scores(self) -> np.ndarray:
        """Returns 1 for each sample that is classified right, 0 for the others."""
        pairs = zip(self._outputs, self._labels, strict=True)
        return np.concatenate([outputs.argmax(1) == labels for outputs, labels in pairs]).astype(
            float
        )

    def evaluation(self) -> Evaluation:
        """Returns what all batches together say."""
        from sklearn.metrics import f1_score

        outputs, labels = np.concatenate(self._outputs), np.concatenate(self._labels)
        predicted, right = outputs.argmax(1), self.scores()
        known = max(outputs.shape[1], int(labels.max()) + 1)
        likely = _probabilities(outputs, known)
        names = self._names if len(self._names) == known else [str(n) for n in range(known)]
        accuracy, (low, high) = float(right.mean()), interval(resampled(right))
        figures = {
            "accuracy": accuracy,
            "macro_f1": float(f1_score(labels, predicted, average="macro", zero_division=0.0)),
            "log_loss": _log_loss(likely, labels),
        }
        area = _roc_auc(likely, labels)
        classes = _classes(likely, labels, predicted, names)
        false, true, _ = classes.roc
        axes = ("false positive rate", "true positive rate")
        chart = Chart("ROC, all classes together", *axes, {"ROC": (false, true)})
        return Evaluation(
            headline=f"{100 * accuracy:.2f} % of {len(labels):,} held-out samples right",
            figures=figures | ({} if area is None else {"roc_auc": area}),
            between=(low, high),
            score=SCORE,
            scores=right,
            labels=labels,
            classes=classes,
            chart=None if area is None else chart,
            worst=_worst(likely, labels, predicted, names),
        )


def _classes(
    likely: np.ndarray, labels: np.ndarray, predicted: np.ndarray, names: list[str]
) -> Classes:
    from sklearn.metrics import confusion_matrix, precision_recall_fscore_support

    numbers = list(range(len(names)))
    precision, recall, _, support = precision_recall_fscore_support(
        labels, predicted, labels=numbers, zero_division=0.0
    )
    return Classes(
        names=names,
        precision=precision.tolist(),
        recall=recall.tolist(),
        support=support.tolist(),
        confusion=confusion_matrix(labels, predicted, labels=numbers).tolist(),
        roc=_roc(likely, labels),
    )


def _worst(
    likely: np.ndarray, labels: np.ndarray, predicted: np.ndarray, names: list[str]
) -> list[Worst]:
    """Returns the mistakes in which the model thinks the true class the least likely."""
    wrong = np.flatnonzero(predicted != labels)
    worst = wrong[np.argsort(likely[wrong, labels[wrong]], kind="stable")][:WORST]
    return [
        Worst(
            int(sample),
            names[labels[sample]],
            names[predicted[sample]],
            f"{100 * likely[sample, predicted[sample]]:.0f} % sure",
        )
        for sample in worst
    ]


def _probabilities(outputs: np.ndarray, classes: int) -> np.ndarray:
    """Returns the probability of each class; 0 for one that the model does not know."""
    outputs = outputs.astype(float)
    if not are_probabilities(outputs):
        powers = np.exp(outputs - outputs.max(1, keepdims=True))
        outputs = powers / powers.sum(1, keepdims=True)
    return np.pad(outputs, ((0, 0), (0, classes - outputs.shape[1])))


def _log_loss(likely: np.ndarray, labels: np.ndarray) -> float:
    from sklearn.metrics import log_loss

    if likely.shape[1] == 1:
        return 0.0  # scikit-learn wants two classes
    return float(log_loss(labels, likely, labels=np.arange(likely.shape[1])))


def _roc_auc(likely: np.ndarray, labels: np.ndarray) -> float | None:
    """Returns the area under the ROC curve, every class against the others, on average."""
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
