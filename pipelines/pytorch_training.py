"""The PyTorch training pipeline: checkout, dataset, train, evaluate, export."""

from pathlib import Path

from kfp import dsl

from components.checkout import git
from components.checkout.component import checkout
from components.dataset import staging
from components.dataset.component import dataset
from components.evaluation import evaluate as evaluation
from components.evaluation.component import evaluate
from components.export import export as exporting
from components.export.component import export
from components.images import PYTORCH
from components.tracking import pipeline_run
from components.training import launch, result
from components.training.component import train

WORKSPACE = dsl.WorkspaceConfig(
    size="10Gi",
    kubernetes=dsl.KubernetesWorkspaceConfig(pvcSpecPatch={"accessModes": ["ReadWriteMany"]}),
)


@dsl.pipeline(
    name="pytorch-training",
    display_name="PyTorch training",
    pipeline_config=dsl.PipelineConfig(workspace=WORKSPACE),
)
def pytorch_training(
    code_url: str = "",
    code_revision: str = "",
    entrypoint: str = "components/trainers/pytorch/classifier.py",
    args: list = [],  # noqa: B006 - kfp reads the default, nothing changes it
    dataset_uri: str = "builtin://digits",
    workers: int = 1,
    processes_per_worker: int = 1,
    min_accuracy: float = 0.9,
    model_factory: str = "",
    model_name: str = "classifier",
    experiment: str = "",
    seed: int = 0,
    time_limit: int = 0,
    image: str = PYTORCH,
) -> None:
    """Trains a PyTorch model on one or many processes and keeps it if it is good enough.

    Args:
        code_url: Git repository of the training code: an https, ssh, git or file URL, or a
            directory. Empty: Trireme's own, which holds the reference trainers.
        code_revision: Branch, tag or commit. Empty: the repository's default branch; for a
            directory, the commit checked out in it.
        entrypoint: The training program, a .py file in the repository.
        args: Its arguments, a JSON list of strings, passed through untouched.
        dataset_uri: builtin://digits, a file:// URI, or a path to a file or directory.
        workers: Replicas besides the master, at most 999.
        processes_per_worker: Processes in each replica, the master included.
        min_accuracy: The least held-out accuracy, 0 to 1, with which the model is exported.
        model_factory: module:callable that builds the network, needed where the program saves
            bare weights.
        model_name: The registered model in MLflow that an exported model becomes a version of.
        experiment: The MLflow experiment. Empty: the one that MLFLOW_EXPERIMENT_ID names, or
            else one called like the pipeline.
        seed: What the training program finds in SEED.
        time_limit: Seconds that training may take; 0 for no limit.
        image: Container image of the training replicas, used where the job runs in containers.
    """
    workspace = dsl.WORKSPACE_PATH_PLACEHOLDER
    code = checkout(url=code_url, revision=code_revision, workspace=workspace)
    data = dataset(uri=dataset_uri, workspace=workspace)
    trained = train(
        entrypoint=entrypoint,
        args=args,
        workers=workers,
        processes_per_worker=processes_per_worker,
        seed=seed,
        time_limit=time_limit,
        image=image,
        code=code.outputs["path"],
        data=data.outputs["path"],
        workspace=workspace,
    )
    evaluated = evaluate(
        model=trained.outputs["model"],
        data=data.outputs["path"],
        code=code.outputs["path"],
        entrypoint=entrypoint,
        model_factory=model_factory,
        min_accuracy=min_accuracy,
        commit=code.outputs["commit"],
        fingerprint=data.outputs["fingerprint"],
        workspace=workspace,
    )
    with dsl.If(evaluated.outputs["passed"] == True, name="good-enough"):  # noqa: E712
        exported = export(
            model=trained.outputs["model"],
            data=data.outputs["path"],
            code=code.outputs["path"],
            entrypoint=entrypoint,
            model_factory=model_factory,
            model_name=model_name,
            workspace=workspace,
        )
    for step in [code, data, trained, evaluated, exported]:
        # What a step leaves is in the workspace of its run, where no other run would find it.
        step.set_caching_options(enable_caching=False)


def check(parameters: dict) -> None:
    """Refuses parameters that could not work, before anything is created.

    Args:
        parameters: A value for every parameter of the pipeline.

    Raises:
        InputError: One sentence on the first that is wrong.
    """
    git.check(parameters["code_url"], parameters["code_revision"])
    staging.check(parameters["dataset_uri"])
    launch.prepare(
        Path(),
        code="code",
        data="data",
        **{
            name: parameters[name]
            for name in (
                "image",
                "entrypoint",
                "args",
                "workers",
                "processes_per_worker",
                "seed",
                "time_limit",
            )
        },
    )
    evaluation.check(parameters["min_accuracy"])
    result.check(parameters["model_factory"])
    exporting.check(parameters["model_name"])
    pipeline_run.check(parameters["experiment"])
