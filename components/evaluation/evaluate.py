"""Evaluate a trained classifier on the held-out split of its dataset."""

import json
import zipfile
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from components.errors import InputError, StepFailed
from components.evaluation.gate import BETTER, Comparison, Gate, compare, judge, parsed
from components.evaluation.measures import Evaluation, measure
from components.export.onnx_file import load_onnx
from components.tracking import journal
from components.tracking.registry import Champion
from components.training.result.load import load_model
from components.training.result.trained import Answer, NotLoadable, TrainedModel

BATCH = 256  # samples that go through the model at a time


class Verdict(NamedTuple):
    """What the gate says.

    Attributes:
        passed: Whether the model may be exported.
        accuracy: Accuracy on the held-out split, 0 to 1; 0 when it could not be measured.
        reason: One sentence that says why.
        promote: Whether the model, once it is registered, becomes the champion.
        champion: The version that it was compared with; empty where there is none.
        against: One sentence on how it does against that.
    """

    passed: bool
    accuracy: float
    reason: str
    promote: bool = False
    champion: str = ""
    against: str = ""


class Judged(NamedTuple):
    """A verdict and the figures it rests on.

    Attributes:
        verdict: What the gate says.
        evaluation: The figures; None where the model could not be evaluated.
        comparison: Those against the champion; None where there is none.
    """

    verdict: Verdict
    evaluation: Evaluation | None
    comparison: Comparison | None


def check(min_accuracy: float, gate: dict[str, Any]) -> None:
    """Refuses a gate that cannot be.

    Raises:
        InputError: ``min_accuracy`` is not between 0 and 1, or ``gate`` no description of one.
    """
    if not 0 <= min_accuracy <= 1:
        raise InputError(f"min_accuracy {min_accuracy}: must be between 0 and 1")
    parsed(gate)


def evaluate(
    model: Path,
    data: Path,
    code: Path,
    entrypoint: str,
    factory: str,
    min_accuracy: float,
    gate: Gate = BETTER,
    champion: Champion | None = None,
) -> Judged:
    """Measures a trained model on data it never saw, and against the model in use.

    A model or dataset in a form that cannot be evaluated is no fault of the training: the
    verdict then says so, and the gate stays shut.

    Args:
        model: What was MODEL_DIR.
        data: The staged dataset; ``test.npz`` in it holds arrays ``x`` and ``y``.
        code: The training code's repository.
        entrypoint: The training program in it.
        factory: ``module:callable`` that builds the network, where the model needs it.
        min_accuracy: The least accuracy with which it is exported, 0 to 1.
        gate: With what it takes the champion's place; by default if it is surely better.
        champion: The model in use; None where there is none.
    """
    journal.log_params({"min_accuracy": min_accuracy, "gate": gate.model_dump_json()})
    try:
        inputs, labels = held_out(data)
        trained = load_model(model, code, entrypoint, factory)
        outputs = predict(trained.answer, inputs)
        evaluation = measure(outputs, labels, _classes(data))
    except NotLoadable as error:
        verdict = Verdict(False, 0.0, f"not evaluated: {error}")
        journal.log_tags({"gate": verdict.reason})
        journal.summarize(verdict.reason)
        return Judged(verdict, None, None)
    passed = evaluation.accuracy >= min_accuracy
    reason = (
        f"held-out accuracy {evaluation.accuracy:.4f} "
        f"{'reaches' if passed else 'is below'} min_accuracy {min_accuracy:g}"
    )
    right = outputs.argmax(1) == labels
    comparison, problem = _compared(champion, inputs, labels, right, evaluation, trained, gate)
    promote, against = judge(comparison, evaluation.classes, gate)
    against = problem or against
    verdict = Verdict(
        passed,
        evaluation.accuracy,
        reason,
        passed and promote and not problem,
        champion.version if champion else "",
        against,
    )
    _record(evaluation, comparison, verdict)
    return Judged(verdict, evaluation, comparison)


def _compared(
    champion: Champion | None,
    inputs: np.ndarray,
    labels: np.ndarray,
    right: np.ndarray,
    evaluation: Evaluation,
    trained: TrainedModel,
    gate: Gate,
) -> tuple[Comparison | None, str]:
    """Compares with the champion; returns the comparison, and why there is none where it failed."""
    if champion is None:
        return None, ""
    try:
        outputs = predict(load_onnx(champion.onnx), inputs)
        if outputs.ndim != 2:
            raise NotLoadable(f"it answers in the shape {outputs.shape}")
    except (NotLoadable, StepFailed) as error:
        return None, f"champion version {champion.version} cannot be compared with: {error}"
    weights = int(champion.tags.get("weights", "0"))
    return compare(
        champion.version,
        right,
        outputs.argmax(1) == labels,
        labels,
        len(evaluation.classes),
        weights - trained.weights if weights else 0,
        gate,
    ), ""


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


def _classes(data: Path) -> list[str]:
    """Returns the names of the classes; none where the dataset does not say."""
    try:
        names = json.loads((data / "dataset.json").read_text())["classes"]
    except (OSError, ValueError, KeyError, TypeError):
        return []
    return [str(name) for name in names] if isinstance(names, list) else []


def _record(evaluation: Evaluation, comparison: Comparison | None, verdict: Verdict) -> None:
    low, high = evaluation.accuracy_range
    figures = {
        "accuracy_low": low,
        "accuracy_high": high,
        "macro_f1": evaluation.macro_f1,
        "log_loss": evaluation.log_loss,
    }
    if evaluation.roc_auc is not None:
        figures["roc_auc"] = evaluation.roc_auc
    if comparison:
        figures |= {"champion_accuracy": comparison.accuracy, "gain": comparison.gain}
    journal.log_headline({"held_out_accuracy": evaluation.accuracy})
    journal.log_metrics(
        figures
        | {
            f"{measure}_{name}": value
            for measure in ("precision", "recall")
            for name, value in zip(evaluation.classes, getattr(evaluation, measure), strict=True)
        }
    )
    journal.log_tags({"gate": verdict.reason, "champion": verdict.against})
    journal.summarize(f"{verdict.reason}; {verdict.against}")
