"""Evaluate a trained model on the held-out split of its dataset, and against the one in use."""

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from trireme.data import base_model
from trireme.data.holdout import for_evaluation
from trireme.errors import StepFailed
from trireme.evaluation import custom
from trireme.evaluation import report as page
from trireme.evaluation.figures import Evaluation
from trireme.evaluation.gate import (
    BETTER,
    Comparison,
    Judged,
    Verdict,
    check_thresholds,
    compare,
    judge,
)
from trireme.evaluation.held_out import held_out
from trireme.evaluation.kinds import class_names, measure
from trireme.evaluation.onnx_file import load_onnx
from trireme.evaluation.options import MENDED, CustomEvaluation, Gate, check, custom_evaluation
from trireme.evaluation.source import Source
from trireme.evaluation.trials import results
from trireme.files import left_files
from trireme.models.load import framework_of
from trireme.models.trained import NotLoadable
from trireme.pages import REPORT
from trireme.tracking import journal, registry
from trireme.tracking.registry import CHAMPION, Champion


class _Evaluated(NamedTuple):
    """Metrics of a model, its scores, and its number of weights; 0 where that is not known."""

    evaluation: Evaluation
    weights: int
    scores_of: Callable[[Champion], np.ndarray]


def evaluate(
    source: Source,
    data: Path,
    min_accuracy: float,
    gate: Gate = BETTER,
    champion: Champion | None = None,
) -> Judged:
    """Evaluates a trained model on held-out data, and against the champion.

    A model or dataset in a form that cannot be evaluated is no error: the verdict says so.
    """

    def evaluated() -> _Evaluated:
        source.check()
        framework_of(source.model)  # what is wrong with the model is told before what data lack
        samples, names = held_out(data), class_names(data)
        trained = source.load()
        measurement = measure(trained.predict, samples, names)
        evaluation, score = measurement.evaluation(), measurement.score
        del measurement  # with all answers, before there are those of the champion

        def scores_of(champion: Champion) -> np.ndarray:
            if champion.onnx is None:
                raise NotLoadable("it has no ONNX file")
            other = measure(load_onnx(champion.onnx), samples, names)
            if other.score != score:
                raise NotLoadable("it is a model of another kind")
            return other.scores()

        return _Evaluated(evaluation, trained.weights, scores_of)

    return _judged(evaluated, min_accuracy, gate, champion)


def evaluate_with(
    program: CustomEvaluation,
    directory: Path,
    source: Source,
    data: Path,
    min_accuracy: float,
    gate: Gate = BETTER,
    champion: Champion | None = None,
) -> Judged:
    """Has a program of the user's evaluate a model and, in a folder below, the champion."""

    def evaluated() -> _Evaluated:
        source.check()
        custom.run(program, source, data, directory)
        try:
            reported = custom.read(directory)
        except NotLoadable as error:
            raise StepFailed(f"evaluation.entrypoint {program.entrypoint!r}: {error}") from None

        def scores_of(champion: Champion) -> np.ndarray:
            if not reported.score.name:
                raise NotLoadable("the evaluation wrote no scores.npy")
            if champion.trained is None:
                raise NotLoadable("its model is no longer in MLflow")
            champion_source = source._replace(model=champion.trained)
            custom.run(program, champion_source, data, directory / CHAMPION, tracked=False)
            scores = custom.read(directory / CHAMPION).scores
            if scores.shape != reported.scores.shape:
                raise NotLoadable(f"it has {len(scores)} scores, the model {len(reported.scores)}")
            return scores

        return _Evaluated(reported, 0, scores_of)

    judged = _judged(evaluated, min_accuracy, gate, champion)
    if directory.exists():  # with the champion's part, which may be of a program that failed
        left_files.tidy(directory, "EVALUATION_DIR")
    return judged


def _judged(
    find: Callable[[], _Evaluated], min_accuracy: float, gate: Gate, champion: Champion | None
) -> Judged:
    journal.log_params({"min_accuracy": min_accuracy, "gate": gate.model_dump_json()})
    try:
        evaluated = find()
    except NotLoadable as error:
        why = "; ".join(filter(None, (str(error), error.way_out)))
        verdict = Verdict(False, 0.0, f"not evaluated: {why}")
        journal.log_tags({"gate": verdict.reason})
        journal.summarize(f"not exported: {verdict.reason}")
        return Judged(verdict, None, None)
    evaluation = evaluated.evaluation
    passed, reason = check_thresholds(evaluation.by_name, gate, min_accuracy)
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
    weights = int(champion.tags.get("weights", "0"))
    saved = weights - evaluated.weights if weights and evaluated.weights else 0
    return compare(evaluated.evaluation, champion.version, scores, saved, gate), ""


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
    summary = verdict.reason if verdict.passed else f"not exported: {verdict.reason}"
    journal.summarize(f"{summary}; {verdict.against}")


def _gate(fields: dict[str, Any], workspace: Path) -> Gate:
    """Returns what is asked of the model, which is more of the best of a sweep's."""
    gate = Gate.read("gate", fields)
    tried = [result for result in results(workspace) if not result.failed]
    if len(tried) < 2 or all(result.is_validated for result in tried if result.has_model):
        return gate
    gate = gate.for_best_of(len(tried))
    print(
        f"it is the best of {len(tried)} by the samples that judge it now, so it has to be better "
        f"than the champion with a confidence of {gate.confidence:.2%}; a validation split would "
        "spare that",
        flush=True,
    )
    return gate


def _say_mended(workspace: Path, program: Path) -> None:
    """Records an evaluation program that is not that of the commit, of a run that was resumed."""
    file = workspace / MENDED
    if file.exists():
        about = json.loads(file.read_text())
        words = f"{about['file']} as it was when the run was resumed, sha256:{about['sha256']}"
        journal.log_tags({"evaluation.program": words})
        journal.log_artifact(program, "evaluation-program")


def evaluate_and_report(
    *,
    model: str,
    data: str,
    code: str,
    entrypoint: str,
    model_factory: str,
    min_accuracy: float,
    gate: dict[str, Any],
    evaluation: dict[str, Any],
    model_name: str,
    workspace: str,
    metrics: Any,
    confusion: Any,
    report: Any,
) -> Verdict:
    """Evaluates a model and writes the step's artifacts."""
    check(min_accuracy, gate, evaluation)
    program, folder = custom_evaluation(evaluation), Path(workspace)
    data_folder = for_evaluation(Path(data))
    champion = registry.champion_for(model_name, folder, trained=bool(program))
    start = base_model.folder(folder)
    source = Source(Path(model), Path(code), entrypoint, model_factory, start)
    against = min_accuracy, _gate(gate, folder), champion
    if program:
        output = folder / custom.FOUND
        shutil.rmtree(output, ignore_errors=True)  # of an earlier attempt
        _say_mended(folder, source.code / program.entrypoint)
        judged = evaluate_with(program, output, source, data_folder, *against)
        journal.log_artifact(output, "evaluation")
    else:
        judged = evaluate(source, data_folder, *against)
    if judged.evaluation:
        for name, value in judged.evaluation.recorded.items():
            metrics.log_metric(name, value)
        classes = judged.evaluation.classes
        if classes and classes.are_few:
            confusion.log_confusion_matrix(classes.names, classes.confusion)
        if classes:
            confusion.log_roc_curve(*classes.roc)
    report_file = folder / REPORT
    page.write(report_file, judged, folder, data_folder)
    page.hand_over(report_file, Path(report.path))
    return judged.verdict
