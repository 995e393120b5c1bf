"""The exit handler of every pipeline as a kfp component."""

from kfp import dsl

from trireme.images import BASE


@dsl.component(base_image=BASE, install_kfp_package=False)
def finish(
    status: dsl.PipelineTaskFinalStatus,
    pipeline: str,
    run: str,
    webhook_secret: str,
    workspace: str,
    report: dsl.Output[dsl.HTML],
) -> None:
    """Ends a run, failed or not: closes its record, stops its jobs, and calls the webhook.

    Args:
        status: How the other steps have ended, as kfp reports it.
        pipeline: The pipeline's name.
        run: Id of the run, which its training jobs are named after.
        webhook_secret: The name of the Secret whose url gets the result. Empty: none; one of the
            default name is optional.
        workspace: The run workspace.
        report: A picture of the run: when its steps and replicas waited and ran, what they used,
            and why it failed.
    """
    from pathlib import Path

    from trireme.finish.finish import finish
    from trireme.tracked_step import step

    with step("finish", workspace, is_charged=False):
        finish(
            status.state,
            status.error_message or "",
            pipeline,
            run,
            webhook_secret,
            Path(workspace),
            Path(report.path),
        )
