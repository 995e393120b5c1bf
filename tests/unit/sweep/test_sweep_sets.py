"""components/sweep: the sets of parameters, and the best of what came of them."""

from types import SimpleNamespace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from trireme.errors import Cancelled, InputError, StepFailed
from trireme.evaluation.trials import TrialResult, results, save, trial_folder
from trireme.sweep import run_trial, sharing
from trireme.sweep.choose import choose
from trireme.sweep.search_space import Trial, trials
from trireme.tracking import journal, unsent_metrics


def test_every_combination_of_the_grid_and_what_is_listed_is_tried():
    found = trials({"--a": [1, 2], "seed": [3, 4]}, [{"--b": "x"}])
    assert [trial.values for trial in found] == [
        {"--a": 1, "seed": 3},
        {"--a": 1, "seed": 4},
        {"--a": 2, "seed": 3},
        {"--a": 2, "seed": 4},
        {"--b": "x"},
    ]
    assert [trial.number for trial in found] == [0, 1, 2, 3, 4]


def test_options_have_the_form_of_their_names():
    values = {"--rate=": 0.5, "lr=": 1, "model.width": 32, "+fp16": True, "--fast=": False}
    trial = Trial(0, values | {"seed": 1})
    assert trial.options == ["--rate=0.5", "lr=1", "model.width=32", "+fp16=true", "--fast=false"]
    assert trial.parameters == {"seed": 1}


def test_values_become_options_of_the_program_or_parameters_of_the_job():
    # kfp hands on whole numbers in an object as floats.
    values = {
        "--width": 32.0,
        "--rate": 0.5,
        "--on": True,
        "--off": False,
        "-n": "a b",
        "seed": 7.0,
    }
    (trial,) = trials({}, [values])
    assert trial.options == ["--on", "--rate", "0.5", "--width", "32", "-n", "a b"]
    assert trial.parameters == {"seed": 7}


VALUES = st.one_of(
    st.text(), st.booleans(), st.integers(-(2**53), 2**53), st.floats(allow_nan=False)
)


@given(values=st.dictionaries(st.text().map(lambda name: f"--{name}"), VALUES, min_size=1))
def test_a_trial_arrives_as_it_was(tmp_path_factory, values):
    workspace, trial = tmp_path_factory.mktemp("workspace"), Trial(0, values)
    (share,) = sharing.shares([trial], workspace, 4)
    assert [*sharing.trials_of(share, workspace)] == [trial]


def test_here_each_step_makes_one_trial(tmp_path):
    found = sharing.shares(trials({"--a": [*range(6)]}, []), tmp_path, 4)
    assert found == ["[0]", "[1]", "[2]", "[3]", "[4]", "[5]"]


def test_on_a_cluster_as_many_steps_as_run_at_once_share_all_trials(tmp_path, monkeypatch):
    monkeypatch.setattr(sharing, "in_a_pod", lambda: True)
    of_three = sharing.shares(trials({"--a": [*range(3)]}, []), tmp_path, 4)
    assert (of_three, sharing.is_many(of_three[0])) == (["[0]", "[1]", "[2]"], False)
    found = sharing.shares(trials({"--a": [*range(6)]}, []), tmp_path, 4)
    assert found == ["[0, 4]", "[1, 5]", "[2]", "[3]"]
    # A step whose pod is its second goes on where the first was: at what has no result.
    for result in (TrialResult(0, {"--a": 0}, failed="too wide"), TrialResult(2, {"--a": 2})):
        trial_folder(tmp_path, result.number).mkdir(parents=True)
        save(result, tmp_path)
    made = [[one.values["--a"] for one in sharing.trials_of(share, tmp_path)] for share in found]
    assert made == [[4], [1, 5], [2], [3]]


def test_a_grid_too_large_to_write_down_is_refused_at_once():
    with pytest.raises(InputError, match=r"they give 10,000,000,000,000,000,000,000,000 trials"):
        trials({f"--{number}": list(range(10)) for number in range(25)}, [])


@pytest.fixture
def tried(tmp_path):
    """Keeps what came of trials, each with a model; returns the workspace."""

    def make(*outcomes):
        for one in outcomes:
            model = trial_folder(tmp_path, one.number) / "model"
            model.mkdir(parents=True)
            (model / "weights").write_text(str(one.number))
            (model / "best").symlink_to(model / "weights")
            (model.parent / "steps" / "train").mkdir(parents=True)
            save(one, tmp_path)
        return tmp_path

    return make


def good(number, score):
    params = {"image": "example.org/trainer:1", "args": ["--a", number]}
    return TrialResult(
        number, {"--a": number}, headline=f"{score} right", score=score, params=params
    )


def test_the_best_takes_the_place_of_the_run_s_own_model(tried, capsys):
    workspace = tried(
        good(0, 0.5), TrialResult(1, {}, failed="too wide"), good(2, 0.75), good(3, 0.75)
    )
    assert [one.number for one in results(workspace)] == [2, 3, 0, 1]
    left = trial_folder(workspace, 2) / "checkpoints"
    left.mkdir()
    for name in ("checkpoint", unsent_metrics.NAME):
        (left / name).write_text(name)
    for _ in range(2):  # a step that is tried again finds what it has done
        with journal.opened(workspace, "choose"):
            assert choose(workspace).model == str(workspace / "model")
        assert (workspace / "model" / "best").read_text() == "2"
        assert (workspace / "checkpoints" / "checkpoint").exists()
        assert (left / unsent_metrics.NAME).exists()  # where the trial's journal looks for it
    assert "--a 0: 0.5 right\n: failed: too wide\n--a 2: 0.75 right\n" in capsys.readouterr().out
    said = [record for record in journal.read(workspace, "choose") if "summary" in record]
    assert said[0]["summary"] == "the best of 4, 1 of which failed: trial-002 --a 2: 0.75 right"


def test_where_all_have_failed_there_is_no_best(tried):
    workspace = tried(
        TrialResult(0, {}, failed="too wide"), TrialResult(1, {}, failed="too narrow")
    )
    with pytest.raises(StepFailed, match="all 2 trials failed, as the first did: too wide"):
        choose(workspace)


@pytest.mark.parametrize(("status", "is_told"), [(Cancelled.exit_status, False), (1, True)])
def test_a_trial_is_cancelled_with_its_step_and_fails_with_its_job(
    tmp_path, monkeypatch, status, is_told
):
    def cancelled(*_, **__):
        error = Cancelled("the job was cancelled")
        error.exit_status = status
        raise error

    monkeypatch.setattr(run_trial, "_train_and_evaluate", cancelled)
    settings = run_trial.EvaluationSettings(tmp_path, tmp_path, "", {"entrypoint": "x"})

    def run():
        trial = Trial(3, {"--a": 1})
        return run_trial.run_trial(trial, lambda place: None, settings, tmp_path, {})

    if is_told:
        assert run().failed == "the job was cancelled"
    else:
        with pytest.raises(Cancelled):
            run()


def test_a_trial_fails_before_it_trains_where_its_model_could_not_be_evaluated(tmp_path):
    (tmp_path / "data").mkdir()
    (tmp_path / "data" / "train.npz").touch()
    settings = run_trial.EvaluationSettings(tmp_path / "data", tmp_path, "", {})
    tried = run_trial.run_trial(
        Trial(0, {}), lambda place: SimpleNamespace(entrypoint=""), settings, tmp_path, {}
    )
    assert tried.failed.startswith("the dataset has no test split, so the model will not be ")
