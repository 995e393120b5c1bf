"""The step that decides whether to train again as a kfp component."""

from typing import NamedTuple

from kfp import dsl

from trireme.images import BASE


@dsl.component(base_image=BASE, install_kfp_package=False)
def compare(
    framework: str,
    entrypoint: str,
    args: list[str],
    workers: int,
    parameter_servers: int,
    processes_per_worker: int,
    seed: int,
    time_limit: int,
    image: str,
    job: dict,
    commit: str,
    fingerprint: str,
    base_model: str,
    code: str,
    data: str,
    model_name: str,
    warm_start: bool,
    force: bool,
    min_accuracy: float,
    gate: dict,
    evaluation: dict,
    model_factory: str,
    images: dict,
    workspace: str,
) -> NamedTuple(
    "Outputs", changed=bool, reason=str, start=str, entrypoint=str, image=str, champion=str
):
    """Compares code, data and parameters with what the champion was trained from.

    Args:
        framework: As for the training step.
        entrypoint: As for the training step.
        args: As for the training step.
        workers: As for the training step.
        parameter_servers: As for the training step.
        processes_per_worker: As for the training step.
        seed: As for the training step.
        time_limit: As for the training step.
        image: As for the training step.
        job: As for the training step.
        commit: The commit that was checked out.
        fingerprint: Fingerprint of the dataset.
        base_model: That of the base model; empty if there is none.
        code: Path of the repository in the workspace.
        data: Path of the data in the workspace.
        model_name: The registered model whose champion it is compared with.
        warm_start: Whether training starts from the champion's model.
        force: Whether to train even if nothing has changed.
        min_accuracy: As for the evaluation step.
        gate: As for the evaluation step.
        evaluation: As for the evaluation step.
        model_factory: As for the evaluation step.
        images: By framework, the image that evaluates and exports its models.
        workspace: The run workspace.

    Returns:
        changed: Whether to train.
        reason: One sentence that says why.
        start: Folder that training starts from; empty if there is none.
        entrypoint: The training program.
        image: The image that evaluates and exports models of this framework.
        champion: The version of the champion; empty if there is none.
    """
    from pathlib import Path

    from trireme.images import of_framework
    from trireme.retraining.compare import compare
    from trireme.runner.job_of_run import JobParameters, RunOfJob, job_of
    from trireme.tracked_step import step

    with step("compare", workspace):
        ours = of_framework(framework, images)
        given = JobParameters(
            framework=framework,
            entrypoint=entrypoint,
            args=args,
            workers=workers,
            parameter_servers=parameter_servers,
            processes_per_worker=processes_per_worker,
            seed=seed,
            time_limit=time_limit,
            image=image,
            job=job,
        )
        described = job_of(given, RunOfJob.of_step(Path(workspace), code, data))
        found = compare(
            described,
            commit,
            fingerprint,
            base_model,
            model_name,
            [min_accuracy, gate, evaluation, model_factory, warm_start],
            Path(workspace),
            warm_start=warm_start,
            force=force,
        )
        return *found[:3], described.entrypoint, ours, found.champion
