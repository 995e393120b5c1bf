"""What the evaluation step shows in the Kubeflow UI and keeps in MLflow."""

import shutil
from pathlib import Path
from typing import Any

from components.evaluation import report as page
from components.evaluation.evaluate import Verdict, check, evaluate
from components.evaluation.gate import parsed
from components.tracking import journal, registry


def evaluate_and_report(
    *,
    model: str,
    data: str,
    code: str,
    entrypoint: str,
    model_factory: str,
    min_accuracy: float,
    gate: dict[str, Any],
    model_name: str,
    about: dict[str, str],
    workspace: str,
    metrics: Any,
    confusion: Any,
    report: Any,
) -> Verdict:
    """Evaluates a model and writes the step's artifacts.

    Args:
        model: What was MODEL_DIR.
        data: The staged dataset.
        code: The training code's repository.
        entrypoint: The training program in it.
        model_factory: ``module:callable`` that builds the network, where the model needs it.
        min_accuracy: The least accuracy that passes, 0 to 1.
        gate: With what it takes the champion's place.
        model_name: The registered model whose champion it is compared with.
        about: What was trained on what, for the report.
        workspace: The run workspace; the report is kept there too, as ``report.html``.
        metrics: kfp's Metrics artifact.
        confusion: kfp's ClassificationMetrics artifact.
        report: kfp's HTML artifact.

    Returns:
        What the gate says.
    """
    check(min_accuracy, gate)
    judged = evaluate(
        Path(model),
        Path(data),
        Path(code),
        entrypoint,
        model_factory,
        min_accuracy,
        parsed(gate),
        registry.champion_for(model_name, Path(workspace)),
    )
    verdict, evaluation, _ = judged
    if evaluation:
        metrics.log_metric("accuracy", evaluation.accuracy)
        metrics.log_metric("macro_f1", evaluation.macro_f1)
        metrics.log_metric("log_loss", evaluation.log_loss)
        for index, name in enumerate(evaluation.classes):
            metrics.log_metric(f"precision_{name}", evaluation.precision[index])
            metrics.log_metric(f"recall_{name}", evaluation.recall[index])
        confusion.log_confusion_matrix(evaluation.classes, evaluation.confusion)
        confusion.log_roc_curve(*evaluation.roc)
    kept = Path(workspace, "report.html")
    page.write(kept, judged, about, Path(workspace), Path(data))
    Path(report.path).parent.mkdir(parents=True, exist_ok=True)
    shutil.copyfile(kept, report.path)
    journal.log_artifact(kept)
    return verdict
