"""The Optuna study of a sweep: it chooses what its trials try, and learns what came of them.

It is a file in the run workspace, which all trials share, here and on clusters. Each trial asks for
its values when it begins and tells its score at its end, so that those that begin later are chosen
by what is known by then.
"""

from pathlib import Path
from random import Random
from typing import TYPE_CHECKING, cast

from trireme.components.evaluation.trials import TrialResult, Value
from trireme.components.sweep import search_space
from trireme.components.sweep.search_space import RANDOM, Range, Trial

if TYPE_CHECKING:
    from optuna import Study
    from optuna.samplers import BaseSampler
    from optuna.trial import FrozenTrial
    from optuna.trial import Trial as OptunaTrial

NAME = "sweep"

TRIAL = "trial"
"""The attribute of a trial in the study that is its number in the sweep, which need not be the
study's: trials begin in any order."""


def ask(trial: Trial, workspace: Path, seed: int) -> Trial:
    """Returns a trial with its values: of one that has begun before, those it had then."""
    if not trial.is_searched:
        return trial
    import optuna

    search, space = search_space.saved(workspace)
    study = _study(workspace, _sampler(search, seed, trial.number))
    asked = _asked(study, trial.number)
    if asked and asked.state.is_finished():
        return trial._replace(values=dict(asked.params))
    if asked:
        own = optuna.trial.Trial(study, asked._trial_id)
    else:
        own = study.ask()
        own.set_user_attr(TRIAL, trial.number)
    values = {name: _value(own, name, choice) for name, choice in space.items()}
    return trial._replace(values=values)


def tell(trial: Trial, result: TrialResult, workspace: Path) -> None:
    """Has the study learn what came of a trial."""
    if not trial.is_searched:
        return
    from optuna.trial import TrialState

    study = _study(workspace)
    asked = _asked(study, trial.number)
    assert asked, "what is told has been asked"
    if result.failed:
        study.tell(asked.number, state=TrialState.FAIL, skip_if_finished=True)
    else:
        study.tell(asked.number, result.score, skip_if_finished=True)


def _study(workspace: Path, sampler: "BaseSampler | None" = None) -> "Study":
    import optuna
    from optuna.storages.journal import JournalFileBackend, JournalFileOpenLock

    optuna.logging.set_verbosity(optuna.logging.WARNING)
    path = str(search_space.study_path(workspace))
    # NFS has had exclusive opening since version 3, and SMB has it, but no symbolic links.
    backend = JournalFileBackend(path, JournalFileOpenLock(path))
    return optuna.create_study(
        storage=optuna.storages.JournalStorage(backend),
        sampler=sampler,
        study_name=NAME,
        direction="maximize",
        load_if_exists=True,
    )


def _sampler(search: str, seed: int, number: int) -> "BaseSampler":
    from optuna.samplers import RandomSampler, TPESampler

    # Each trial is another process, which would begin the same random numbers again.
    own = Random(f"{seed} {number}").getrandbits(32)
    return RandomSampler(seed=own) if search == RANDOM else TPESampler(seed=own)


def _asked(study: "Study", number: int) -> "FrozenTrial | None":
    asked = (each for each in study.get_trials(deepcopy=False) if TRIAL in each.user_attrs)
    return next((each for each in asked if each.user_attrs[TRIAL] == number), None)


def _value(own: "OptunaTrial", name: str, choice: list[Value] | Range) -> Value:
    if isinstance(choice, list):
        return cast(Value, own.suggest_categorical(name, choice))
    low, high, step, log = choice
    if step is None or not choice.is_whole:
        return own.suggest_float(name, low, high, step=step, log=log)
    return own.suggest_int(name, int(low), int(high), step=int(step), log=log)
