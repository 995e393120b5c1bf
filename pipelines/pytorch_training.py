"""The PyTorch training pipeline."""

from functools import partial

from kfp import dsl

from trireme.components.secrets import DEFAULTS
from trireme.pipelines import training

check = partial(training.check, "pytorch")
trainings = partial(training.trainings, "pytorch")


@dsl.pipeline(
    name="pytorch-training",
    display_name="PyTorch training",
    pipeline_config=training.CONFIG,
)
def pytorch_training(
    code_url: str = "",
    code_revision: str = "",
    code_secret: str = DEFAULTS["code"],
    code_directory: str = "",
    entrypoint: str = "components/trainers/pytorch/classifier.py",
    args: list = [],  # noqa: B006 - kfp reads the default, nothing changes it
    dataset_uri: str = "builtin://digits",
    dataset_secret: str = DEFAULTS["dataset"],
    dataset_options: dict = {},  # noqa: B006
    workers: int = 1,
    processes_per_worker: int = 1,
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
    """Trains a PyTorch model on one or many processes and keeps it if it is good enough.

    Args:
        code_url: Git repository of the training code: an https, ssh, git or file URL, or a
            directory. Empty: the reference trainers that Trireme carries.
        code_revision: Branch, tag or commit. Empty: the repository's default branch; for a
            directory, the commit checked out in it.
        code_secret: The Secret that opens a private repository, if there is one of that name:
            username and password or token, or ssh-privatekey and known_hosts.
        code_directory: A directory in the repository, which becomes CODE_DIR. Empty: all of it.
        entrypoint: The training program, a .py file in the repository.
        args: Its arguments, a JSON list of strings, passed through untouched.
        dataset_uri: builtin://digits, a path or file:// URI, oss://bucket/path,
            s3://bucket/path, gs://bucket/path, https:// or http://.
        dataset_secret: The Secret that opens it, if there is one of that name.
        dataset_options: How it is reached and which part is meant, a JSON object, such as
            {"endpoint": "https://storage.example.org", "include": ["train/**"]}.
        workers: Replicas besides the master, at most 999.
        processes_per_worker: Processes in each replica, the master included.
        min_accuracy: The least held-out accuracy, 0 to 1, with which a classifier is exported.
        gate: What else it has to reach, such as {"most": {"rmse": 2.5}}, and with what it becomes
            the champion among the versions of model_name, such as {"better_by": 0.01,
            "class_loss": 0.02}, a JSON object; by default, if it is surely better.
        evaluation: A program of the repository that evaluates the model in place of Trireme, a JSON
            object, such as {"entrypoint": "evaluate.py", "args": ["--beams", "4"]}.
        model_factory: module:callable that builds the network, needed where the program saves
            bare weights.
        model_name: The registered model in MLflow that an exported model becomes a version of.
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
    training.steps("pytorch-training", "pytorch", locals())
