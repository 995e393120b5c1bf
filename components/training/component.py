"""The training step as a kfp component."""

from typing import NamedTuple

from kfp import dsl

from trireme.images import BASE

PASSED_THROUGH = [
    dsl.TaskConfigField.RESOURCES,
    dsl.TaskConfigField.KUBERNETES_TOLERATIONS,
    dsl.TaskConfigField.KUBERNETES_NODE_SELECTOR,
    dsl.TaskConfigField.KUBERNETES_AFFINITY,
    dsl.TaskConfigPassthrough(field=dsl.TaskConfigField.ENV, apply_to_task=True),
    dsl.TaskConfigPassthrough(field=dsl.TaskConfigField.KUBERNETES_VOLUMES, apply_to_task=True),
]
"""What is set on the task is meant for the job's pods; the step itself only waits for them."""


@dsl.component(base_image=BASE, install_kfp_package=False, task_config_passthroughs=PASSED_THROUGH)
def train(
    framework: str,
    entrypoint: str,
    args: list[str],
    workers: int,
    parameter_servers: int,
    processes_per_worker: int,
    seed: int,
    time_limit: int,
    budget: float,
    image: str,
    job: dict,
    evaluation: dict,
    code: str,
    data: str,
    run: str,
    workspace: str,
    task_config: dsl.TaskConfig,
    start: str = "",
    images: dict = {},  # noqa: B006 - kfp copies it
) -> NamedTuple("Outputs", model=str, checkpoints=str):
    """Trains on one or several replicas with a program from the checked-out repository.

    Args:
        framework: That of TrainingJob, such as pytorch; 'trireme job schema' lists them.
        entrypoint: The training program, relative to the repository.
        args: Its arguments; $(NAME) in them stands for a variable.
        workers: Replicas besides the master or chief; -1: one process, but reference trainers run
            on several.
        parameter_servers: TensorFlow: parameter servers; with any, PS/Worker mode with a chief.
        processes_per_worker: Processes in each replica.
        seed: The seed, which the program finds in SEED.
        time_limit: Seconds the job may run; 0 for no limit.
        budget: The most that the job may cost, in the price table's currency; 0 for no limit.
        image: Image of every replica; empty for Trireme's own.
        job: Further fields of the training job, as in 'trireme job schema'.
        evaluation: The evaluation program; the repository is checked for it before training.
        code: Path of the repository in the workspace.
        data: Path of the data in the workspace.
        run: Id of the run, which the job's name is made from.
        workspace: The run workspace.
        task_config: Settings of this task that the job's pods get.
        start: The WARM_START_DIR: a folder, or runs:/ID of a pipeline run; empty if there is none.
        images: Images to pull in place of Trireme's own, by name.

    Returns:
        model: Path of its MODEL_DIR.
        checkpoints: Path of its CHECKPOINT_DIR.
    """
    from dataclasses import asdict
    from pathlib import Path

    from trireme.runner import training_step
    from trireme.runner.job_of_run import JobParameters, RunOfJob, job_of
    from trireme.tracked_step import step
    from trireme.tracking import lineage

    with step("train", workspace):
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
        at = lineage.start_folder(start, Path(workspace))
        of_run = RunOfJob.of_step(Path(workspace), code, data, run=run, images=images, start=at)
        described = job_of(given, of_run)
        training_step.say_size(described, workers)
        later = evaluation.get("entrypoint", "")
        return training_step.train(described, Path(workspace), asdict(task_config), later, budget)
