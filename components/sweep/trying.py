"""Train and measure one of the many models of a sweep."""

import json
from collections.abc import Callable
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

from components.errors import StepFailed, TriremeError
from components.evaluation import own as owning
from components.evaluation.figures import Evaluation
from components.evaluation.held_out import TEST, VALIDATION, has_samples, held_out
from components.evaluation.kinds import class_names, measured
from components.sweep.sets import Trial, Value
from components.tracking import journal
from components.training import launch
from components.training.description.job import TrainingJob
from components.training.inputs import inputs_of
from components.training.result.load import load_model

RESULT = "trial.json"
"""The file in a trial's folder that says what came of it."""


class Measured(NamedTuple):
    """How a trial's model is measured.

    Attributes:
        data: The staged dataset.
        code: The training code's repository.
        factory: ``module:callable`` that builds the network, where the model needs it.
        evaluation: A program of the user's that evaluates it; empty for ours.
    """

    data: Path
    code: Path
    factory: str
    evaluation: dict[str, Any]


@dataclass(frozen=True)
class Tried:
    """What came of a trial.

    Attributes:
        number: Of the trial, from 0.
        values: What is different about it.
        failed: Why there is no model; empty where there is one.
        headline: How good the model is, in one phrase.
        score: That as a number to compare by, the greater the better.
        entrypoint: The program that trained it.
        params: What its training's run records.
        inputs: What its training depends on, as ``inputs_of`` has it.
    """

    number: int
    values: dict[str, Value]
    failed: str = ""
    headline: str = ""
    score: float = 0.0
    entrypoint: str = ""
    params: dict[str, Any] = field(default_factory=dict)
    inputs: str = ""

    @property
    def words(self) -> str:
        """All of it that a person wants to know first."""
        came_of_it = f"failed: {self.failed}" if self.failed else self.headline
        return f"{Trial(self.number, self.values).words}: {came_of_it}"


def place(workspace: Path, number: int) -> Path:
    """Returns the folder of a trial in the run workspace, which is a workspace of its own."""
    return workspace / "trials" / f"{number:03}"


def attempt(
    trial: Trial,
    described: Callable[[Path], TrainingJob],
    measure: Measured,
    workspace: Path,
    passthrough: dict[str, Any],
) -> Tried:
    """Trains and measures a model; that this fails is a result like others.

    Args:
        trial: What is different about it.
        described: Returns the training job, given the trial's folder.
        measure: How the model is measured.
        workspace: The run workspace.
        passthrough: What the pipeline's task hands on to the job's pods.
    """
    own_place = place(workspace, trial.number)
    own_place.mkdir(parents=True, exist_ok=True)
    journal.log_params({name.lstrip("-"): value for name, value in trial.values.items()})
    try:
        tried = _attempt(trial, described(own_place), measure, own_place, passthrough)
    except TriremeError as error:
        journal.log_error(error, is_fatal=False)
        print("\n".join(filter(None, [error.detail, f"error: {error}"])), flush=True)
        tried = Tried(trial.number, trial.values, failed=str(error))
    journal.summarize(tried.words)
    partial = own_place / f"{RESULT}.partial"
    partial.write_text(json.dumps(asdict(tried)))
    partial.rename(own_place / RESULT)
    return tried


def _attempt(
    trial: Trial,
    job: TrainingJob,
    measure: Measured,
    own_place: Path,
    passthrough: dict[str, Any],
) -> Tried:
    own = owning.parsed(measure.evaluation)
    trained = launch.train(
        job, own_place, passthrough, own.entrypoint if own else "", is_whole_run=False
    )
    model = Path(trained.model)
    if own:
        found = own_place / owning.FOUND
        owning.run(own, model, measure.data, measure.code, found)
        evaluation = owning.read(found)
        if not evaluation.scores.size:
            raise StepFailed("the evaluation left no scores.npy, which trials are compared by")
    else:
        evaluation = _measured(model, job.entrypoint or "", measure)
    _record(evaluation)
    return Tried(
        trial.number,
        trial.values,
        headline=evaluation.headline,
        score=float(evaluation.scores.mean()),
        entrypoint=job.entrypoint or "",
        params=launch.params_of(job) | trial.parameters,
        inputs=inputs_of(job),
    )


def _measured(model: Path, entrypoint: str, measure: Measured) -> Evaluation:
    split = VALIDATION if has_samples(measure.data, VALIDATION) else TEST
    samples, names = held_out(measure.data, split), class_names(measure.data)
    trained = load_model(model, measure.code, entrypoint, measure.factory)
    return measured(trained.answer, samples, names).evaluation()


def _record(evaluation: Evaluation) -> None:
    (name, value), figures = evaluation.first, evaluation.told
    del figures[name]
    journal.log_metrics({f"held_out_{name}": value} | figures)


def results(workspace: Path) -> list[Tried]:
    """Returns what came of the trials so far: the best first, at the end those that failed.

    Args:
        workspace: The run workspace.
    """
    files = (workspace / "trials").glob(f"*/{RESULT}")
    found = [Tried(**json.loads(file.read_text())) for file in files]
    return sorted(found, key=lambda tried: (bool(tried.failed), -tried.score, tried.number))
