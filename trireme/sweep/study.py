"""The Optuna study of a sweep: it chooses what its trials try, and learns what came of them.

It is a file in the run workspace, which all trials share, here and on clusters. Each trial asks for
its values when it begins and tells its score at its end, so that those that begin later are chosen
by what is known by then.
"""

from pathlib import Path
from random import Random
from typing import TYPE_CHECKING, cast

from trireme.evaluation.trials import TrialResult, Value
from trireme.files.home import in_a_pod
from trireme.sweep import early_stopping, search_space
from trireme.sweep.early_stopping import EarlyStopping, Watch
from trireme.sweep.search_space import TPE, Range, Trial

if TYPE_CHECKING:
    from optuna import Study
    from optuna.pruners import BasePruner
    from optuna.samplers import BaseSampler
    from optuna.trial import FrozenTrial
    from optuna.trial import Trial as OptunaTrial

NAME = "sweep"

TRIAL = "trial"
"""The attribute of a trial in the study that is its number in the sweep, which need not be the
study's: trials begin in any order."""


def ask(trial: Trial, workspace: Path, seed: int) -> tuple[Trial, Watch | None]:
    """Returns a trial with its values, and what may end it early.

    One that has begun before has the values that it had then.
    """
    settings = search_space.saved(workspace)
    if settings is None or not (trial.is_searched or settings.early_stopping):
        return trial, None
    import optuna

    stopping = early_stopping.read(settings.early_stopping)
    sampler = _sampler(settings.search, seed, trial.number)
    study = _study(workspace, sampler, _pruner(stopping))
    frozen = _asked(study, trial.number)
    if frozen and frozen.state.is_finished():
        return trial._replace(values=dict(frozen.params)) if trial.is_searched else trial, None
    if frozen:
        optuna_trial = optuna.trial.Trial(study, frozen._trial_id)
    else:
        optuna_trial = study.ask()
        optuna_trial.set_user_attr(TRIAL, trial.number)
    if trial.is_searched:
        values = {
            name: _value(optuna_trial, name, choice) for name, choice in settings.space.items()
        }
        trial = trial._replace(values=values)
    # One that is resumed may begin anew or go on, so nobody knows what its values compare with.
    # On a cluster the lines of before come again.
    is_resumed = bool(frozen and frozen.intermediate_values) and not in_a_pod()
    return trial, Watch(stopping, optuna_trial) if stopping and not is_resumed else None


def tell(trial: Trial, result: TrialResult, workspace: Path) -> None:
    """Has the study learn what came of a trial."""
    if not search_space.study_path(workspace).exists():
        return
    from optuna.trial import TrialState

    study = _study(workspace)
    frozen = _asked(study, trial.number)
    if frozen is None:  # one that is listed, in a sweep that stops none early
        return
    if result.failed or result.stopped:
        state = TrialState.FAIL if result.failed else TrialState.PRUNED
        study.tell(frozen.number, state=state, skip_if_finished=True)
    else:
        study.tell(frozen.number, result.score, skip_if_finished=True)


def _study(
    workspace: Path, sampler: "BaseSampler | None" = None, pruner: "BasePruner | None" = None
) -> "Study":
    import optuna
    from optuna.storages.journal import JournalFileBackend, JournalFileOpenLock

    optuna.logging.set_verbosity(optuna.logging.WARNING)
    path = str(search_space.study_path(workspace))
    # NFS has had exclusive opening since version 3, and SMB has it, but no symbolic links.
    backend = JournalFileBackend(path, JournalFileOpenLock(path))
    return optuna.create_study(
        storage=optuna.storages.JournalStorage(backend),
        sampler=sampler,
        pruner=pruner,
        study_name=NAME,
        direction="maximize",
        load_if_exists=True,
    )


def _sampler(search: str, seed: int, number: int) -> "BaseSampler":
    from optuna.samplers import RandomSampler, TPESampler

    # Each trial is another process, which would begin the same random numbers again.
    own_seed = Random(f"{seed} {number}").getrandbits(32)
    return TPESampler(seed=own_seed) if search == TPE else RandomSampler(seed=own_seed)


def _pruner(how: EarlyStopping | None) -> "BasePruner":
    from optuna.pruners import HyperbandPruner, MedianPruner, NopPruner

    if how is None:
        return NopPruner()
    return HyperbandPruner() if how.pruner == "hyperband" else MedianPruner()


def _asked(study: "Study", number: int) -> "FrozenTrial | None":
    trials = (frozen for frozen in study.get_trials(deepcopy=False) if TRIAL in frozen.user_attrs)
    return next((frozen for frozen in trials if frozen.user_attrs[TRIAL] == number), None)


def _value(optuna_trial: "OptunaTrial", name: str, choice: list[Value] | Range) -> Value:
    if isinstance(choice, list):
        return cast(Value, optuna_trial.suggest_categorical(name, choice))
    low, high, step, log = choice
    if step is None or not choice.is_whole:
        return optuna_trial.suggest_float(name, low, high, step=step, log=log)
    return optuna_trial.suggest_int(name, int(low), int(high), step=int(step), log=log)
