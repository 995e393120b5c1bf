"""trireme compare and trireme.compare_runs, by runs in a real MLflow store."""

import os

import pytest
import tracking_uri
from mlflow import MlflowClient

import trireme as library
from trireme.errors import InputError
from trireme.files.kept_record import LAYOUT

NAMES = ("20260101-030000-0001-flowers", "20260102-030000-0002-flowers")


@pytest.fixture
def store(untracked, tmp_path, mlflow_store, monkeypatch):
    """A client of the store that MLFLOW_TRACKING_URI names, and an experiment in it."""
    (tmp_path / "mlflow.db").write_bytes(mlflow_store.read_bytes())
    uri = f"sqlite:///{tmp_path / 'mlflow.db'}"
    monkeypatch.setenv("MLFLOW_TRACKING_URI", uri)
    client = MlflowClient(uri)
    return client, client.create_experiment("flowers", (tmp_path / "artifacts").as_uri())


@pytest.fixture
def recorded(store):
    """Records a run with a training as a pipeline does; returns the id of the run."""
    client, experiment = store

    def record(name, params, *, tags=None, losses=(), held_out=0.9, packages="", trial=""):
        tags = {"pipeline": "flowers", "git.commit": "abc"} | (tags or {})
        run = client.create_run(experiment, tags=tags, run_name=name).info.run_id

        def step(called, **params):
            made = client.create_run(
                experiment, tags={"mlflow.parentRunId": run}, run_name=called
            ).info.run_id
            for each, value in params.items():
                client.log_param(made, each, value)
            client.log_metric(made, "cpu_seconds", 3.0)
            return made

        client.log_param(run, "args", "['--given']")
        client.log_metric(run, "held_out_accuracy", held_out)
        curved = step(trial or "train", world_size=2, **params)
        for number, loss in enumerate(losses):
            client.log_metric(curved, "loss", loss, step=number)
        if trial:
            client.set_tag(run, "trial", trial)
            client.set_tag(run, "training.run", step("choose", world_size=2, **params))
            step("trial-001", world_size=2, args="['--worst']")
        client.log_metric(step("evaluate"), "loss", 0.75)
        if packages:
            client.log_text(run, packages, "environment.txt")
        client.set_terminated(run, "FINISHED")
        return run

    return record


@pytest.fixture
def two(recorded):
    """Two runs that differ; their ids."""
    first = recorded(
        NAMES[0],
        {"args": "['--lr', '0.1']", "workers": "2"},
        losses=(4.0, 1.0),
        packages="numpy==1.0\ntorch==2.0\n",
    )
    second = recorded(
        NAMES[1],
        {"args": "['--lr', '0.2']", "args.lr": "0.2", "workers": "2"},
        tags={"git.commit": "abd"},
        losses=(3.0, 0.5),
        held_out=0.95,
        packages="numpy==1.1\ntorch==2.0\n",
    )
    return first, second


def test_differences_come_before_metrics_and_curves(trireme, two, monkeypatch):
    monkeypatch.setenv("COLUMNS", "60")
    status, output, errors = trireme("compare", *NAMES)
    assert (status, errors) == (0, "")
    lines = output.splitlines()
    assert lines[:18] == [
        f"A  {NAMES[0]}  FINISHED",
        f"B  {NAMES[1]}  FINISHED",
        "",
        "DIFFERS        A    B",
        "args.lr        0.1  0.2",
        "commit         abc  abd",
        "package numpy  1.0  1.1",
        "2 parameters are the same",
        "",
        "METRIC             A     B",
        "held_out_accuracy  0.9   0.95 <",
        "loss               1     0.5 <",
        "loss of evaluate   0.75  0.75",
        "< is the best",
        "",
        "loss",
        "  4 |AAAA",
        lines[17],
    ]
    assert lines[-1].split() == ["+step", "0", "1"]


def test_a_sweep_is_compared_by_its_best_trial(trireme, recorded, two):
    recorded("swept", {"args": "['--lr', '0.3']"}, losses=(2.0, 0.1), trial="trial-000")
    status, output, _ = trireme("compare", "swept", NAMES[0])
    assert status == 0
    assert "args.lr  0.3  0.1" in output.splitlines()
    assert "loss               0.1 <  1" in output.splitlines()
    assert "worst" not in output


def test_a_page_is_written_as_report_does(trireme, two, tmp_path):
    for place in (tmp_path / "page.html", tmp_path):
        status, output, _ = trireme("compare", *two, "-o", str(place))
        file = place if place.suffix else place / "comparison.html"
        assert (status, output.splitlines()[-1]) == (0, str(file))
        page = file.read_text()
        assert NAMES[0] in page and page.count('<svg class="curve"') == 1
    status, _, errors = trireme("compare", *two, "-o", str(tmp_path / "no" / "page.html"))
    assert status == 2
    assert errors.endswith("page.html: cannot be written: No such file or directory\n")


@pytest.mark.parametrize(
    ("names", "said"),
    [
        ([NAMES[0]], f"RUN {NAMES[0]}: give two runs or more"),
        ([NAMES[0], NAMES[0]], f"RUN {NAMES[0]!r}: is given twice\n"),
        ([NAMES[0], "ID"], f"RUN {NAMES[0]!r}: is given twice, also as"),
        ([NAMES[0], "nosuch"], "there is no run 'nosuch' in "),
        ([NAMES[0], "kept"], "RUN 'kept': MLflow at sqlite:///"),
        ([f"r{number}" for number in range(13)], "RUN: 13 are too many; 12 can be told apart"),
        ([NAMES[0], NAMES[1], "--target", "argo"], "--target argo: MLFLOW_TRACKING_URI has to"),
    ],
)
def test_what_cannot_be_compared_is_refused_in_a_sentence(
    trireme, two, untracked, monkeypatch, names, said
):
    kept = untracked / "runs" / "kept"
    (kept / "workspace").mkdir(parents=True)
    record = f'{{"layout": {LAYOUT}, "cwd": "/", "state": "FINISHED", "started": 0, "seconds": 1}}'
    (kept / "run.json").write_text(record)
    if "argo" in names:
        monkeypatch.delenv("MLFLOW_TRACKING_URI")
    names = [two[0] if name == "ID" else name for name in names]
    status, output, errors = trireme("compare", *names)
    assert (status, output) == (2, "")
    assert errors.startswith(f"error: {said}")
    assert errors.count("\n") == 1


def test_from_python_the_rows_are_there_and_the_process_is_as_it_was(two):
    before = dict(os.environ), tracking_uri.told()
    found = library.compare_runs(*NAMES)
    assert (dict(os.environ), tracking_uri.told() or None) == (before[0], before[1])
    assert found.differences[0] == {"name": "args.lr", NAMES[0]: "0.1", NAMES[1]: "0.2"}
    assert found.metrics[0]["best"] == [NAMES[1]]
    assert str(found).startswith(f"A  {NAMES[0]}  FINISHED\n")
    with pytest.raises(InputError, match="give two runs or more"):
        library.compare_runs(NAMES[0])
