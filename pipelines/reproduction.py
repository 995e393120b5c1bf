"""The pipeline that trains as another run did, and does nothing with the model."""

import ast
import tempfile
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from kfp import dsl

from trireme import steps
from trireme.code import builtin, bundle
from trireme.code import url as urls
from trireme.compiling.cutting import SUFFIX, up_to_training, with_packages_of
from trireme.compiling.loading import loaded
from trireme.credentials.secrets import DEFAULTS
from trireme.data import staging
from trireme.data.base_model import stage_base_model
from trireme.data.description import described
from trireme.data.uri import at_commit
from trireme.errors import InputError, StepFailed
from trireme.graph.reading import of_pipeline
from trireme.pipeline import catalog
from trireme.pipeline.pipeline import Parameter, Pipeline
from trireme.pipelines import training
from trireme.tracking.batch import PARAMETER_LIMIT
from trireme.tracking.lineage import OF_A_RUN, Lineage

Load = Callable[[Sequence[Any]], list[Pipeline]]


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
    code_submodules: str = "all",
    parameter_servers: int = 0,
    processes_per_worker: int = 1,
    requirements: list = [],  # noqa: B006 - kfp copies it
    requirements_secret: str = DEFAULTS["requirements"],
    base_model: str = "",
    base_model_secret: str = DEFAULTS["base_model"],
    base_model_options: dict = {},  # noqa: B006 - kfp copies it
    start: str = "",
) -> None:
    """Trains as another run did, and neither evaluates nor exports nor registers."""
    given = locals()
    with steps.finishing("reproduction", webhook_secret=""):
        code, data = training.prepare(given, framework)
        steps.train(code, data, framework=framework, start=start, **training.job_inputs(given))


def pipeline(lineage: Lineage, reference: str, load: Load = loaded) -> Pipeline:
    """Returns the pipeline that trains as a run did: the given one, or Trireme's.

    Args:
        reference: The run's pipeline, as ``catalog.load`` takes it; empty for one of Trireme's.
        load: Loads pipelines as they are for the place.
    """
    found = _given(lineage, reference, load) if reference else _ours(lineage, load)
    return with_packages_of(found, lineage.training_id) if lineage.packages else found


def _given(lineage: Lineage, reference: str, load: Load) -> Pipeline:
    if lineage.start:
        raise InputError(
            f"{lineage.name} started from the model of another run, which only Trireme's own "
            "pipelines can be reproduced with"
        )
    (given,) = load([reference])
    if lineage.pipeline not in (given.name, f"{given.name}{SUFFIX}"):
        raise InputError(
            f"{lineage.name} is a run of the pipeline {lineage.pipeline}, not of {given.name}"
        )
    return up_to_training(given, _code(lineage)["code_revision"])


def _ours(lineage: Lineage, load: Load) -> Pipeline:
    if lineage.pipeline not in (*catalog.PIPELINES, "reproduction"):
        raise InputError(
            f"{lineage.name} is a run of {lineage.pipeline}, which is not one of Trireme's own "
            f"pipelines; give its file, as in: trireme reproduce {lineage.name} FILE.py"
        )
    check = partial(training.check_training, lineage.framework)
    trainings = partial(training.trainings, lineage.framework)
    ours = Pipeline("reproduction", of_pipeline(reproduction), check, trainings)
    # Whose steps the options may be about, too.
    originals = [lineage.pipeline] if lineage.pipeline in catalog.PIPELINES else []
    *_, found = load([*originals, ours])
    return found


def arguments(pipeline: Pipeline, lineage: Lineage) -> dict[str, Any]:
    """Returns the values of the parameters of the pipeline that trains as a run did."""
    params = lineage.params
    if pipeline.name == "reproduction":
        params = params | {
            "framework": lineage.framework,
            "experiment": lineage.experiment,
            "start": f"{OF_A_RUN}{lineage.start}" if lineage.start else "",
            **_code(lineage),
        }
    elif "code_url" in params and (lineage.has_bundle or urls.is_local(lineage.code)):
        params = params | _code(lineage)
    # A branch of the Hub may have moved on since.
    at_commits = {
        name: at_commit(params[name], commit)
        for name, commit in lineage.commits.items()
        if name in params
    }
    params = params | at_commits
    values = {
        name: _value(parameter, params.get(name), lineage.name)
        for name, parameter in pipeline.parameters.items()
    }
    return {name: value for name, value in values.items() if value is not None}


def _code(lineage: Lineage) -> dict[str, str]:
    """Returns the parameters that give a run's code again."""
    if lineage.has_bundle:
        place = urls.Bundle(bundle.MLFLOW, lineage.commit)
        return {"code_url": str(place), "code_revision": lineage.commit, "code_without": "[]"}
    if lineage.code != builtin.URL:
        # A folder of this machine travels to a cluster, which a file:// URL does not.
        folder = urls.path(lineage.code) if urls.is_local(lineage.code) else None
        url = str(folder) if folder and folder.is_dir() else lineage.code
        return {"code_url": url, "code_revision": lineage.commit, "code_without": "[]"}
    if lineage.commit != builtin.commit():
        raise InputError(
            f"{lineage.name} was trained with the trainers of Trireme {lineage.trainers}, "
            f"{lineage.commit}, and those of Trireme {builtin.version()} here are "
            f"{builtin.commit()}; install the release that it was trained with"
        )
    return {"code_url": "", "code_revision": ""}


def check_data(values: dict[str, Any], lineage: Lineage) -> None:
    """Stages dataset and base model and refuses others than the run was trained on."""
    dataset = described(*(values[f"dataset_{name}"] for name in ("uri", "secret", "options")))
    with tempfile.TemporaryDirectory() as directory:
        workspace = Path(directory)
        staged = staging.stage(dataset, workspace / "data", staging.cache_of(workspace))
        of_model = [values[name] for name in training.BASE_MODEL]
        start = stage_base_model(workspace, *of_model).fingerprint if of_model[0] else ""
    what = f"dataset {dataset.uri}"
    check_same(what, lineage.fingerprint, staged.fingerprint, lineage.name)
    check_same(f"base model {of_model[0]}", lineage.base_model, start, lineage.name)


def check_same(what: str, then: str, now: str, run: str) -> None:
    """Refuses other code or data than a run was trained with."""
    if then != now:
        raise StepFailed(
            f"the {what} has changed: {run} was trained on {then}, and it is {now} now"
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
