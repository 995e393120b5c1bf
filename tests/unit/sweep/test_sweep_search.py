"""components/sweep: what is searched at random and by TPE, in a study that trials share."""

from concurrent.futures import ProcessPoolExecutor
from math import log10

import optuna
import pytest

from trireme.errors import InputError
from trireme.evaluation.trials import TrialResult
from trireme.sweep import study
from trireme.sweep.search_space import Range, extremes, save, space, study_path, trials

# As kfp hands it on: names in any order, whole numbers as floats.
SPACE = {
    "workers": {"low": 1.0, "high": 6.0, "step": 2.0},
    "--rate": {"low": 0.0001, "high": 0.1, "log": True},
    "--drop": {"low": 0.0, "high": 1.0},
    "--width": {"low": 1.0, "high": 512.0, "step": 1.0, "log": True},
    "--kind": ["a", True, 3.0],
    "--only": [7.0],
}


def asked(workspace, number, seed=0):
    made = trials(SPACE, [], search="tpe", n_trials=number + 1)
    return study.ask(made[number], workspace, seed)[0]


@pytest.fixture(params=["random", "tpe"])
def workspace(request, tmp_path):
    save(request.param, space(SPACE, [], "train.py", request.param), tmp_path)
    return tmp_path


def test_a_search_lists_its_trials_before_what_is_listed_one_by_one():
    found = trials(SPACE, [{"--rate": 1}], "", "random", 2)
    assert [(one.number, one.values, one.is_searched) for one in found] == [
        (0, {}, True),
        (1, {}, True),
        (2, {"--rate": 1}, False),
    ]


def test_without_a_space_the_learning_rate_of_the_reference_classifier_is_searched():
    assert space({}, [], "", "tpe") == {"--learning-rate": Range(0.0005, 0.008, log=True)}
    with pytest.raises(InputError, match=r"grid {}: must say where search 'tpe' looks"):
        trials({}, [], "train.py", "tpe", 3)


def test_values_are_of_the_space(workspace):
    found = [asked(workspace, number).values for number in range(15)]
    for values in found:
        assert list(values) == sorted(SPACE)
        assert 0.0001 <= values["--rate"] <= 0.1
        assert 0 <= values["--drop"] <= 1
        assert type(values["--width"]) is int and 1 <= values["--width"] <= 512
        assert values["workers"] in (1, 3, 5) and type(values["workers"]) is int
        assert values["--kind"] in ("a", True, 3)
        assert values["--only"] == 7
    assert len({values["--rate"] for values in found}) == 15
    assert {values["workers"] for values in found} == {1, 3, 5}
    # By its logarithm: on a straight scale one in ten would be below a tenth of the range.
    assert sum(values["--rate"] < 0.01 for values in found) > 5


def test_the_seed_chooses(workspace, tmp_path_factory):
    again = tmp_path_factory.mktemp("again")
    (again / "search.json").write_text((workspace / "search.json").read_text())
    first = [asked(workspace, number, seed=5).values for number in range(3)]
    assert [asked(again, number, seed=5).values for number in range(3)] == first
    assert asked(again, 3, seed=5).values != asked(workspace, 3, seed=6).values


def test_a_trial_that_was_killed_goes_on_with_its_values(workspace):
    before = asked(workspace, 4)
    asked(workspace, 2)
    assert asked(workspace, 4, seed=9) == before
    study.tell(before, TrialResult(4, before.values, score=0.5), workspace)
    # Killed after it was told, so that its step runs again.
    assert asked(workspace, 4, seed=9) == before
    study.tell(before, TrialResult(4, before.values, score=0.7), workspace)
    (told,) = [one for one in kept(workspace).trials if one.state.is_finished()]
    assert (told.value, told.user_attrs) == (0.5, {"trial": 4})
    assert len(kept(workspace).trials) == 2


def test_what_failed_is_no_score(workspace):
    failed = asked(workspace, 0)
    study.tell(failed, TrialResult(0, failed.values, failed="too wide"), workspace)
    good = asked(workspace, 1)
    study.tell(good, TrialResult(1, good.values, score=0.25), workspace)
    assert [one.state.name for one in kept(workspace).trials] == ["FAIL", "COMPLETE"]
    assert kept(workspace).best_value == 0.25


def test_trials_at_the_same_time_are_all_in_the_study(workspace):
    with ProcessPoolExecutor(4) as pool:
        found = list(pool.map(asked, [workspace] * 8, range(8)))
    assert len({one.values["--rate"] for one in found}) == 8
    assert sorted(one.user_attrs["trial"] for one in kept(workspace).trials) == list(range(8))


def test_tpe_comes_closer_than_chance(tmp_path):
    def best(search, seed):
        workspace = tmp_path / f"{search}-{seed}"
        workspace.mkdir()
        given = {"--rate": {"low": 1e-6, "high": 1.0, "log": True}}
        save(search, space(given, [], "train.py", search), workspace)
        scores = []
        for one in trials(given, [], "", search, 30):
            one = study.ask(one, workspace, seed)[0]
            scores.append(-((log10(one.values["--rate"]) + 3.3) ** 2))
            study.tell(one, TrialResult(one.number, one.values, score=scores[-1]), workspace)
        # Not the best alone: what is tried later is better.
        return sum(scores[15:])

    assert sum(best("tpe", seed) > best("random", seed) for seed in range(3)) == 3


def test_a_trial_of_a_grid_has_no_study(tmp_path):
    (one,) = trials({"--width": [3]}, [])
    assert study.ask(one, tmp_path, 0) == (one, None)
    study.tell(one, TrialResult(0, one.values), tmp_path)
    assert list(tmp_path.iterdir()) == []


def test_the_largest_job_of_a_search_is_known_before_it_begins():
    found = space(SPACE | {"processes_per_worker": [2, 4, 1]}, [], "train.py", "tpe")
    assert extremes(found) == [
        {"processes_per_worker": 1, "workers": 1},
        {"processes_per_worker": 2, "workers": 5},
        {"processes_per_worker": 4, "workers": 5},
    ]
    assert extremes({"--width": [1]}) == [{}]


def rate(**values):
    return {"--rate": values}


@pytest.mark.parametrize(
    ("grid", "search", "count", "sentence"),
    [
        (SPACE, "bayes", 3, "search 'bayes': must be one of grid, random, tpe"),
        (rate(low=0, high=1), "grid", 0, "must be a list of values, for search 'grid' has no"),
        ({"--rate": [1]}, "grid", 3, "n_trials 3: must be 0 with search 'grid'"),
        (SPACE, "tpe", 0, "n_trials 0: must be 1 to 5,000, the trials that search 'tpe' makes"),
        (SPACE, "random", 5001, "n_trials 5001: must be 1 to 5,000"),
        (rate(low=1), "tpe", 3, "a range has low and high, and may have step and log"),
        (rate(low=1, high=2, q=3), "tpe", 3, "a range has low and high"),
        (rate(low=1, high="2"), "tpe", 3, "high must be a number"),
        (rate(low=True, high=2), "tpe", 3, "low must be a number"),
        (rate(low=1, high=float("inf")), "tpe", 3, "high must be a number"),
        (rate(low=1, high=10**400), "tpe", 3, "high must be a number"),
        (rate(low=1, high=float("nan")), "tpe", 3, "high must be a number"),
        (rate(low=1, high=2, log=1), "tpe", 3, "log must be true or false"),
        (rate(low=2, high=2), "tpe", 3, "low must be less than high"),
        (rate(low=0, high=2, step=0), "tpe", 3, "step must be more than 0"),
        (rate(low=0, high=2, step=3), "tpe", 3, "step must be more than 0, and at most"),
        (rate(low=1, high=2, step=1e-300), "tpe", 3, "step must be greater"),
        (rate(low=0, high=2, step=5e-324), "tpe", 3, "step must be greater"),
        (rate(low=0, high=2, log=True), "tpe", 3, "low must be more than 0 where log is true"),
        (rate(low=1, high=9, step=2, log=True), "tpe", 3, "where log is true, step must be 1"),
        ({"workers": {"low": 1, "high": 4}}, "tpe", 3, "for workers is a whole number"),
        ({"rate": {"low": 1, "high": 4}}, "tpe", 3, "'rate' must be an option of the program"),
        ({"--rate": ["a\0b"]}, "grid", 0, "must not hold a NUL character"),
        ({"entrypoint": [1]}, "grid", 0, "entrypoint 1 must be the name of a program"),
        ({"entrypoint": {"low": 1, "high": 2}}, "tpe", 3, "must be a list of programs"),
        ({"--rate": 3}, "tpe", 3, "must be a list of one value or more, or a range such as"),
    ],
)
def test_a_search_that_cannot_be_is_refused(grid, search, count, sentence):
    with pytest.raises(InputError) as refused:
        trials(grid, [], "", search, count)
    assert sentence in str(refused.value)


def kept(workspace):
    path = str(study_path(workspace))
    storage = optuna.storages.JournalStorage(optuna.storages.journal.JournalFileBackend(path))
    return optuna.load_study(study_name=study.NAME, storage=storage)
