"""The export step as a kfp component."""

from typing import NamedTuple

from kfp import dsl

from trireme.images import PYTORCH


@dsl.component(base_image=PYTORCH, install_kfp_package=False)
def export(
    model: str,
    data: str,
    code: str,
    entrypoint: str,
    model_factory: str,
    model_name: str,
    promote: bool,
    champion: str,
    workspace: str,
    exported: dsl.Output[dsl.Model],
    report: dsl.Output[dsl.HTML],
) -> NamedTuple("Outputs", path=str, difference=float):
    """Exports the trained model to files that need no training code, checks and registers them.

    Args:
        model: Path of the MODEL_DIR of training.
        data: Path of the staged dataset; the files are checked on its held-out samples.
        code: Path of the training code.
        entrypoint: The training program in it.
        model_factory: module:callable that builds the network, for a file of bare weights.
        model_name: The registered model that this becomes a version of.
        promote: Whether it becomes the champion.
        champion: The champion that it was better than; empty if there was none.
        workspace: The run workspace.
        exported: The exported files.
        report: The evaluation report with the exported files.

    Returns:
        path: Path of the files in the workspace.
        difference: Largest absolute difference of any file's outputs from the model's.
    """
    from pathlib import Path

    from trireme.exporting.export import export_and_report
    from trireme.packages.use import use
    from trireme.tracked_step import step

    with step("export", workspace):
        use(Path(workspace))
        return export_and_report(
            model=model,
            data=data,
            code=code,
            entrypoint=entrypoint,
            model_factory=model_factory,
            model_name=model_name,
            promote=promote,
            champion=champion,
            workspace=workspace,
            exported=exported,
            report=report,
        )
