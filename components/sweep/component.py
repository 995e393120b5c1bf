"""The steps of a sweep as kfp components."""

from typing import NamedTuple

from kfp import dsl

from trireme.components.training.component import PASSED_THROUGH
from trireme.images import BASE, PYTORCH


@dsl.component(base_image=BASE, install_kfp_package=False)
def plan(
    grid: dict,
    trials: list,
    framework: str,
    entrypoint: str,
    images: dict,
    early_stopping: dict,
    workspace: str,
    search: str = "grid",
    n_trials: int = 0,
    at_once: int = 4,
) -> NamedTuple("Outputs", Output=list[str], image=str):
    """Lists the trainings of a sweep.

    Args:
        grid: Lists of values and, for search random and tpe, ranges by name.
        trials: Values by name, a JSON object for each further training.
        framework: The framework of the training program.
        entrypoint: The training program; empty for the reference one.
        images: By framework, the image that evaluates and exports its models.
        early_stopping: Which trainings end early, with metric, goal and pruner; empty: none.
        workspace: The run workspace.
        search: grid, which tries all combinations, random, or tpe.
        n_trials: How many random and tpe try.
        at_once: How many steps share the trainings on a cluster: as many as run at the same time.

    Returns:
        Output: The share of each step, a JSON list of the trainings' numbers; called so because
            kfp.local takes a loop's items from nothing else.
        image: The image that evaluates and exports models of the framework.
    """
    from pathlib import Path

    from trireme.images import of_framework
    from trireme.sweep import search_space, sharing
    from trireme.tracked_step import step
    from trireme.tracking import journal

    with step("plan", workspace):
        found = search_space.trials(grid, trials, entrypoint, search, n_trials)
        if search != search_space.GRID or early_stopping:
            space = search_space.space(grid, trials, entrypoint, search)
            search_space.save(search, space, Path(workspace), early_stopping)
        journal.summarize(f"{len(found)} trainings")
        return sharing.shares(found, Path(workspace), at_once), of_framework(framework, images)


@dsl.component(
    base_image=PYTORCH, install_kfp_package=False, task_config_passthroughs=PASSED_THROUGH
)
def trial(
    trial: str,
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
    model_factory: str,
    code: str,
    data: str,
    run: str,
    workspace: str,
    task_config: dsl.TaskConfig,
    images: dict = {},  # noqa: B006 - kfp copies it
) -> str:
    """Trains and evaluates models of a sweep; a failure is reported and does not fail the run.

    Args:
        trial: Their numbers, a JSON list; here of one, on a cluster of a share of all.
        framework: As for the training step.
        entrypoint: As for the training step.
        args: As for the training step.
        workers: As for the training step.
        parameter_servers: As for the training step.
        processes_per_worker: As for the training step.
        seed: As for the training step.
        time_limit: As for the training step.
        budget: As for the training step.
        image: As for the training step.
        job: As for the training step.
        evaluation: As for the evaluation step.
        model_factory: As for the evaluation step.
        code: Path of the repository in the workspace.
        data: Path of the data in the workspace.
        run: Id of the run, which the job's name is made from.
        workspace: The run workspace.
        task_config: Settings of this task that the job's pods get.
        images: As for the training step.

    Returns:
        The same numbers; what came of them is in the run workspace.
    """
    from dataclasses import asdict, replace
    from functools import partial
    from pathlib import Path

    from trireme.data import base_model
    from trireme.evaluation import trials
    from trireme.job.job import TrainingJob
    from trireme.packages import use
    from trireme.runner.job_of_run import JobParameters, RunOfJob, job_of
    from trireme.step_names import TRIAL, in_a_loop
    from trireme.sweep import sharing, study
    from trireme.sweep.run_trial import EvaluationSettings, run_trial
    from trireme.sweep.search_space import Trial
    from trireme.tracked_step import step

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

    def job_of_trial(one: Trial, place: Path) -> TrainingJob:
        of_run = RunOfJob.of_step(Path(workspace), code, data, run=run, images=images)
        tried = replace(given, args=[*args, *one.options], **one.parameters)
        return job_of(tried, replace(of_run, workspace=place, trial=one.number))

    for one in sharing.trials_of(trial, Path(workspace)):
        name = in_a_loop(TRIAL, one.number)
        with step(name, workspace, is_one_of_many=sharing.is_many(trial)):
            use.use(Path(workspace))
            one, watch = study.ask(one, Path(workspace), seed)
            print(f"{name} {one.words}", flush=True)
            base = base_model.folder(Path(workspace))
            result = run_trial(
                one,
                partial(job_of_trial, one),
                EvaluationSettings(Path(data), Path(code), model_factory, evaluation, base),
                Path(workspace),
                asdict(task_config),
                budget,
                watch,
            )
            study.tell(one, result, Path(workspace))
        trials.save(result, Path(workspace))  # the last: it is not made again then
    return trial


@dsl.component(base_image=BASE, install_kfp_package=False)
def choose(tried: list, workspace: str) -> NamedTuple("Outputs", model=str, entrypoint=str):
    """Chooses the best model of a sweep as the model of the run.

    Args:
        tried: The numbers of the trainings; their results are in the run workspace, because they
            may be too long for an argument.
        workspace: The run workspace.

    Returns:
        model: Path of its MODEL_DIR.
        entrypoint: That program.
    """
    from pathlib import Path

    from trireme.sweep.choose import choose
    from trireme.tracked_step import step

    with step("choose", workspace):
        return choose(Path(workspace))
