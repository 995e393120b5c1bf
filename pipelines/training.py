"""The steps that the training pipelines share: checkout, dataset, train, evaluate, export."""

from collections.abc import Collection
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

from kfp import dsl

from trireme import steps
from trireme.code import builtin, git
from trireme.code import url as urls
from trireme.credentials import secrets
from trireme.data import base_model, description, mounted
from trireme.data.sources import source_of
from trireme.data.uri import NONE
from trireme.errors import InputError
from trireme.evaluation import options
from trireme.job.job import TrainingJob
from trireme.manifests import render
from trireme.models import naming
from trireme.packages import requirements
from trireme.pipeline import packages
from trireme.runner import bill
from trireme.runner.job_of_run import JobParameters, RunOfJob, job_of
from trireme.runner.local import installed
from trireme.steps import Task
from trireme.tracking import pipeline_run, registry

NOT_EVERYWHERE = {
    "budget": 0.0,
    "code_without": [],
    "parameter_servers": 0,
    "processes_per_worker": 1,
    "model_factory": "",
    "min_accuracy": 0.0,
    "evaluation": {},
}
"""Parameters that some of the pipelines do not have, and what they are there."""

JOB_PARAMETERS = tuple(
    each.name for each in fields(JobParameters) if each.name not in ("framework", "job")
)
"""Parameters that describe the training job, besides the framework and ``job``."""


CODE = ("url", "revision", "secret", "directory", "submodules", "without")
"""The parameters that say which code is checked out, without the ``code_`` that they begin with."""

BASE_MODEL = ("base_model", "base_model_secret", "base_model_options")
"""Parameters that describe the model that training starts from."""


@dataclass(frozen=True)
class Trainings:
    """The trainings of a run; ``job`` is one of them, or the one with the most processes."""

    job: TrainingJob
    count: int = 1
    at_once: int = 1


def add_steps(pipeline: str, framework: str, given: dict[str, Any]) -> None:
    """Adds all steps from the checkout to the export to the pipeline that is being built."""
    with steps.finishing(pipeline, given["webhook_secret"]):
        code, data = prepare(given, framework)
        trained = steps.train(code, data, framework=framework, **job_inputs(given))
        evaluate_and_export(given, trained, code, data, steps.IMAGES[framework])


def prepare(given: dict[str, Any], framework: Any) -> tuple[Task, Task]:
    """Adds the steps that training needs: checkout and dataset."""
    code = steps.checkout(
        **dict(zip(CODE, _of_code(given, *CODE), strict=True)),
        requirements=given["requirements"],
        requirements_secret=given["requirements_secret"],
        framework=framework,
    )
    data = steps.dataset(
        *(given[f"dataset_{name}"] for name in ("uri", "secret", "options")),
        **{name: given[name] for name in BASE_MODEL},
        evaluation=given.get("evaluation"),
    )
    data.after(code)  # which may fail in a second, and not after a copy of hours
    return code, data


def job_inputs(given: dict[str, Any]) -> dict[str, Any]:
    """Returns the inputs of the training step among a pipeline's parameters."""
    return _some(given, *JOB_PARAMETERS, "budget", "job", "evaluation")


def evaluate_and_export(
    given: dict[str, Any], model: Any, code: Task, data: Task, image: Any, kind: Any = None
) -> None:
    """Adds the steps that evaluate, export and, by ``kind``, deploy a model, if it is good."""
    common = _some(given, "entrypoint", "model_factory", "model_name") | {"image": image}
    gate = _some(given, "min_accuracy", "gate", "evaluation")
    evaluated = steps.evaluate(model, code, data, **gate, **common)
    with steps.good_enough(evaluated):
        exported = steps.export(evaluated, model, code, data, **common)
        if kind is not None:
            with (
                dsl.If(kind != "", name="to-be-deployed"),
                dsl.If(evaluated.outputs["promote"] == True, name="champion"),  # noqa: E712
            ):
                steps.deploy(kind, given["model_name"]).after(exported)


def _some(given: dict[str, Any], *names: str) -> dict[str, Any]:
    return {name: (NOT_EVERYWHERE | given)[name] for name in names}


def _of_code(given: dict[str, Any], *names: str) -> list[Any]:
    return [(NOT_EVERYWHERE | given)[f"code_{name}"] for name in names]


def trainings(framework: str, parameters: dict[str, Any]) -> Trainings:
    """Returns the one training of a pipeline, as it is before a run gives it a name and places."""
    given: dict[str, Any] = NOT_EVERYWHERE | parameters
    of_job = {name: given[name] for name in (*JOB_PARAMETERS, "job")}
    run = RunOfJob(workspace=Path("/"), code="/code", data="/data")
    job = job_of(JobParameters(framework=framework, **of_job), run)
    return Trainings(job)


def check_training(
    framework: str, parameters: dict[str, Any], claims: Collection[str] | None = None
) -> None:
    """Refuses parameters that could not lead to a model, before anything is created."""
    git.check(*_of_code(parameters, *CODE))
    requirements.check(parameters["requirements"])
    secrets.check("requirements_secret", parameters["requirements_secret"])
    described = description.described(
        *(parameters[f"dataset_{name}"] for name in ("uri", "secret", "options"))
    )
    if claims is None:
        git.check_here(*_of_code(parameters, "url", "secret", "revision", "without"))
        description.check_here(described)
        source_of(described)
    elif described.way == "mount":
        mounted.check_claim(described, claims)
    for file in requirements.files(parameters["requirements"]):
        _check_file("requirements", file, parameters, claims)
    base_model.check(*(parameters[name] for name in BASE_MODEL), claims=claims)
    job = trainings(framework, parameters).job
    check_program("entrypoint", job.entrypoint or "", parameters, claims)
    if claims is None:
        installed.check(job)
        packages.check_here(framework, parameters)
    # What a cluster's prices are is known there.
    bill.check(parameters.get("budget", 0.0), render(job) if claims is None else None)
    if claims is not None and job.operator == "trainer":
        render(job, "trainer")  # says what a TrainJob has nothing for
    pipeline_run.check(parameters["experiment"])


def _check_file(
    name: str, file: str, parameters: dict[str, Any], claims: Collection[str] | None
) -> None:
    """Refuses a file that the code does not have, where that is on this machine."""
    # A file:// URL is a volume's on a cluster, and a directory travels there.
    url = parameters["code_url"]
    if claims is None or not url or urls.is_directory(url):
        git.check_file(name, file, *_of_code(parameters, "url", "revision", "directory", "without"))


def check_program(
    name: str, program: str, parameters: dict[str, Any], claims: Collection[str] | None
) -> None:
    """Refuses a program that the code does not have, where that is on this machine."""
    if not parameters["code_url"]:
        builtin.check_program(name, program)
    elif program:
        _check_file(name, program, parameters, claims)


def check(
    framework: str, parameters: dict[str, Any], claims: Collection[str] | None = None
) -> None:
    """Refuses parameters that could not work; on a cluster the pods have ``claims`` mounted."""
    check_training(framework, parameters, claims)
    secrets.check("webhook_secret", parameters["webhook_secret"])
    options.check(*_some(parameters, "min_accuracy", "gate", "evaluation").values())
    program = parameters["evaluation"].get("entrypoint", "")
    check_program("evaluation.entrypoint", program, parameters, claims)
    naming.check(parameters.get("model_factory", ""))
    registry.check_name(parameters["model_name"])


def check_evaluated(parameters: dict[str, Any]) -> None:
    """Refuses a run that has to compare models and has nothing to do so with."""
    if parameters["dataset_uri"] == NONE and "entrypoint" not in parameters["evaluation"]:
        raise InputError(
            f"dataset_uri {NONE!r}: there are no samples then to evaluate the model on; give a "
            """program that does, -p evaluation='{"entrypoint": "FILE.py"}'"""
        )
