"""What the training pipelines have in common: checkout, dataset, train, evaluate, export."""

from collections.abc import Collection
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

from kfp import dsl, kubernetes

from trireme.components import secrets
from trireme.components.checkout import builtin, git, url
from trireme.components.checkout.component import checkout
from trireme.components.cost import table
from trireme.components.dataset import description, mounted
from trireme.components.dataset.component import dataset
from trireme.components.dataset.sources import source_of
from trireme.components.deployment.component import deploy
from trireme.components.evaluation import options
from trireme.components.evaluation.component import evaluate
from trireme.components.export.component import export
from trireme.components.finish.component import finish
from trireme.components.images import OF_REPLICAS, PYTORCH, TENSORFLOW
from trireme.components.tracking import on_kubeflow, pipeline_run, registry
from trireme.components.tracking.environment import SECRET
from trireme.components.training import bill, launch
from trireme.components.training.component import train
from trireme.components.training.description.job import TrainingJob
from trireme.components.training.local import installed
from trireme.components.training.manifests import render
from trireme.components.training.result import naming

CONFIG = dsl.PipelineConfig(
    workspace=dsl.WorkspaceConfig(
        size="10Gi",
        kubernetes=dsl.KubernetesWorkspaceConfig(pvcSpecPatch={"accessModes": ["ReadWriteMany"]}),
    )
)
"""One volume for all pods of a run, those of the training job included."""


IMAGES = {"pytorch": PYTORCH, "tensorflow": TENSORFLOW}
"""The images that evaluate and export models, by framework."""

NOT_EVERYWHERE = {
    "budget": 0.0,
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


@dataclass(frozen=True)
class Trainings:
    """The trainings of a run, which are alike but for the program's arguments.

    Attributes:
        job: One of them; where they differ, the one with the most processes.
        count: How many there are.
        at_once: How many of them run at the same time.
    """

    job: TrainingJob
    count: int = 1
    at_once: int = 1


class Prepared(NamedTuple):
    """The steps that training needs.

    Attributes:
        code: Checks out the repository.
        data: Stages the dataset.
    """

    code: dsl.PipelineTask
    data: dsl.PipelineTask


def steps(pipeline: str, framework: str, parameters: dict[str, Any]) -> None:
    """Adds all steps from the checkout to the export to the pipeline that is being built.

    Args:
        pipeline: The pipeline's name.
        framework: What the training program is written in.
        parameters: The pipeline's parameters by name.
    """
    with finishing(pipeline, parameters):
        prepared = prepare(parameters)
        trained = training(framework, parameters, prepared)
        evaluate_and_export(IMAGES[framework], parameters, prepared, trained.outputs["model"])


def finishing(pipeline: str, parameters: dict[str, Any]) -> dsl.ExitHandler:
    """Returns what the steps of a pipeline are in, so that it ends properly however they end.

    Args:
        pipeline: The pipeline's name.
        parameters: The pipeline's parameters by name.
    """
    last = finish(
        pipeline=pipeline,
        run=dsl.PIPELINE_JOB_ID_PLACEHOLDER,
        webhook_secret=parameters["webhook_secret"],
        workspace=dsl.WORKSPACE_PATH_PLACEHOLDER,
    )
    _use_secret(last, "webhook", parameters)
    set_up(last)
    return dsl.ExitHandler(last, name="steps")


def prepare(parameters: dict[str, Any]) -> Prepared:
    """Adds the steps that training needs.

    Args:
        parameters: The pipeline's parameters by name.
    """
    code = checkout(
        url=parameters["code_url"],
        revision=parameters["code_revision"],
        secret=parameters["code_secret"],
        directory=parameters["code_directory"],
        workspace=dsl.WORKSPACE_PATH_PLACEHOLDER,
    )
    data = dataset(
        uri=parameters["dataset_uri"],
        secret=parameters["dataset_secret"],
        options=parameters["dataset_options"],
        workspace=dsl.WORKSPACE_PATH_PLACEHOLDER,
    )
    data.after(code)  # which may fail in a second, and not after a copy of hours
    _use_secret(code, "code", parameters)
    _use_secret(data, "dataset", parameters)
    set_up(code, data)
    return Prepared(code, data)


def training(
    framework: Any, parameters: dict[str, Any], prepared: Prepared, **more: Any
) -> dsl.PipelineTask:
    """Adds the step that trains.

    Args:
        framework: What connects the replicas; may be a parameter of the pipeline, too.
        parameters: The pipeline's parameters by name.
        prepared: What it needs.
        more: Further inputs of the component.
    """
    given: dict[str, Any] = NOT_EVERYWHERE | parameters
    trained = train(
        framework=framework,
        **{name: given[name] for name in OF_THE_JOB},
        images=OF_REPLICAS,
        budget=given["budget"],
        job=given["job"],
        evaluation=given["evaluation"],
        code=prepared.code.outputs["path"],
        data=prepared.data.outputs["path"],
        run=dsl.PIPELINE_JOB_ID_PLACEHOLDER,
        workspace=dsl.WORKSPACE_PATH_PLACEHOLDER,
        **more,
    )
    set_up(trained)
    return trained


def evaluate_and_export(
    image: Any, parameters: dict[str, Any], prepared: Prepared, model: Any, kind: Any = None
) -> None:
    """Adds the steps that measure a model and, if it is good enough, export and register it.

    Args:
        image: The image that evaluates and exports models of the framework.
        parameters: The pipeline's parameters by name.
        prepared: What was trained from.
        model: Where the training program left it.
        kind: How a new champion is deployed, a parameter of the pipeline that may be empty; None
            where the pipeline does not deploy.
    """
    given: dict[str, Any] = NOT_EVERYWHERE | parameters
    common = {
        "model": model,
        "data": prepared.data.outputs["path"],
        "code": prepared.code.outputs["path"],
        "entrypoint": given["entrypoint"],
        "model_factory": given["model_factory"],
        "model_name": given["model_name"],
        "workspace": dsl.WORKSPACE_PATH_PLACEHOLDER,
    }
    evaluated = evaluate(
        min_accuracy=given["min_accuracy"],
        gate=given["gate"],
        evaluation=given["evaluation"],
        **common,
    )
    with dsl.If(evaluated.outputs["passed"] == True, name="good-enough"):  # noqa: E712
        exported = export(
            promote=evaluated.outputs["promote"],
            champion=evaluated.outputs["champion"],
            **common,
        )
        if kind is not None:
            _deploy_promoted(kind, parameters["model_name"], evaluated, exported)
    for step in (evaluated, exported):
        step.set_container_image(image)
    set_up(evaluated, exported)


def _deploy_promoted(
    kind: Any, model_name: Any, evaluated: dsl.PipelineTask, exported: dsl.PipelineTask
) -> None:
    with (
        dsl.If(kind != "", name="to-be-deployed"),
        dsl.If(evaluated.outputs["promote"] == True, name="champion"),  # noqa: E712
    ):
        deployed = deploy(
            kind=kind,
            model_name=model_name,
            image=PYTORCH,
            workspace=dsl.WORKSPACE_PATH_PLACEHOLDER,
        )
        deployed.after(exported)
        set_up(deployed)


def set_up(*steps: dsl.PipelineTask) -> None:
    """Has steps run in every run, and see the price table and what leads to MLflow.

    Args:
        steps: The steps.
    """
    for step in steps:
        # What it leaves is in the workspace of its run, where no other run would find it.
        step.set_caching_options(enable_caching=False)
        kubernetes.use_config_map_as_volume(
            step, config_map_name=table.CONFIG_MAP, mount_path=str(table.MOUNT), optional=True
        )
        kubernetes.use_secret_as_volume(
            step, secret_name=SECRET, mount_path=str(on_kubeflow.MOUNT), optional=True
        )


def _use_secret(step: dsl.PipelineTask, purpose: str, parameters: dict[str, Any]) -> None:
    kubernetes.use_secret_as_volume(
        step,
        secret_name=parameters[f"{purpose}_secret"],
        mount_path=str(secrets.MOUNTS / purpose),
        optional=True,
    )


def trainings(framework: str, parameters: dict[str, Any]) -> Trainings:
    """Returns the one training of a pipeline, as it is before a run gives it a name and places.

    Args:
        framework: What connects the replicas.
        parameters: A value for every parameter of the pipeline.

    Raises:
        InputError: One of them is wrong.
    """
    given: dict[str, Any] = NOT_EVERYWHERE | parameters
    job = launch.prepare(
        Path("/"),
        run="",
        framework=framework,
        code="/code",
        data="/data",
        more=given["job"],
        **{name: given[name] for name in OF_THE_JOB},
    )
    return Trainings(job)


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
    else:
        url.check_there(parameters["code_url"])
        if described.way == "mount":
            mounted.check_claim(described, claims)
    given: dict[str, Any] = NOT_EVERYWHERE | parameters
    job = trainings(framework, parameters).job
    if not parameters["code_url"]:
        builtin.check_program("entrypoint", job.entrypoint or "")
    if claims is None:
        installed.check(job)
    # What a cluster's prices are is known there.
    bill.check(given["budget"], render(job) if claims is None else None)
    if claims is not None and job.operator == "trainer":
        render(job, "trainer")  # says what a TrainJob has nothing for
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
    secrets.check("webhook_secret", parameters["webhook_secret"])
    options.check(*(parameters[name] for name in ("min_accuracy", "gate", "evaluation")))
    if not parameters["code_url"]:
        program = parameters["evaluation"].get("entrypoint", "")
        builtin.check_program("evaluation.entrypoint", program)
    naming.check(parameters.get("model_factory", ""))
    registry.check_name(parameters["model_name"])
