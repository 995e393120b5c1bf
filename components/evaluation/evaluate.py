"""Evaluate a trained model on the held-out split of its dataset, and against the one in use."""

from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import numpy as np

from trireme.components.errors import StepFailed
from trireme.components.evaluation import custom
from trireme.components.evaluation.figures import Evaluation
from trireme.components.evaluation.gate import BETTER, Comparison, compare, judge, reached
from trireme.components.evaluation.held_out import held_out
from trireme.components.evaluation.kinds import class_names, measured
from trireme.components.evaluation.onnx_file import load_onnx
from trireme.components.evaluation.options import CustomEvaluation, Gate
from trireme.components.tracking import journal
from trireme.components.tracking.registry import CHAMPION, Champion
from trireme.components.training.result.load import load_model
from trireme.components.training.result.trained import NotLoadable


class Verdict(NamedTuple):
    """What the gate says.

    Attributes:
        score: Its headline figure on the held-out split, such as the accuracy, 0 to 1; 0 when
            it could not be evaluated.
        champion: The version that it was compared with; empty where there is none.
        against: One sentence on how it does against that.
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


class _Evaluated(NamedTuple):
    """Figures of a model, and what is needed to compare another with it.

    Attributes:
        weights: How many numbers the model has learned; 0 where that is not known.
    """

    evaluation: Evaluation
    weights: int
    scores_of: Callable[[Champion], np.ndarray]


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
        factory: ``module:callable`` that builds the network, where the model needs it.
        min_accuracy: The least accuracy with which it is exported, 0 to 1, of a model that has
            one.
    """

    def measure() -> _Evaluated:
        samples, names = held_out(data), class_names(data)
        trained = load_model(model, code, entrypoint, factory)
        found = measured(trained.answer, samples, names)

        def scores_of(champion: Champion) -> np.ndarray:
            if champion.onnx is None:
                raise NotLoadable("it has no ONNX file")
            other = measured(load_onnx(champion.onnx), samples, names)
            if other.score != found.score:
                raise NotLoadable("it is a model of another kind")
            return other.scores()

        return _Evaluated(found.evaluation(), trained.weights, scores_of)

    return _judged(measure, min_accuracy, gate, champion)


def evaluate_with(
    own: CustomEvaluation,
    directory: Path,
    model: Path,
    data: Path,
    code: Path,
    min_accuracy: float,
    gate: Gate = BETTER,
    champion: Champion | None = None,
) -> Judged:
    """Has a program of the user's measure a model, and the model in use.

    Args:
        directory: Where it leaves what it finds; what it finds of the champion is in
            ``champion`` there.
    """

    def measure() -> _Evaluated:
        custom.run(own, model, data, code, directory)
        try:
            found = custom.read(directory)
        except NotLoadable as error:
            raise StepFailed(f"evaluation.entrypoint {own.entrypoint!r}: {error}") from None

        def scores_of(champion: Champion) -> np.ndarray:
            if not found.score.name:
                raise NotLoadable("the evaluation left no scores.npy")
            if champion.trained is None:
                raise NotLoadable("what its training left is not in MLflow any more")
            custom.run(own, champion.trained, data, code, directory / CHAMPION, tracked=False)
            scores = custom.read(directory / CHAMPION).scores
            if scores.shape != found.scores.shape:
                raise NotLoadable(f"it has {len(scores)} scores, the model {len(found.scores)}")
            return scores

        return _Evaluated(found, 0, scores_of)

    return _judged(measure, min_accuracy, gate, champion)


def _judged(
    measure: Callable[[], _Evaluated],
    min_accuracy: float,
    gate: Gate,
    champion: Champion | None,
) -> Judged:
    journal.log_params({"min_accuracy": min_accuracy, "gate": gate.model_dump_json()})
    try:
        evaluated = measure()
    except NotLoadable as error:
        verdict = Verdict(False, 0.0, f"not evaluated: {error}")
        journal.log_tags({"gate": verdict.reason})
        journal.summarize(f"not exported: {verdict.reason}")
        return Judged(verdict, None, None)
    evaluation = evaluated.evaluation
    passed, reason = reached(evaluation.by_name, gate, min_accuracy)
    comparison, problem = _compared(champion, evaluated, gate)
    promote, against = judge(comparison, gate)
    verdict = Verdict(
        passed,
        evaluation.first[1],
        reason,
        passed and promote and not problem,
        champion.version if champion else "",
        problem or against,
    )
    _record(evaluation, comparison, verdict)
    return Judged(verdict, evaluation, comparison)


def _compared(
    champion: Champion | None, evaluated: _Evaluated, gate: Gate
) -> tuple[Comparison | None, str]:
    """Compares with the champion; returns the comparison, and why there is none where it failed."""
    if champion is None:
        return None, ""
    try:
        scores = evaluated.scores_of(champion)
    except (NotLoadable, StepFailed) as error:
        return None, f"champion version {champion.version} cannot be compared with: {error}"
    evaluation, weights = evaluated.evaluation, int(champion.tags.get("weights", "0"))
    return compare(
        champion.version,
        evaluation.score,
        evaluation.scores,
        scores,
        weights - evaluated.weights if weights and evaluated.weights else 0,
        gate,
        evaluation.labels,
        evaluation.classes,
    ), ""


def _record(evaluation: Evaluation, comparison: Comparison | None, verdict: Verdict) -> None:
    (name, value), figures = evaluation.first, evaluation.others
    if evaluation.between:
        figures[f"{name}_low"], figures[f"{name}_high"] = evaluation.between
    if comparison:
        of_champion = f"champion_{comparison.score.name.replace(' ', '_')}"
        figures |= {of_champion: comparison.champion_shown, "gain": comparison.gain}
    journal.log_headline({f"held_out_{name}": value})
    journal.log_metrics(figures)
    journal.log_tags({"gate": verdict.reason, "champion": verdict.against})
    said = verdict.reason if verdict.passed else f"not exported: {verdict.reason}"
    journal.summarize(f"{said}; {verdict.against}")
