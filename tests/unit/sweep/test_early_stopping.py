"""components/sweep: trials that are stopped early by what their programs say meanwhile."""

import math

import pytest
from jobs_of_runs import job_in
from mlflow import MlflowClient

from trireme.errors import InputError
from trireme.evaluation.trials import TrialResult, results, save, trial_folder
from trireme.runner import training_step
from trireme.sweep import early_stopping, search_space, study
from trireme.sweep.early_stopping import EarlyStopping, StoppedEarly, Watch

EPOCHS = 27


class Reports:
    """What a trial of Optuna's is told."""

    def __init__(self):
        self.told = []

    def report(self, value, step):
        assert step == len(self.told)
        self.told.append(value)

    def should_prune(self):
        return len(self.told) == 3


def read(metric, *lines, **how):
    told = Reports()
    watch = Watch(EarlyStopping(metric=metric, goal="maximize", **how), told)
    for line in lines:
        watch.lines("", line)
    watch.report()
    return told.told


@pytest.mark.parametrize(
    ("line", "value"),
    [
        ("epoch 3/10 loss 0.25 accuracy 0.5 samples/s 12", 0.25),
        ("Train Epoch: 1 [640/60000 (1%)]\tloss: 1.5e-3", 0.0015),
        ("{'eval_loss': 9, 'loss': 0.5, 'epoch': 1.2}", 0.5),
        ("469/469 - 1s - loss: 0.3 - val_accuracy: 0.9 - val_loss: 7", 0.3),
        ("1/9 loss: 3 \r2/9 loss: 2 \r9/9 loss: 1", 1),
        ("loss=-.5, lr=1e-3", -0.5),
        ("loss 2.", 2),
        ("loss\t0.7", 0.7),
        ("loss 0.5 val/loss 0.9", 0.5),
        ("train/loss 0.4", None),
        ("loss nan", -math.inf),
        ("val_loss 0.25", None),
        ("loss_scale 2.0", None),
        ("no loss here: 3", None),
        ("loss 3rd", None),
        ("loss 1.25s", None),
        ("loss: 1,234.5", None),
        ("loss NaN", -math.inf),
        ("loss 0.5, accuracy 1", 0.5),
        ("\x1b[32mloss 0.5\x1b[0m", 0.5),
    ],
)
def test_the_metric_is_read_from_lines_as_programs_print_them(line, value):
    assert read("loss", line) == ([] if value is None else [value])


@pytest.mark.parametrize(
    ("metric", "goal", "is_minimized"),
    [
        ("val_loss", None, True),
        ("RMSE", None, True),
        ("accuracy", None, False),
        ("val_loss", "maximize", False),
        ("pixels", "minimize", True),
    ],
)
def test_less_of_a_loss_is_better(metric, goal, is_minimized):
    assert EarlyStopping(metric=metric, goal=goal).is_minimized == is_minimized


def made(workspace, pruner, count, grid=None):
    grid = grid or {"--final": list(range(count))}
    how = {"metric": "loss", "pruner": pruner}
    search_space.save("grid", search_space.space(grid, [], "train.py", "grid"), workspace, how)
    return search_space.trials(grid, [], "train.py")


@pytest.mark.parametrize("pruner", ["hyperband", "median"])
def test_bad_trials_end_early_and_the_best_never_does(tmp_path, pruner):
    epochs = {}
    for one in made(tmp_path, pruner, 12):
        asked, watch = study.ask(one, tmp_path, 0)
        assert asked == one
        final = one.values["--final"]
        for epoch in range(EPOCHS):
            watch.lines("", f"epoch {epoch} loss {final + 3 * 0.8**epoch}")
            watch.report()
            if watch.why:
                assert f"at report {epoch + 1} is worse than that of others" in watch.why
                break
        epochs[final] = epoch + 1
        result = TrialResult(one.number, one.values, stopped=watch.why, score=-final)
        study.tell(one, result, tmp_path)
        # Killed before its step was done: it is not stopped by what it said itself.
        assert study.ask(one, tmp_path, 0) == (one, None)
    assert epochs[0] == EPOCHS
    assert sum(epochs.values()) < 0.7 * 12 * EPOCHS


def test_a_metric_that_is_logged_and_not_printed_is_asked_of_mlflow(tmp_path, monkeypatch):
    uri = f"sqlite:///{tmp_path}/mlflow.db"
    client = MlflowClient(uri)
    run = client.create_run("0").info.run_id
    monkeypatch.setenv("MLFLOW_TRACKING_URI", uri)
    monkeypatch.setenv("MLFLOW_RUN_ID", run)
    watch = Watch(EarlyStopping(metric="loss"), told := Reports())
    client.log_metric(run, "loss", 3.0, step=10)
    watch.report()
    assert told.told == []  # not asked at once
    monkeypatch.setattr(early_stopping, "ASK_EVERY", 0)
    watch.report()
    client.log_metric(run, "loss", 2.0, step=20)
    watch.report()
    assert told.told == [-3, -2]
    client.log_metric(run, "loss", 2.5, step=30)
    watch.report()
    assert watch.why == "loss 2.5 at report 3 is worse than that of others"


def test_a_study_that_cannot_be_written_stops_no_trial(eventually):
    asked = []

    class Broken(Reports):
        def report(self, value, step):
            asked.append(step)
            raise OSError

    watch = Watch(EarlyStopping(metric="loss"), Broken())
    watch.lines("", "loss 1")
    watch.tick(None)
    assert eventually(lambda: asked)
    watch.end(None)
    watch.tick(None)


def test_of_very_many_values_few_are_reported(tmp_path):
    (one,) = made(tmp_path, "median", 1)
    _, watch = study.ask(one, tmp_path, 0)
    watch.lines("", "\n".join(f"loss {number}" for number in range(2001)))
    watch.report()
    found = study._asked(study._study(tmp_path), 0).intermediate_values
    assert list(found) == [*range(100), *range(100, 1000, 10), *range(1000, 2001, 100)]
    assert found[1100] == -1100


def test_a_trial_that_is_resumed_is_not_stopped_early(tmp_path):
    (one,) = made(tmp_path, "median", 1)
    assert study.ask(one, tmp_path, 0)[1]
    watch = study.ask(one, tmp_path, 0)[1]  # as when it was killed before it had told anything
    watch.lines("", "loss 3")
    watch.report()
    assert study.ask(one, tmp_path, 0)[1] is None


def test_the_program_of_a_trial_that_is_stopped_is_ended(tmp_path):
    (tmp_path / "train.py").write_text(
        "import pathlib, time\n"
        "for epoch in range(1000):\n"
        "    print('loss', epoch, flush=True)\n"
        "    time.sleep(0.05)\n"
        "pathlib.Path('ended').touch()\n"
    )
    job = job_in(tmp_path, run="r", framework="custom", code=str(tmp_path))
    watch = Watch(EarlyStopping(metric="loss"), told := Reports())
    watch.leader = job.leader
    told.should_prune = lambda: len(told.told) >= 3
    with pytest.raises(StoppedEarly) as stopped:
        training_step.train(job, tmp_path, observers=[watch])
    assert 0 < stopped.value.replica_seconds["worker-0"] < 50
    assert told.told[:3] == [0, -1, -2] and not (tmp_path / "ended").exists()
    assert not (tmp_path / "model").exists()


def test_the_best_is_chosen_among_those_that_came_to_their_end(tmp_path):
    stopped = TrialResult(0, {"--width": 1}, stopped="loss 3 at report 2 is worse than others'")
    failed = TrialResult(1, {"--width": 2}, failed="no memory")
    good = TrialResult(2, {"--width": 3}, score=-5.0, headline="loss 5")
    for one in (stopped, failed, good):
        trial_folder(tmp_path, one.number).mkdir(parents=True)
        save(one, tmp_path)
    assert [one.number for one in results(tmp_path)] == [2, 0, 1]
    assert results(tmp_path)[1].words == f"--width 1: stopped early: {stopped.stopped}"


@pytest.mark.parametrize(
    ("given", "sentence"),
    [
        ({"goal": "minimize"}, "early_stopping.metric is needed; early_stopping has metric, goal"),
        ({"metric": "x", "by": 1}, "early_stopping.by is not a field"),
        ({"metric": 3}, "early_stopping.metric 3: "),
        ({"metric": ""}, "early_stopping.metric '': "),
        ({"metric": "x", "goal": "less"}, "early_stopping.goal 'less': "),
    ],
)
def test_what_cannot_be_is_refused(given, sentence):
    with pytest.raises(InputError) as refused:
        early_stopping.read(given)
    assert str(refused.value).startswith(sentence)
