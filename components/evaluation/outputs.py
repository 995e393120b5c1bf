"""What the evaluation step shows in the Kubeflow UI and keeps in MLflow."""

import shutil
from pathlib import Path
from typing import Any

from trireme.components.evaluation import custom
from trireme.components.evaluation import report as page
from trireme.components.evaluation.evaluate import Verdict, evaluate, evaluate_with
from trireme.components.evaluation.options import Gate, check, custom_evaluation
from trireme.components.tracking import journal, registry


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
    own, place = custom_evaluation(evaluation), Path(workspace)
    champion = registry.champion_for(model_name, place, trained=bool(own))
    asked = Path(model), Path(data), Path(code)
    against = Gate.read("gate", gate), champion
    if own:
        found = place / custom.FOUND
        shutil.rmtree(found, ignore_errors=True)  # of an earlier attempt
        judged = evaluate_with(own, found, *asked, min_accuracy, *against)
        journal.log_artifact(found, "evaluation")
    else:
        judged = evaluate(*asked, entrypoint, model_factory, min_accuracy, *against)
    if judged.evaluation:
        for name, value in judged.evaluation.recorded.items():
            metrics.log_metric(name, value)
        classes = judged.evaluation.classes
        if classes and classes.are_few:
            confusion.log_confusion_matrix(classes.names, classes.confusion)
        if classes:
            confusion.log_roc_curve(*classes.roc)
    kept = place / page.NAME
    page.write(kept, judged, place, Path(data))
    page.hand_over(kept, Path(report.path))
    return judged.verdict
