"""The evaluation step as a kfp component."""

from typing import NamedTuple

from kfp import dsl

from trireme.images import PYTORCH


@dsl.component(base_image=PYTORCH, install_kfp_package=False)
def evaluate(
    model: str,
    data: str,
    code: str,
    entrypoint: str,
    model_factory: str,
    min_accuracy: float,
    gate: dict,
    evaluation: dict,
    model_name: str,
    workspace: str,
    metrics: dsl.Output[dsl.Metrics],
    confusion: dsl.Output[dsl.ClassificationMetrics],
    report: dsl.Output[dsl.HTML],
) -> NamedTuple(
    "Outputs", passed=bool, score=float, reason=str, promote=bool, champion=str, against=str
):
    """Evaluates the trained model on held-out data, and compares it with the champion.

    Args:
        model: Path of the MODEL_DIR of training.
        data: Path of the staged dataset.
        code: Path of the training code.
        entrypoint: The training program in it.
        model_factory: module:callable that builds the network, for a file of bare weights.
        min_accuracy: The lowest held-out accuracy that passes, 0 to 1.
        gate: Further thresholds and the conditions for becoming the champion, as in
            trireme.evaluation.gate.
        evaluation: Your own evaluation program in the repository, as in
            trireme.evaluation.custom.
        model_name: The registered model whose champion it is compared with.
        workspace: The run workspace.
        metrics: The metrics, such as accuracy.
        confusion: Confusion matrix and ROC curve of a classifier.
        report: The evaluation report, an HTML page.

    Returns:
        passed: Whether the model may be exported.
        score: Its headline metric on the held-out split; 0 if it could not be evaluated.
        reason: One sentence that says why it passed or not.
        promote: Whether it becomes the champion.
        champion: The version that it was compared with; empty if there is none.
        against: One sentence that compares it with that version.
    """
    from pathlib import Path

    from trireme.evaluation.evaluate import evaluate_and_report
    from trireme.packages.use import use
    from trireme.tracked_step import step

    with step("evaluate", workspace):
        use(Path(workspace))
        return evaluate_and_report(
            model=model,
            data=data,
            code=code,
            entrypoint=entrypoint,
            model_factory=model_factory,
            min_accuracy=min_accuracy,
            gate=gate,
            evaluation=evaluation,
            model_name=model_name,
            workspace=workspace,
            metrics=metrics,
            confusion=confusion,
            report=report,
        )
