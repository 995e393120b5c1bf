"""Train and measure one of the many models of a sweep."""

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

from trireme.data import forms
from trireme.data.holdout import for_evaluation
from trireme.errors import Cancelled, StepFailed, TriremeError
from trireme.evaluation import custom
from trireme.evaluation.figures import Evaluation
from trireme.evaluation.held_out import TEST, VALIDATION, held_out
from trireme.evaluation.kinds import class_names, measure
from trireme.evaluation.options import custom_evaluation
from trireme.evaluation.samples import has_split
from trireme.evaluation.source import Source
from trireme.evaluation.trials import TrialResult, trial_folder
from trireme.job.job import TrainingJob
from trireme.runner import training_step
from trireme.runner.inputs import inputs_of
from trireme.sweep.early_stopping import StoppedEarly, Watch
from trireme.sweep.search_space import Trial
from trireme.tracking import journal


class EvaluationSettings(NamedTuple):
    """How a trial's model is measured."""

    data: Path
    code: Path
    factory: str
    evaluation: dict[str, Any]
    base_model: str = ""


def run_trial(
    trial: Trial,
    described: Callable[[Path], TrainingJob],
    settings: EvaluationSettings,
    workspace: Path,
    passthrough: dict[str, Any],
    budget: float = 0.0,
    watch: Watch | None = None,
) -> TrialResult:
    """Trains and measures a model; that this fails or is stopped early is a result like others.

    Args:
        described: Returns the training job, given the trial's folder.
        budget: The most that its training may cost; 0 for no limit.
        watch: What stops it early.
    """
    settings = settings._replace(data=for_evaluation(settings.data))
    folder = trial_folder(workspace, trial.number)
    folder.mkdir(parents=True, exist_ok=True)
    # Options with their dashes: without, one could be called like something the job records.
    journal.log_params(trial.values)
    try:
        job = described(folder)
        is_validated = not settings.evaluation and _is_validated(settings)
        evaluation = _train_and_evaluate(job, settings, folder, passthrough, budget, watch)
        name, value = evaluation.first
        journal.log_metrics({f"held_out_{name}": value} | evaluation.others)
        result = TrialResult(
            trial.number,
            trial.values,
            headline=evaluation.headline,
            score=float(evaluation.scores.mean()),
            entrypoint=job.entrypoint or "",
            params=training_step.params_of(job) | trial.parameters,
            inputs=inputs_of(job),
            is_validated=is_validated,
        )
    except StoppedEarly as why:
        result = TrialResult(trial.number, trial.values, stopped=str(why))
    except TriremeError as error:
        if isinstance(error, Cancelled) and error.exit_status == Cancelled.exit_status:
            raise  # it is this process that was told to end, and not somebody who ended the job
        journal.log_error(error, is_fatal=False)
        print(error.shown(), flush=True)
        result = TrialResult(trial.number, trial.values, failed=str(error), detail=error.detail)
    note = ""
    if watch and result.has_model and not watch.has_found:
        note = f"; no {watch.metric} was found in its lines or in MLflow to stop it early by"
        if watch.told:
            note += f"; its lines tell {', '.join(sorted(watch.told))}"
    journal.summarize(result.words + note)
    return result


def _train_and_evaluate(
    job: TrainingJob,
    settings: EvaluationSettings,
    folder: Path,
    passthrough: dict[str, Any],
    budget: float,
    watch: Watch | None,
) -> Evaluation:
    program = custom_evaluation(settings.evaluation)
    evaluator = program.entrypoint if program else ""
    if not program and (why := forms.unfit(settings.data)) and not _is_validated(settings):
        raise StepFailed(why)  # before the training
    if watch:
        watch.leader = job.leader
    observers = [watch] if watch else []
    trained = training_step.train(
        job, folder, passthrough, evaluator, budget, is_whole_run=False, observers=observers
    )
    program_of = job.entrypoint or "", settings.factory, settings.base_model
    source = Source(Path(trained.model), settings.code, *program_of)
    if not program:
        return _measured(source, settings.data)
    output = folder / custom.FOUND
    shutil.rmtree(output, ignore_errors=True)  # of an earlier attempt
    custom.run(program, source, settings.data, output)
    evaluation = custom.read(output)
    if not evaluation.scores.size:
        raise StepFailed("the evaluation wrote no scores.npy, which is needed to compare trials")
    return evaluation


def _is_validated(settings: EvaluationSettings) -> bool:
    return has_split(settings.data, VALIDATION)


def _measured(source: Source, data: Path) -> Evaluation:
    split = VALIDATION if has_split(data, VALIDATION) else TEST
    samples, names = held_out(data, split), class_names(data)
    return measure(source.load().predict, samples, names).evaluation()
