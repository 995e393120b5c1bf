"""Evaluate a trained classifier on the held-out split of its dataset."""

import json
import zipfile
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

import numpy as np

from components.errors import InputError
from components.tracking import journal
from components.training.result.load import load_model
from components.training.result.trained import Answer, NotLoadable

BATCH = 256  # samples that go through the model at a time


class Verdict(NamedTuple):
    """What the gate says.

    Attributes:
        passed: Whether the model may be exported.
        accuracy: Accuracy on the held-out split, 0 to 1; 0 when it could not be measured.
        reason: One sentence that says why.
    """

    passed: bool
    accuracy: float
    reason: str


@dataclass(frozen=True)
class Evaluation:
    """How a classifier does on the held-out split.

    Attributes:
        classes: Names of the classes.
        accuracy: Share of samples classified right, 0 to 1.
        precision: Per class.
        recall: Per class.
        support: Held-out samples per class.
        confusion: Samples by true class (rows) and predicted class (columns).
    """

    classes: list[str]
    accuracy: float
    precision: list[float]
    recall: list[float]
    support: list[int]
    confusion: list[list[int]]


def check(min_accuracy: float) -> None:
    """Refuses a threshold that is not a share.

    Raises:
        InputError: ``min_accuracy`` is not between 0 and 1.
    """
    if not 0 <= min_accuracy <= 1:
        raise InputError(f"min_accuracy {min_accuracy}: must be between 0 and 1")


def evaluate(
    model: Path, data: Path, code: Path, entrypoint: str, factory: str, min_accuracy: float
) -> tuple[Verdict, Evaluation | None]:
    """Measures a trained model on data it never saw and holds it against a threshold.

    A model or dataset in a form that cannot be evaluated is no fault of the training: the
    verdict then says so, and the gate stays shut.

    Args:
        model: What was MODEL_DIR.
        data: The staged dataset; ``test.npz`` in it holds arrays ``x`` and ``y``.
        code: The training code's repository.
        entrypoint: The training program in it.
        factory: ``module:callable`` that builds the network, where the model needs it.
        min_accuracy: The least accuracy that passes, 0 to 1.

    Returns:
        The verdict, and the figures it rests on where there are any.

    Raises:
        InputError: ``min_accuracy`` is not between 0 and 1.
    """
    check(min_accuracy)
    journal.log_params({"min_accuracy": min_accuracy})
    try:
        inputs, labels = held_out(data)
        trained = load_model(model, code, entrypoint, factory)
        evaluation = _measure(predict(trained.answer, inputs), labels, _classes(data))
    except NotLoadable as error:
        verdict = Verdict(False, 0.0, f"not evaluated: {error}")
        journal.log_tags({"gate": verdict.reason})
        journal.summarize(verdict.reason)
        return verdict, None
    passed = evaluation.accuracy >= min_accuracy
    reason = (
        f"held-out accuracy {evaluation.accuracy:.4f} "
        f"{'reaches' if passed else 'is below'} min_accuracy {min_accuracy:g}"
    )
    _record(evaluation, reason)
    return Verdict(passed, evaluation.accuracy, reason), evaluation


def held_out(data: Path) -> tuple[np.ndarray, np.ndarray]:
    """Returns inputs and labels of a dataset's held-out split.

    Args:
        data: The staged dataset.

    Raises:
        NotLoadable: It has no held-out split in a known form.
    """
    file = data / "test.npz"
    if not file.exists():
        raise NotLoadable("the dataset has no test.npz with held-out samples")
    try:
        with np.load(file, allow_pickle=False) as arrays:
            inputs, labels = arrays["x"], arrays["y"]
    except (KeyError, ValueError, OSError, EOFError, zipfile.BadZipFile, AttributeError) as error:
        raise NotLoadable(f"test.npz cannot be used: {error}") from None
    if len(inputs) != len(labels) or len(labels) == 0:
        raise NotLoadable(f"test.npz holds {len(inputs)} samples and {len(labels)} labels")
    if labels.ndim != 1 or not np.issubdtype(labels.dtype, np.integer) or labels.min() < 0:
        raise NotLoadable("the labels y in test.npz are not class numbers, counted from 0")
    return inputs, labels


def predict(answer: Answer, inputs: np.ndarray) -> np.ndarray:
    """Returns a model's outputs, computed in batches.

    Args:
        answer: Returns the model's outputs for a batch.
        inputs: Samples along the first axis.

    Raises:
        NotLoadable: The model does not take these inputs.
    """
    try:
        outputs = [answer(inputs[start : start + BATCH]) for start in range(0, len(inputs), BATCH)]
    except Exception as error:
        reason = " ".join(str(error).split())[:300]
        raise NotLoadable(f"the model does not take the held-out samples: {reason}") from None
    return np.concatenate(outputs)


def _measure(logits: np.ndarray, labels: np.ndarray, names: list[str]) -> Evaluation:
    from sklearn.metrics import confusion_matrix, precision_recall_fscore_support

    if logits.ndim != 2 or len(logits) != len(labels):
        raise NotLoadable(f"the model answers in the shape {logits.shape}, not (samples, classes)")
    predicted = logits.argmax(1)
    classes = list(range(max(logits.shape[1], int(labels.max()) + 1)))
    precision, recall, _, support = precision_recall_fscore_support(
        labels, predicted, labels=classes, zero_division=0.0
    )
    return Evaluation(
        classes=names if len(names) == len(classes) else [str(index) for index in classes],
        accuracy=float((predicted == labels).mean()),
        precision=precision.tolist(),
        recall=recall.tolist(),
        support=support.tolist(),
        confusion=confusion_matrix(labels, predicted, labels=classes).tolist(),
    )


def _classes(data: Path) -> list[str]:
    """Returns the names of the classes; none where the dataset does not say."""
    try:
        names = json.loads((data / "dataset.json").read_text())["classes"]
    except (OSError, ValueError, KeyError, TypeError):
        return []
    return [str(name) for name in names] if isinstance(names, list) else []


def _record(evaluation: Evaluation, reason: str) -> None:
    journal.log_headline({"held_out_accuracy": evaluation.accuracy})
    journal.log_metrics(
        {
            f"{measure}_{name}": value
            for measure in ("precision", "recall")
            for name, value in zip(evaluation.classes, getattr(evaluation, measure), strict=True)
        }
    )
    journal.log_tags({"gate": reason})
    journal.summarize(reason)
