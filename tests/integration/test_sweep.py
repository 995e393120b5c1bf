"""The sweep: many trainings, some of which fail, and the best goes on."""

import json

import optuna
import pytest

pytestmark = pytest.mark.slow


def trial(number):
    return f"trial-{number:03}"


def test_of_twelve_trainings_three_fail_and_the_best_is_registered(trireme, graded):
    grid = {"--more": [0.5, 0.25, 0.75], "--fail": [False], "seed": [0, 1, 2]}
    failing = [{"--fail": True, "seed": seed} for seed in range(3)]
    result = trireme.call(
        "run",
        "sweep",
        *graded(
            0.1, "workers=0", f"grid={json.dumps(grid)}", f"trials={json.dumps(failing)}", "args=[]"
        ),
    )
    assert result.returncode == 0, result.stdout + result.stderr
    (chosen,) = [line for line in result.stdout.splitlines() if "choose    finished" in line]
    assert (
        f"the best of 12, 3 of which failed: {trial(6)} --fail False --more 0.75 seed 0" in chosen
    )
    assert "goodness 0.85" in chosen
    assert "graded, version 1, champion" in result.stdout

    (parent,) = trireme.parents()
    assert parent.info.status == "FINISHED"
    assert "error" not in parent.data.tags
    assert parent.data.tags["trial"] == trial(6)
    steps = trireme.nested(parent)
    states = [steps[trial(number)].info.status for number in range(12)]
    assert states == ["FINISHED"] * 9 + ["FAILED"] * 3
    assert "exited with status 3" in steps[trial(11)].data.tags["error"]
    assert steps[trial(7)].data.params["seed"] == "1"
    assert steps[trial(7)].data.metrics["held_out_goodness"] == pytest.approx(0.85, abs=0.01)
    assert steps["choose"].data.metrics["failed_trials"] == 3
    assert parent.data.tags["training.run"] == steps["choose"].info.run_id

    workspace = trireme.run_directory() / "workspace"
    assert (workspace / "model" / "goodness").read_text() == "0.85"
    _, _, report = (workspace / "report.html").read_text().partition("<h2>Trials</h2>")
    assert 0 < report.index("--more 0.75") < report.index("--more 0.5 ")
    assert report.count("failed: replica master-0 exited with status 3") == 3


def test_tpe_chooses_what_is_tried_and_the_study_is_kept(trireme, graded):
    grid = {"--more": {"low": 0.1, "high": 0.8}, "seed": {"low": 1, "high": 9, "step": 4}}
    result = trireme.call(
        "run",
        "sweep",
        *graded(0.1, "workers=0", "search=tpe", "n_trials=4", f"grid={json.dumps(grid)}"),
        *("-p", 'trials=[{"--more": 0.05}, {"--fail": true}]', "-p", "args=[]"),
        *("-p", 'early_stopping={"metric": "goodness"}'),
    )
    assert result.returncode == 0, result.stdout + result.stderr
    (parent,) = trireme.parents()
    steps = trireme.nested(parent)
    tried = [steps[trial(number)].data for number in range(4)]
    more = [float(each.params["--more"]) for each in tried]
    assert len(set(more)) == 4 and all(0.1 <= each <= 0.8 for each in more)
    assert {each.params["seed"] for each in tried} <= {"1", "5", "9"}
    assert "--more" in steps[trial(4)].data.params and "--fail" in steps[trial(5)].data.params
    best = max(range(4), key=lambda number: more[number])
    assert parent.data.tags["trial"] == trial(best)
    (chosen,) = [line for line in result.stdout.splitlines() if "choose    finished" in line]
    assert f"the best of 6, 1 of which failed: {trial(best)} --more {more[best]} seed" in chosen

    workspace = trireme.run_directory() / "workspace"
    backend = optuna.storages.journal.JournalFileBackend(str(workspace / "optuna.log"))
    study = optuna.load_study(study_name="sweep", storage=optuna.storages.JournalStorage(backend))
    searched = {one.user_attrs["trial"]: one for one in study.trials}
    assert [searched[number].params["--more"] for number in range(4)] == more
    reported = [*(0.1 + each for each in more), pytest.approx(0.15)]
    assert [searched[number].intermediate_values[0] for number in range(5)] == reported
    assert searched[5].state.name == "FAIL" and not searched[5].intermediate_values
    assert study.best_value == pytest.approx(0.1 + more[best], abs=0.01)


def test_where_all_trainings_fail_the_run_does(trireme, graded):
    failing = '[{"--fail": true}, {"--fail": true, "seed": 1}]'
    more = ("workers=0", "grid={}", f"trials={failing}", "args=[]")
    result = trireme.call("run", "sweep", *graded(0.1, *more))
    assert result.returncode == 1
    assert result.stderr.splitlines()[-1] == (
        "error: all 2 trials failed, as the first did: replica master-0 exited with status 3"
    )
    (parent,) = trireme.parents()
    assert parent.info.status == "FAILED"
    assert trireme.nested(parent)["finish"].info.status == "FINISHED"


@pytest.mark.parametrize(
    ("more", "sentence"),
    [
        (["entrypoint=train.py"], "they give 0 trials; 1 to 5,000 are allowed"),
        (['grid={"--width": 32}'], "grid.--width 32: must be a list of one value or more"),
        (['grid={"width": [32]}'], "'width' must be an option of the program, such as --width"),
        (['grid={"--width": [[1]]}'], "--width [1] must be text, a number, true or false"),
        (['grid={"workers": [-2]}'], "workers"),
        (['trials=["--width"]'], "trials.0 '--width': must map names to values"),
        ([f'grid={{"seed": {list(range(5001))}}}'], "5,001 trials"),
        (["search=bayes"], "search 'bayes': must be one of grid, random, tpe"),
        (["search=random"], "n_trials 0: must be 1 to 5,000"),
        (['early_stopping={"goal": "minimize"}'], "early_stopping.metric is needed"),
        (['early_stopping={"metric": "x", "pruner": "best"}'], "early_stopping.pruner 'best'"),
        (['grid={"--width": {"low": 1, "high": 2}}'], "must be a list of values"),
        (["framework=mpi"], "framework 'mpi': must be one of pytorch, tensorflow"),
    ],
)
def test_a_sweep_that_cannot_be_is_refused(trireme, more, sentence):
    result = trireme.call("run", "sweep", *(word for one in more for word in ("-p", one)))
    assert result.returncode == 2
    assert sentence in result.stderr and result.stderr.count("\n") == 1
    assert not (trireme.home / "runs").exists()
