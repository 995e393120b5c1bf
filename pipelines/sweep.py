"""The pipeline that trains many models and keeps the best."""

from collections.abc import Collection
from typing import Any

from kfp import dsl

from trireme.components.images import OF_REPLICAS, of_framework
from trireme.components.secrets import DEFAULTS
from trireme.components.sweep import component as steps
from trireme.components.sweep import search_space
from trireme.pipelines import training

AT_ONCE = 4
"""Trainings that run at the same time; kfp takes no parameter for it. Here it is two at most."""


@dsl.pipeline(name="sweep", display_name="Sweep", pipeline_config=training.CONFIG)
def sweep(
    framework: str = "pytorch",
    code_url: str = "",
    code_revision: str = "",
    code_secret: str = DEFAULTS["code"],
    code_directory: str = "",
    entrypoint: str = "",
    args: list = [],  # noqa: B006 - kfp reads the default, nothing changes it
    grid: dict = {},  # noqa: B006
    trials: list = [],  # noqa: B006
    dataset_uri: str = "builtin://digits",
    dataset_secret: str = DEFAULTS["dataset"],
    dataset_options: dict = {},  # noqa: B006
    workers: int = 1,
    processes_per_worker: int = 1,
    parameter_servers: int = 0,
    min_accuracy: float = 0.9,
    gate: dict = {},  # noqa: B006
    evaluation: dict = {},  # noqa: B006
    model_factory: str = "",
    model_name: str = "classifier",
    experiment: str = "",
    webhook_secret: str = DEFAULTS["webhook"],
    seed: int = 0,
    time_limit: int = 0,
    budget: float = 0.0,
    image: str = "",
    job: dict = {},  # noqa: B006
) -> None:
    """Trains many models with different parameters, and keeps the best if it is good enough.

    It is chosen by the samples in validation.npz or validation/x.npy and y.npy, where the dataset
    has them, otherwise by the held-out ones. A training that fails is told, and fails no run.

    Args:
        framework: What the training program is written in, pytorch or tensorflow.
        code_url: Git repository of the training code: an https, ssh, git or file URL, or a
            directory. Empty: the reference trainers that Trireme carries.
        code_revision: Branch, tag or commit. Empty: the repository's default branch; for a
            directory, the commit checked out in it.
        code_secret: The Secret that opens a private repository, if there is one of that name:
            username and password or token, or ssh-privatekey and known_hosts.
        code_directory: A directory in the repository, which becomes CODE_DIR. Empty: all of it.
        entrypoint: The training program, a .py file in the repository. Empty: the reference
            classifier of Trireme's own.
        args: Its arguments in all trainings, a JSON list of strings, passed through untouched.
        grid: Lists of values by name, a JSON object such as {"--width": [16, 32], "seed": [0, 1]}:
            every combination is tried. A name is an option of the program, which comes after args,
            or one of entrypoint, workers, processes_per_worker and seed. With neither grid nor
            trials three learning rates of the reference classifier are tried.
        trials: Further trainings, one by one: a JSON list of objects such as {"--width": 64}.
        dataset_uri: builtin://digits, a path or file:// URI, oss://bucket/path,
            s3://bucket/path, gs://bucket/path, https:// or http://.
        dataset_secret: The Secret that opens it, if there is one of that name.
        dataset_options: How it is reached and which part is meant, a JSON object, such as
            {"endpoint": "https://storage.example.org", "include": ["train/**"]}.
        workers: Replicas besides the master or chief, at most 999.
        processes_per_worker: PyTorch: processes in each replica, the master included.
        parameter_servers: TensorFlow: with any, PS/Worker mode with a chief.
        min_accuracy: The least held-out accuracy, 0 to 1, with which a classifier is exported.
        gate: What else it has to reach, such as {"most": {"rmse": 2.5}}, and with what it becomes
            the champion among the versions of model_name, such as {"better_by": 0.01,
            "class_loss": 0.02}, a JSON object; by default, if it is surely better.
        evaluation: A program of the repository that evaluates the model in place of Trireme, a JSON
            object, such as {"entrypoint": "evaluate.py", "args": ["--beams", "4"]}.
        model_factory: PyTorch: module:callable that builds the network, needed where the program
            saves bare weights.
        model_name: The registered model in MLflow that an exported model becomes a version of.
        experiment: The MLflow experiment. Empty: the one that MLFLOW_EXPERIMENT_ID names, or
            else one called like the pipeline.
        webhook_secret: The Secret with the url that is told what came of the run, if there is one
            of that name.
        seed: What the training program finds in SEED.
        time_limit: Seconds that each training may take; 0 for no limit.
        budget: The most that each training may cost, in the currency of the price table; 0 for no
            limit.
        image: Container image of the training replicas, used where the job runs in containers.
            Empty: Trireme's own, that for GPUs where the job has any.
        job: Further fields of the training job, a JSON object, such as {"gpu": 1} or
            {"elastic": {"min": 1, "max": 4}}; 'trireme job schema' lists them.
    """
    given: dict[str, Any] = training.NOT_EVERYWHERE | locals()
    workspace = dsl.WORKSPACE_PATH_PLACEHOLDER
    with training.finishing("sweep", given):
        prepared = training.prepare(given)
        planned = steps.plan(
            grid=grid,
            trials=trials,
            framework=framework,
            entrypoint=entrypoint,
            images=training.IMAGES,
            workspace=workspace,
        )
        planned.after(prepared.data)
        with dsl.ParallelFor(planned.outputs["Output"], name="trials", parallelism=AT_ONCE) as one:
            tried = steps.trial(
                trial=one,
                framework=framework,
                **{name: given[name] for name in training.OF_THE_JOB},
                images=OF_REPLICAS,
                budget=budget,
                job=job,
                evaluation=evaluation,
                model_factory=model_factory,
                code=prepared.code.outputs["path"],
                data=prepared.data.outputs["path"],
                run=dsl.PIPELINE_JOB_ID_PLACEHOLDER,
                workspace=workspace,
            )
            tried.set_container_image(planned.outputs["image"])
        chosen = steps.choose(tried=dsl.Collected(tried.output), workspace=workspace)
        given["entrypoint"] = chosen.outputs["entrypoint"]
        training.evaluate_and_export(
            planned.outputs["image"], given, prepared, chosen.outputs["model"]
        )
    training.set_up(planned, tried, chosen)


def check(parameters: dict[str, Any], claims: Collection[str] | None = None) -> None:
    """Refuses parameters that could not work, before anything is created.

    Args:
        parameters: A value for every parameter.
        claims: Where the run is on a cluster: the claims that its pods have mounted.

    Raises:
        InputError: One sentence on the first that is wrong.
    """
    of_framework(parameters["framework"], training.IMAGES)
    trials = _trials(parameters)
    training.check(parameters["framework"], parameters | trials[0].parameters, claims)
    for trial in trials[1:]:
        if trial.parameters:
            training.trainings(parameters["framework"], parameters | trial.parameters)


def _trials(parameters: dict[str, Any]) -> list[search_space.Trial]:
    return search_space.trials(*(parameters[name] for name in ("grid", "trials", "entrypoint")))


def trainings(parameters: dict[str, Any]) -> training.Trainings:
    """Returns the trainings that a sweep makes.

    Args:
        parameters: A value for every parameter.

    Raises:
        InputError: One of them is wrong.
    """
    trials = _trials(parameters)
    jobs = [
        training.trainings(parameters["framework"], parameters | trial.parameters).job
        for trial in trials
    ]
    largest = max(jobs, key=lambda job: job.world_size)
    return training.Trainings(largest, len(trials), min(AT_ONCE, len(trials)))
