"""The exit handler of every pipeline as a kfp component."""

from kfp import dsl

from trireme.components.images import BASE


@dsl.component(base_image=BASE, install_kfp_package=False)
def finish(
    status: dsl.PipelineTaskFinalStatus,
    pipeline: str,
    run: str,
    webhook_secret: str,
    workspace: str,
) -> None:
    """Ends a run however it went: closes its record, stops what it left running, and says so.

    Args:
        status: How the other steps have ended, as kfp tells it.
        pipeline: The pipeline's name.
        run: Id of the run, which its training jobs are named after.
        webhook_secret: The name of the Secret whose url is told. Empty: nobody is; there need not
            be one of the default name.
        workspace: The run workspace.
    """
    from pathlib import Path

    from trireme.components.finish.finish import finish
    from trireme.components.step import step

    with step("finish", workspace, is_charged=False):
        finish(
            status.state, status.error_message or "", pipeline, run, webhook_secret, Path(workspace)
        )
