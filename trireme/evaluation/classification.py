"""Measures of a classifier: the figures that scikit-learn has, and how sure they are."""

import numpy as np

from trireme.evaluation.answers import Answers
from trireme.evaluation.bootstrap import interval, resampled
from trireme.evaluation.figures import (
    FEW,
    NO_NUMBERS,
    WORST,
    Chart,
    Classes,
    Evaluation,
    Score,
    Worst,
)
from trireme.evaluation.roc import Roc, roc
from trireme.models.trained import NotLoadable

SCORE = Score("accuracy", 100, "points")


class Classification:
    """Takes in a classifier's answers, batch by batch."""

    score = SCORE

    def __init__(self, names: list[str]) -> None:
        self._names = names
        self._outputs: list[np.ndarray] = []
        self._predicted: list[np.ndarray] = []
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
            raise NotLoadable(*NO_NUMBERS)
        if labels.max() >= max(outputs.shape[1], len(self._names)):
            raise NotLoadable(
                f"the labels y hold the class {labels.max()}, but the model has "
                f"{outputs.shape[1]} classes"
            )
        self._outputs.append(outputs)
        self._predicted.append(outputs.argmax(1))
        self._labels.append(labels.astype(np.intp, copy=False))

    def scores(self) -> np.ndarray:
        """Returns 1 for each sample that is classified right, 0 for the others."""
        pairs = zip(self._predicted, self._labels, strict=True)
        return np.concatenate([predicted == labels for predicted, labels in pairs]).astype(float)

    def evaluation(self) -> Evaluation:
        """Returns what all batches together say."""
        labels, predicted = np.concatenate(self._labels), np.concatenate(self._predicted)
        right = self.scores()
        known = max(self._outputs[0].shape[1], int(labels.max()) + 1)
        names = self._names if len(self._names) == known else [str(n) for n in range(known)]
        answers = Answers(self._outputs)
        scales = answers.scales()
        likely = answers.of(scales, labels)
        curves = roc(answers.columns(scales, known), labels, likely)
        accuracy, (low, high) = float(right.mean()), interval(resampled(right))
        classes, macro_f1 = _classes(labels, predicted, names, curves)
        figures = {
            "accuracy": accuracy,
            "macro_f1": macro_f1,
            "log_loss": _log_loss(likely) if known > 1 else 0.0,
        }
        false, true, _ = curves.curve
        axes = ("false positive rate", "true positive rate")
        chart = Chart("ROC, all classes together", *axes, {"ROC": (false, true)})
        wrong = np.flatnonzero(predicted != labels)
        worst = wrong[np.argsort(likely[wrong], kind="stable")[:WORST]]
        sure = answers.of(scales, predicted)[worst]
        return Evaluation(
            headline=f"{100 * accuracy:.2f} % of {len(labels):,} held-out samples right",
            figures=figures | ({} if curves.area is None else {"roc_auc": curves.area}),
            between=(low, high),
            score=SCORE,
            scores=right,
            labels=labels,
            classes=classes,
            chart=None if curves.area is None else chart,
            worst=[
                Worst(
                    int(sample),
                    names[labels[sample]],
                    names[predicted[sample]],
                    f"{100 * share:.0f} % sure",
                )
                for sample, share in zip(worst, sure, strict=True)
            ],
        )


def _classes(
    labels: np.ndarray, predicted: np.ndarray, names: list[str], curves: Roc
) -> tuple[Classes, float]:
    """Returns what is found out class by class, and the F1 score of all that occur, on average."""
    count = len(names)
    hits, support, predictions = (
        np.bincount(classes, minlength=count)
        for classes in (labels[predicted == labels], labels, predicted)
    )
    either = support + predictions
    occur = either > 0
    classes = Classes(
        names=names,
        precision=(hits / np.maximum(predictions, 1)).tolist(),
        recall=(hits / np.maximum(support, 1)).tolist(),
        support=support.tolist(),
        confusion=_confusion(labels, predicted, count) if count <= FEW else [],
        roc=curves.curve,
    )
    return classes, float((2 * hits[occur] / either[occur]).mean())


def _confusion(labels: np.ndarray, predicted: np.ndarray, count: int) -> list[list[int]]:
    pairs = np.bincount(labels * count + predicted, minlength=count * count)
    return pairs.reshape(count, count).tolist()


def _log_loss(likely: np.ndarray) -> float:
    """Returns the mean loss of the true classes' probabilities, none of which counts as 0."""
    least = np.finfo(float).eps
    return float(-np.log(np.clip(likely, least, 1 - least)).mean())
