"""The pipeline that trains as another run did, and does nothing with the model."""

import ast
import tempfile
from functools import partial
from pathlib import Path
from typing import Any

from kfp import dsl

from trireme.components.checkout import builtin
from trireme.components.dataset import staging
from trireme.components.dataset.description import described
from trireme.components.errors import InputError, StepFailed
from trireme.components.tracking.lineage import Lineage
from trireme.components.tracking.sync import PARAMETER_LIMIT
from trireme.pipelines import steps, training
from trireme.pipelines.pipeline import Parameter, Pipeline


@dsl.pipeline(name="reproduction", pipeline_config=steps.WORKSPACE)
def reproduction(
    framework: str,
    code_url: str,
    code_revision: str,
    code_secret: str,
    code_directory: str,
    entrypoint: str,
    args: list,
    dataset_uri: str,
    dataset_secret: str,
    dataset_options: dict,
    workers: int,
    experiment: str,
    seed: int,
    time_limit: int,
    image: str,
    job: dict,
    parameter_servers: int = 0,
    processes_per_worker: int = 1,
) -> None:
    """Trains as another run did, and neither evaluates nor exports nor registers."""
    given = locals()
    code, data = training.prepare(given)
    steps.train(code, data, framework=framework, **training.job_inputs(given))


def pipeline(lineage: Lineage) -> Pipeline:
    """Returns the pipeline that trains as a run did."""
    check = partial(training.check_training, lineage.framework)
    trainings = partial(training.trainings, lineage.framework)
    return Pipeline("reproduction", reproduction, check, trainings)


def arguments(lineage: Lineage) -> dict[str, Any]:
    """Returns a value for every parameter of the pipeline that trains as a run did."""
    again = pipeline(lineage)
    params = lineage.params | {
        "framework": lineage.framework,
        "experiment": lineage.experiment,
        **_code(lineage),
    }
    values = {
        name: _value(parameter, params.get(name), lineage.name)
        for name, parameter in again.parameters.items()
    }
    again.check(values, None)
    return values


def _code(lineage: Lineage) -> dict[str, str]:
    """Returns the parameters that give a run's code again."""
    if lineage.code != builtin.URL:
        return {"code_url": lineage.code, "code_revision": lineage.commit}
    if lineage.commit != builtin.commit():
        raise InputError(
            f"{lineage.name} was trained with the trainers of Trireme {lineage.trainers}, "
            f"{lineage.commit}, and those of Trireme {builtin.version()} here are "
            f"{builtin.commit()}; install the release that it was trained with"
        )
    return {"code_url": "", "code_revision": ""}


def check_data(values: dict[str, Any], lineage: Lineage) -> None:
    """Stages the dataset and refuses another than the run was trained on."""
    dataset = described(*(values[f"dataset_{name}"] for name in ("uri", "secret", "options")))
    with tempfile.TemporaryDirectory() as directory:
        workspace = Path(directory)
        staged = staging.stage(dataset, workspace / "data", staging.cache_of(workspace))
    if staged.fingerprint != lineage.fingerprint:
        raise StepFailed(
            f"the dataset {dataset.uri} has changed: {lineage.name} was trained on "
            f"{lineage.fingerprint}, and it is {staged.fingerprint} now"
        )


def _value(parameter: Parameter, recorded: str | None, run: str) -> Any:
    """Returns a parameter's value from the text that MLflow keeps of it."""
    if recorded is None:
        return parameter.default
    try:
        if len(recorded) >= PARAMETER_LIMIT:
            raise ValueError
        value = recorded if parameter.type == "STRING" else ast.literal_eval(recorded)
    except (ValueError, SyntaxError):
        raise InputError(
            f"run {run}: MLflow does not have its parameter {parameter.name} whole"
        ) from None
    return parameter.accept(value)
