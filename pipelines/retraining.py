"""The pipeline that trains again when there is something new to learn from."""

from collections.abc import Collection
from typing import Any

from kfp import dsl

from trireme.components.deployment.kinds import check_kind
from trireme.components.images import of_framework
from trireme.components.kubernetes.connection import Cluster
from trireme.components.retraining.component import compare
from trireme.components.secrets import DEFAULTS
from trireme.pipelines import training


@dsl.pipeline(name="retraining", display_name="Retraining", pipeline_config=training.CONFIG)
def retraining(
    framework: str = "pytorch",
    code_url: str = "",
    code_revision: str = "",
    code_secret: str = DEFAULTS["code"],
    code_directory: str = "",
    entrypoint: str = "",
    args: list = [],  # noqa: B006 - kfp reads the default, nothing changes it
    dataset_uri: str = "builtin://digits",
    dataset_secret: str = DEFAULTS["dataset"],
    dataset_options: dict = {},  # noqa: B006
    workers: int = 1,
    processes_per_worker: int = 1,
    parameter_servers: int = 0,
    warm_start: bool = False,
    force: bool = False,
    min_accuracy: float = 0.9,
    gate: dict = {},  # noqa: B006
    evaluation: dict = {},  # noqa: B006
    model_factory: str = "",
    model_name: str = "classifier",
    deploy: str = "",
    experiment: str = "",
    webhook_secret: str = DEFAULTS["webhook"],
    seed: int = 0,
    time_limit: int = 0,
    budget: float = 0.0,
    image: str = "",
    job: dict = {},  # noqa: B006
) -> None:
    """Trains again if code, data or parameters have changed, and keeps the better model.

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
        args: Its arguments, a JSON list of strings, passed through untouched.
        dataset_uri: builtin://digits, a path or file:// URI, oss://bucket/path,
            s3://bucket/path, gs://bucket/path, https:// or http://.
        dataset_secret: The Secret that opens it, if there is one of that name.
        dataset_options: How it is reached and which part is meant, a JSON object, such as
            {"endpoint": "https://storage.example.org", "include": ["train/**"]}.
        workers: Replicas besides the master or chief, at most 999.
        processes_per_worker: PyTorch: processes in each replica, the master included.
        parameter_servers: TensorFlow: with any, PS/Worker mode with a chief.
        warm_start: Whether the program finds what the champion's training left, in WARM_START_DIR.
        force: Train even if nothing has changed.
        min_accuracy: The least held-out accuracy, 0 to 1, with which a classifier is exported.
        gate: What else it has to reach, such as {"most": {"rmse": 2.5}}, and with what it becomes
            the champion among the versions of model_name, such as {"better_by": 0.01,
            "class_loss": 0.02}, a JSON object; by default, if it is surely better.
        evaluation: A program of the repository that evaluates the model in place of Trireme, a JSON
            object, such as {"entrypoint": "evaluate.py", "args": ["--beams", "4"]}.
        model_factory: PyTorch: module:callable that builds the network, needed where the program
            saves bare weights.
        model_name: The registered model whose champion is to be beaten.
        deploy: deployment or kserve: a new champion is deployed so. Empty: it is not.
        experiment: The MLflow experiment. Empty: the one that MLFLOW_EXPERIMENT_ID names, or
            else one called like the pipeline.
        webhook_secret: The Secret with the url that is told what came of the run, if there is one
            of that name.
        seed: What the training program finds in SEED.
        time_limit: Seconds that training may take; 0 for no limit.
        budget: The most that training may cost, in the currency of the price table; 0 for no limit.
        image: Container image of the training replicas, used where the job runs in containers.
            Empty: Trireme's own, that for GPUs where the job has any.
        job: Further fields of the training job, a JSON object, such as {"gpu": 1} or
            {"elastic": {"min": 1, "max": 4}}; 'trireme job schema' lists them.
    """
    given = locals()
    workspace = dsl.WORKSPACE_PATH_PLACEHOLDER
    with training.finishing("retraining", given):
        prepared = training.prepare(given)
        compared = compare(
            framework=framework,
            **{name: given[name] for name in training.OF_THE_JOB},
            job=job,
            commit=prepared.code.outputs["commit"],
            fingerprint=prepared.data.outputs["fingerprint"],
            code=prepared.code.outputs["path"],
            data=prepared.data.outputs["path"],
            model_name=model_name,
            warm_start=warm_start,
            force=force,
            min_accuracy=min_accuracy,
            gate=gate,
            evaluation=evaluation,
            model_factory=model_factory,
            images=training.IMAGES,
            workspace=workspace,
        )
        with dsl.If(compared.outputs["changed"] == True, name="changed"):  # noqa: E712
            given["entrypoint"] = compared.outputs["entrypoint"]
            trained = training.training(framework, given, prepared, start=compared.outputs["start"])
            training.evaluate_and_export(
                compared.outputs["image"], given, prepared, trained.outputs["model"], deploy
            )
    training.set_up(compared)


def check(parameters: dict[str, Any], claims: Collection[str] | None = None) -> None:
    """Refuses parameters that could not work, before anything is created.

    Args:
        parameters: A value for every parameter.
        claims: Where the run is on a cluster: the claims that its pods have mounted.

    Raises:
        InputError: One sentence on the first that is wrong.
    """
    of_framework(parameters["framework"], training.IMAGES)
    training.check(parameters["framework"], parameters, claims)
    if parameters["deploy"]:
        check_kind("deploy", parameters["deploy"])
        if claims is None:
            Cluster()  # refuses in a sentence where there is none


def trainings(parameters: dict[str, Any]) -> training.Trainings:
    """Returns the training that there is if something has changed.

    Args:
        parameters: A value for every parameter.

    Raises:
        InputError: One of them is wrong.
    """
    return training.trainings(parameters["framework"], parameters)
