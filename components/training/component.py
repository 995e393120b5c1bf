"""The training step as a kfp component."""

from typing import NamedTuple

from kfp import dsl

from components.images import PYTORCH


@dsl.component(base_image=PYTORCH, install_kfp_package=False)
def train(
    entrypoint: str,
    args: list[str],
    workers: int,
    processes_per_worker: int,
    seed: int,
    time_limit: int,
    image: str,
    code: str,
    data: str,
    workspace: str,
) -> NamedTuple("Outputs", model=str, checkpoints=str):
    """Trains on one or several replicas with a program from the checked-out repository.

    Args:
        entrypoint: The training program, relative to the repository.
        args: Its arguments, passed on untouched.
        workers: Replicas besides the master.
        processes_per_worker: Processes in each replica.
        seed: What the program finds in SEED.
        time_limit: Seconds the job may run; 0 for no limit.
        image: Image of every replica.
        code: Where the checkout step put the repository.
        data: Where the dataset step put the data.
        workspace: The run workspace.

    Returns:
        model: Where the program left its model.
        checkpoints: Where it left its checkpoints.
    """
    from pathlib import Path

    from components.step import step
    from components.tracking import environment
    from components.training.launch import prepare, train

    with step("train", workspace):
        job = prepare(
            Path(workspace),
            code=code,
            data=data,
            image=image,
            entrypoint=entrypoint,
            args=args,
            workers=workers,
            processes_per_worker=processes_per_worker,
            seed=seed,
            time_limit=time_limit,
            tracking=environment.variables(),
        )
        return train(job, Path(workspace))
