"""Train and measure one of the many models of a sweep."""

from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

from trireme.components.errors import StepFailed, TriremeError
from trireme.components.evaluation import custom
from trireme.components.evaluation.figures import Evaluation
from trireme.components.evaluation.held_out import TEST, VALIDATION, held_out
from trireme.components.evaluation.kinds import class_names, measured
from trireme.components.evaluation.options import custom_evaluation
from trireme.components.evaluation.trials import TrialResult, keep, place
from trireme.components.sweep.search_space import Trial
from trireme.components.tracking import journal
from trireme.components.trainers.pytorch import splits
from trireme.components.training import launch
from trireme.components.training.description.job import TrainingJob
from trireme.components.training.inputs import inputs_of
from trireme.components.training.result.load import load_model


class Measured(NamedTuple):
    """How a trial's model is measured."""

    data: Path
    code: Path
    factory: str
    evaluation: dict[str, Any]


def attempt(
    trial: Trial,
    described: Callable[[Path], TrainingJob],
    measure: Measured,
    workspace: Path,
    passthrough: dict[str, Any],
    budget: float = 0.0,
) -> TrialResult:
    """Trains and measures a model; that this fails is a result like others.

    Args:
        described: Returns the training job, given the trial's folder.
        budget: The most that its training may cost; 0 for no limit.
    """
    own_place = place(workspace, trial.number)
    own_place.mkdir(parents=True, exist_ok=True)
    # Options with their dashes: without, one could be called like something the job records.
    journal.log_params(trial.values)
    try:
        tried = _attempt(trial, described(own_place), measure, own_place, passthrough, budget)
    except TriremeError as error:
        journal.log_error(error, is_fatal=False)
        print(error.shown(), flush=True)
        tried = TrialResult(trial.number, trial.values, failed=str(error), detail=error.detail)
    journal.summarize(tried.words)
    keep(tried, workspace)
    return tried


def _attempt(
    trial: Trial,
    job: TrainingJob,
    measure: Measured,
    own_place: Path,
    passthrough: dict[str, Any],
    budget: float,
) -> TrialResult:
    own = custom_evaluation(measure.evaluation)
    trained = launch.train(
        job, own_place, passthrough, own.entrypoint if own else "", budget, is_whole_run=False
    )
    model = Path(trained.model)
    if own:
        found = own_place / custom.FOUND
        custom.run(own, model, measure.data, measure.code, found)
        evaluation = custom.read(found)
        if not evaluation.scores.size:
            raise StepFailed("the evaluation left no scores.npy, which trials are compared by")
    else:
        evaluation = _measured(model, job.entrypoint or "", measure)
    _record(evaluation)
    return TrialResult(
        trial.number,
        trial.values,
        headline=evaluation.headline,
        score=float(evaluation.scores.mean()),
        entrypoint=job.entrypoint or "",
        params=launch.params_of(job) | trial.parameters,
        inputs=inputs_of(job),
    )


def _measured(model: Path, entrypoint: str, measure: Measured) -> Evaluation:
    split = VALIDATION if splits.is_there(measure.data, VALIDATION) else TEST
    samples, names = held_out(measure.data, split), class_names(measure.data)
    trained = load_model(model, measure.code, entrypoint, measure.factory)
    return measured(trained.answer, samples, names).evaluation()


def _record(evaluation: Evaluation) -> None:
    name, value = evaluation.first
    journal.log_metrics({f"held_out_{name}": value} | evaluation.others)
