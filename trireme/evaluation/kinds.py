"""The kind of a model, told by its answers and by what is true of the samples."""

from collections import Counter
from pathlib import Path

import numpy as np

from trireme.evaluation import samples
from trireme.evaluation.classification import Classification
from trireme.evaluation.held_out import HeldOut, batches, outputs_of
from trireme.evaluation.language import Language
from trireme.evaluation.regression import Regression
from trireme.models.trained import NotLoadable, Predict
from trireme.trainers import splits

Measure = Classification | Regression | Language


def measure(predict: Predict, held_out: HeldOut, names: list[str]) -> Measure:
    """Asks a model about all samples and takes in its answers."""
    inputs, labels = held_out
    few = outputs_of(predict, inputs[:2])
    measure, labels = _kind(few, labels, names)
    for part in batches(inputs, few):
        measure.add(outputs_of(predict, inputs[part]), labels[part])
    return measure


def _kind(outputs: np.ndarray, labels: np.ndarray, names: list[str]) -> tuple[Measure, np.ndarray]:
    if _are_one_hot(labels):
        labels = labels.argmax(1)
    is_float = labels.dtype.kind == "f"
    if not is_float and labels.shape[1:] == (1,) and outputs.ndim == 2:
        labels = labels[:, 0]  # as Keras keeps them
    if is_float:
        _refuse_classes(outputs, labels)
        return Regression(), labels
    if labels.ndim == 2:
        return Language(), labels
    if labels.ndim > 2:
        raise NotLoadable(
            f"the labels y have the shape {labels.shape}, which fits no known kind of model"
        )
    if outputs.ndim == 1 or (outputs.shape[1:] == (1,) and labels.max() > 0):
        raise NotLoadable(
            "the model returns one number for each sample; a classifier has to return one for "
            "each class, and a regression needs floats as labels y"
        )
    return Classification(names), labels


def _refuse_classes(outputs: np.ndarray, labels: np.ndarray) -> None:
    """Refuses floats that stand for classes, as no regression is meant there."""
    if labels.ndim > 1 and labels.shape[1] > 1:
        return
    why = ""
    if outputs.ndim == 2 and outputs.shape[1] > 1:
        why = f"the model returns {outputs.shape[1]} numbers for each sample"
    elif ((labels == 0) | (labels == 1)).all():
        why = "they are all 0 or 1"
    if why:
        raise NotLoadable(
            f"the labels y are floats, as those of a regression, and {why}; a classifier's "
            "labels are integers, and it returns a number for each class"
        )


def _are_one_hot(labels: np.ndarray) -> bool:
    """Whether labels are rows of zeros with a one at the class, as Keras takes them."""
    if labels.ndim != 2 or labels.shape[1] < 2 or labels[0].sum() != 1:
        return False
    return bool((labels.sum(1) == 1).all() and ((labels == 0) | (labels == 1)).all())


def class_names(data: Path) -> list[str]:
    """Returns ``classes`` of dataset.json, or the folders of pictures; none where none are."""
    if (names := samples.said(data).get("classes")) is None:
        return splits.classes(data, "train")
    names = [str(name) for name in names] if isinstance(names, list) else []
    if twice := next((name for name, count in Counter(names).items() if count > 1), None):
        raise NotLoadable(f"dataset.json names two classes {twice!r}")
    return names
