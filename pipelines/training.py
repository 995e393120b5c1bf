"""What the training pipelines have in common: checkout, dataset, train, evaluate, export."""

from collections.abc import Collection
from pathlib import Path
from typing import Any, NamedTuple

from kfp import dsl, kubernetes

from components import secrets
from components.checkout import git
from components.checkout.component import checkout
from components.dataset import description, mounted
from components.dataset.component import dataset
from components.dataset.sources import source_of
from components.evaluation import evaluate as evaluation
from components.evaluation.component import evaluate
from components.export import export as exporting
from components.export.component import export
from components.tracking import pipeline_run
from components.training import launch
from components.training.component import train
from components.training.result import load

CONFIG = dsl.PipelineConfig(
    workspace=dsl.WorkspaceConfig(
        size="10Gi",
        kubernetes=dsl.KubernetesWorkspaceConfig(pvcSpecPatch={"accessModes": ["ReadWriteMany"]}),
    )
)
"""One volume for all pods of a run, those of the training job included."""


NOT_EVERYWHERE = {
    "parameter_servers": 0,
    "processes_per_worker": 1,
    "model_factory": "",
    "evaluation": {},
}
"""Parameters that some of the pipelines do not have, and what they are there."""

OF_THE_JOB = (
    "image",
    "entrypoint",
    "args",
    "workers",
    "parameter_servers",
    "processes_per_worker",
    "seed",
    "time_limit",
)
"""Parameters that describe the training job."""


class Training(NamedTuple):
    """The steps that lead to a model.

    Attributes:
        code: Checks out the repository.
        data: Stages the dataset.
        trained: Trains.
    """

    code: dsl.PipelineTask
    data: dsl.PipelineTask
    trained: dsl.PipelineTask


def training_steps(framework: Any, parameters: dict[str, Any]) -> Training:
    """Adds the steps that lead to a model to the pipeline that is being built.

    Args:
        framework: What connects the replicas; may be a parameter of the pipeline, too.
        parameters: The pipeline's parameters by name.
    """
    given: dict[str, Any] = NOT_EVERYWHERE | parameters
    workspace = dsl.WORKSPACE_PATH_PLACEHOLDER
    code = checkout(
        url=given["code_url"],
        revision=given["code_revision"],
        secret=given["code_secret"],
        directory=given["code_directory"],
        workspace=workspace,
    )
    data = dataset(
        uri=given["dataset_uri"],
        secret=given["dataset_secret"],
        options=given["dataset_options"],
        workspace=workspace,
    )
    data.after(code)  # which may fail in a second, and not after a copy of hours
    for purpose, step in (("code", code), ("dataset", data)):
        kubernetes.use_secret_as_volume(
            step,
            secret_name=given[f"{purpose}_secret"],
            mount_path=str(secrets.MOUNTS / purpose),
            optional=True,
        )
    trained = train(
        framework=framework,
        **{name: given[name] for name in OF_THE_JOB},
        job=given["job"],
        evaluation=given["evaluation"],
        code=code.outputs["path"],
        data=data.outputs["path"],
        run=dsl.PIPELINE_JOB_ID_PLACEHOLDER,
        workspace=workspace,
    )
    for step in [code, data, trained]:
        _never_cached(step)
    return Training(code, data, trained)


def steps(framework: str, framework_image: str, parameters: dict[str, Any]) -> None:
    """Adds the steps to the pipeline that is being built.

    Args:
        framework: What the training program is written in.
        framework_image: The image that evaluates and exports its models.
        parameters: The pipeline's parameters by name.
    """
    given: dict[str, Any] = NOT_EVERYWHERE | parameters
    workspace = dsl.WORKSPACE_PATH_PLACEHOLDER
    code, data, trained = training_steps(framework, given)
    evaluated = evaluate(
        model=trained.outputs["model"],
        data=data.outputs["path"],
        code=code.outputs["path"],
        entrypoint=given["entrypoint"],
        model_factory=given["model_factory"],
        min_accuracy=given["min_accuracy"],
        gate=given["gate"],
        evaluation=given["evaluation"],
        model_name=given["model_name"],
        workspace=workspace,
    )
    with dsl.If(evaluated.outputs["passed"] == True, name="good-enough"):  # noqa: E712
        exported = export(
            model=trained.outputs["model"],
            data=data.outputs["path"],
            code=code.outputs["path"],
            entrypoint=given["entrypoint"],
            model_factory=given["model_factory"],
            model_name=given["model_name"],
            promote=evaluated.outputs["promote"],
            champion=evaluated.outputs["champion"],
            workspace=workspace,
        )
    for step in [evaluated, exported]:
        step.set_container_image(framework_image)
        _never_cached(step)


def _never_cached(step: dsl.PipelineTask) -> None:
    # What a step leaves is in the workspace of its run, where no other run would find it.
    step.set_caching_options(enable_caching=False)


def check_training(
    framework: str, parameters: dict[str, Any], claims: Collection[str] | None = None
) -> None:
    """Refuses parameters that could not lead to a model, before anything is created.

    Args:
        framework: What connects the replicas.
        parameters: A value for every parameter of the pipeline.
        claims: Where the run is on a cluster: the claims that its pods have mounted.

    Raises:
        InputError: One sentence on the first that is wrong.
    """
    git.check(*(parameters[f"code_{name}"] for name in ("url", "revision", "secret", "directory")))
    described = description.described(
        *(parameters[f"dataset_{name}"] for name in ("uri", "secret", "options"))
    )
    if claims is None:
        git.check_here(parameters["code_url"], parameters["code_secret"])
        description.check_here(described)
        source_of(described)
    elif described.way == "mount":
        mounted.check_claim(described, claims)
    given: dict[str, Any] = NOT_EVERYWHERE | parameters
    launch.prepare(
        Path("/"),
        run="",
        framework=framework,
        code="/code",
        data="/data",
        more=given["job"],
        **{name: given[name] for name in OF_THE_JOB},
    )
    pipeline_run.check(parameters["experiment"])


def check(
    framework: str, parameters: dict[str, Any], claims: Collection[str] | None = None
) -> None:
    """Refuses parameters that could not work, before anything is created.

    Args:
        framework: What the training program is written in.
        parameters: A value for every parameter of the pipeline.
        claims: Where the run is on a cluster: the claims that its pods have mounted.

    Raises:
        InputError: One sentence on the first that is wrong.
    """
    check_training(framework, parameters, claims)
    evaluation.check(*(parameters[name] for name in ("min_accuracy", "gate", "evaluation")))
    load.check(parameters.get("model_factory", ""))
    exporting.check(parameters["model_name"])
