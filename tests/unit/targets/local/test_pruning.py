"""``trireme prune`` on this machine: what goes, and what stays."""

import json
import os
import shutil
import time
from pathlib import Path

import pytest
from mlflow.tracking import _tracking_service
from typer.testing import CliRunner

from trireme.cli.app import app
from trireme.data import staging
from trireme.data.cache_entry import forget_tree, last_used
from trireme.files.file_lock import FileLock
from trireme.files.kept_record import LAYOUT
from trireme.runner.local import jobs
from trireme.targets.local import pruning, runs, unsent
from trireme.tracking.lineage import START
from trireme.tracking.registry import BEFORE
from trireme.tracking.store import default_uri

DAY = 86400


@pytest.fixture
def home(tmp_path, monkeypatch):
    monkeypatch.setenv("TRIREME_HOME", str(tmp_path / "home"))
    return tmp_path / "home"


def make_run(home, name, days, state="FINISHED", **more):
    """Makes a run that ended so many days ago."""
    directory = home / "runs" / name
    (directory / "workspace").mkdir(parents=True)
    (directory / "workspace" / "model").write_bytes(bytes(10_000))
    started = time.time() - days * DAY
    record = {
        "layout": LAYOUT,
        "state": state,
        "started": started,
        "seconds": 0.0,
        "cwd": "/",
    } | more
    (directory / "run.json").write_text(json.dumps(record))
    return directory


def names(home):
    return sorted(path.name for path in (home / "runs").iterdir())


def prune(*options):
    done = CliRunner().invoke(app, ["prune", *options])
    assert done.exit_code == 0, done.output
    return done.output


def test_a_run_that_was_lost_has_ended_when_it_said_something_last(home):
    directory = make_run(home, "lost", days=50, state="running", seconds=None)
    record = json.loads((directory / "run.json").read_text())
    del record["seconds"]
    (directory / "run.json").write_text(json.dumps(record))
    long_ago = time.time() - 40 * DAY
    os.utime(directory / "run.json", (long_ago, long_ago))
    assert runs.find("lost").seconds == pytest.approx(10 * DAY, abs=60)
    assert "run lost" in prune("--keep", "0")


def test_old_runs_go_and_the_newest_stay(home):
    for days in (1, 10, 40, 50, 60):
        make_run(home, f"of-day-{days}", days)
    said = prune("--keep", "3", "--dry-run")
    assert "WOULD BE REMOVED" in said and "run of-day-50" in said and "2 would be removed" in said
    assert len(names(home)) == 5
    assert "2 removed, " in prune("--keep", "3")
    assert names(home) == ["of-day-1", "of-day-10", "of-day-40"]
    prune("--keep", "0")
    assert names(home) == ["of-day-1", "of-day-10"]
    prune("--keep", "0", "--older-than", "5d")
    assert names(home) == ["of-day-1"]


def test_what_runs_stays_and_what_mlflow_lacks(home):
    make_run(home, "runs", 90, "running")
    make_run(home, "was-killed", 90, "running")
    make_run(home, "waits", 90)
    unsent.keep("waits", "http://server", "FINISHED", 1.0)
    with runs.held("runs"):
        prune("--keep", "0")
    assert names(home) == ["runs", "waits"]


def test_a_dataset_stays_as_long_as_a_run_has_it_or_somebody_wanted_it(home, tmp_path):
    (data := tmp_path / "data").mkdir()
    (data / "a").write_text("1")
    old = make_run(home, "old", 90)

    def stage():
        return staging.stage(str(data), old / "workspace" / "data", home / "cache")

    stage()
    tree = (old / "workspace" / "data").resolve()
    stamp = home / "cache" / "used" / tree.name
    assert last_used(home / "cache", tree) > time.time() - 60
    os.utime(stamp, (0, 0))
    assert pruning.prunable(time.time() - DAY, keep=1) == []
    assert [one.what for one in pruning.prunable(time.time() - DAY, keep=0)] == [
        "run old",
        f"dataset sha256:{tree.name[:12]}",
    ]
    stage()
    assert [one.what for one in pruning.prunable(time.time() - DAY, keep=0)] == ["run old"]

    os.utime(stamp, (0, 0))
    prune("--keep", "0")
    assert [*(home / "cache" / "trees").iterdir()] == []
    stage()
    assert (tree / "a").read_text() == "1"


def test_who_wants_a_dataset_while_it_is_removed_has_it(home, tmp_path):
    (data := tmp_path / "data").mkdir()
    (data / "a").write_text("1")
    staging.stage(str(data), tmp_path / "here", home / "cache")
    tree = (tmp_path / "here").resolve()
    before = last_used(home / "cache", tree) - 1
    forget_tree(home / "cache", tree, before)  # it has been wanted since
    assert (tree / "a").read_text() == "1"
    forget_tree(home / "cache", tree, time.time() + 60)
    assert not tree.exists()


def test_packages_go_that_no_run_has(home):
    for name in ("used", "unused", "new"):
        (home / "packages" / name).mkdir(parents=True)
    for name in ("used", "unused"):
        os.utime(home / "packages" / name, (0, 0))
    run = make_run(home, "run", 1)
    (run / "workspace" / "packages").symlink_to(home / "packages" / "used")
    prune("--keep", "0")
    assert sorted(path.name for path in (home / "packages").iterdir()) == ["new", "used"]


def test_a_cache_is_kept_within_a_limit_by_what_was_used_longest_ago(home):
    for name, days in (("used", 9), ("oldest", 8), ("old", 7), ("now", 0)):
        (folder := home / "packages" / name).mkdir(parents=True)
        (folder / "a").write_bytes(bytes(1 << 20))
        os.utime(folder, 2 * (time.time() - days * DAY,))
    run = make_run(home, "run", 1)
    (run / "workspace" / "packages").symlink_to(home / "packages" / "used")

    def left(*options):
        prune("--keep", "10", *options)
        return {path.name for path in (home / "packages").iterdir()}

    assert left() == left("--cache-limit", "4Mi") == {"used", "oldest", "old", "now"}
    assert left("--cache-limit", "3500Ki") == {"used", "old", "now"}
    assert left("--cache-limit", "1") == {"used", "now"}


def test_old_jobs_go_with_the_dataset_that_only_they_have(home, tmp_path):
    (data := tmp_path / "data").mkdir()
    (data / "a").write_text("1")
    for name, state, days in (
        ("over", "failed", 50),
        ("runs", "running", 60),
        ("new", "failed", 1),
    ):
        directory = home / "jobs" / name
        directory.mkdir(parents=True)
        began = {"kind": "PyTorchJob", "reason": "", "seconds": 5.0, "state": state}
        began |= {"layout": LAYOUT, "started": time.time() - days * DAY}
        (directory / "state.json").write_text(json.dumps(began))
    staging.stage(str(data), home / "jobs" / "over" / "data", home / "cache")
    tree = (home / "jobs" / "over" / "data").resolve()
    os.utime(home / "cache" / "used" / tree.name, (0, 0))
    with FileLock(home / "jobs" / "runs" / jobs.LOCK):
        assert prune("--keep", "3").startswith("0 removed")
        prune("--keep", "1")
    assert {path.name for path in (home / "jobs").iterdir()} == {"new", "runs"}
    assert not tree.exists()


@pytest.mark.parametrize("text", ["much", "-1", "1 GB", ""])
def test_a_limit_that_is_none_is_refused(home, text):
    done = CliRunner().invoke(app, ["prune", "--cache-limit", text])
    assert "must be an amount such as 100Gi" in str(done.exception)


@pytest.mark.parametrize("text", ["30", "-1d", "1y", "1.5h", ""])
def test_a_time_that_is_none_is_refused(home, text):
    done = CliRunner().invoke(app, ["prune", "--older-than", text])
    assert done.exit_code == 2 or "--older-than" in str(done.exception)


@pytest.fixture
def records(home, mlflow_store, monkeypatch):
    """A client of the MLflow store of a home, and what makes a record in it."""
    home.mkdir()
    shutil.copy(mlflow_store, home / "mlflow.db")
    monkeypatch.setenv("MLFLOW_TRACKING_URI", default_uri(home))
    monkeypatch.setattr("mlflow.tracking._tracking_service.utils._tracking_uri", None)
    from mlflow import MlflowClient

    client = MlflowClient()
    experiment = client.create_experiment("nightly", str(home / "mlartifacts" / "7"))

    def make(name, days, **tags):
        ended = int(1000 * (time.time() - days * DAY))
        whole = client.create_run(experiment, ended, {"pipeline": "nightly"} | tags, name)
        within = {"mlflow.parentRunId": whole.info.run_id}
        for run in (whole, client.create_run(experiment, ended, within, "train")):
            client.log_text(run.info.run_id, 1000 * "a", "log")
            client.set_terminated(run.info.run_id, end_time=ended)
        return whole.info.run_id

    return client, experiment, make


def version_of(client, experiment, run):
    """Registers the model of a run; returns its version."""
    (folder := Path(client.get_run(run).info.artifact_uri)).mkdir(parents=True, exist_ok=True)
    (folder / "model.onnx").write_text("a model")
    model = client.create_logged_model(experiment, source_run_id=run)
    client.log_model_artifacts(model.model_id, str(folder))
    client.finalize_logged_model(model.model_id, "READY")
    tags = {"pipeline_run": run}
    return client.create_model_version("digits", f"models:/{model.model_id}", run, tags).version


def test_records_go_with_their_runs_but_for_what_is_still_needed(home, records):
    client, experiment, make = records
    names = {letter: f"nightly-20260101-030000-000{letter}" for letter in "abcdef"}
    runs = {letter: make(name, 90) for letter, name in names.items()}
    make_run(home, names["a"], 90)
    make(new := "nightly-20260101-030000-0010", 1, **{START: runs["b"]})
    make("somebody else's", 90)
    deleted = make("nightly-20260101-030000-0011", 90)
    client.delete_run(deleted)  # by somebody, who may restore it
    foreign = client.create_logged_model(experiment, name="foreign")
    client.delete_logged_model(foreign.model_id)
    client.delete_experiment(other := client.create_experiment("other"))
    client.create_registered_model("digits")
    versions = {letter: version_of(client, experiment, runs[letter]) for letter in "cdef"}
    for letter, alias in (("d", "champion"), ("f", "challenger")):
        client.set_registered_model_alias("digits", alias, versions[letter])
    client.set_model_version_tag("digits", versions["d"], BEFORE, versions["c"])

    assert "record" not in prune("--keep", "0", "--dry-run")
    said = prune("--keep", "1", "--records", "--dry-run")
    assert f"record {names['e']}" in said and f"record {names['a']}" not in said
    removed = prune("--keep", "0", "--records")
    assert f"record {names['a']}" in removed  # which has no model

    left = {run.info.run_name for run in client.search_runs([experiment])} - {"train"}
    assert left == {names["b"], names["c"], names["d"], names["f"], new, "somebody else's"}
    assert client.get_run(deleted).info.lifecycle_stage == "deleted"
    assert client.get_experiment(other).lifecycle_stage == "deleted"
    database = _tracking_service.utils._get_store(default_uri(home))
    assert database.get_logged_model(foreign.model_id, allow_deleted=True).name == "foreign"
    found = client.search_model_versions("name = 'digits'")
    assert {one.version for one in found} == {versions[letter] for letter in "cdf"}
    kept = {str(file.relative_to(home)) for file in (home / "mlartifacts").rglob("*")}
    assert not any(runs["e"] in path or runs["a"] in path for path in kept)
    assert any(runs["d"] in path for path in kept)
    assert len(client.search_logged_models([experiment])) == 3
    assert prune("--keep", "0", "--records").startswith("0 removed")


def test_a_model_of_any_name_does_not_keep_records(home, records):
    client, _, make = records
    make(name := "nightly-20260101-030000-0001", 90)
    kept = make("nightly-20260101-030000-0002", 90)
    client.create_registered_model("digits")
    client.rename_registered_model("digits", model := 'anna\'s "model"')
    client.create_model_version(model, "a place", kept, {"pipeline_run": kept})
    client.set_registered_model_alias(model, "champion", "1")
    said = prune("--keep", "0", "--records", "--dry-run")
    assert f"record {name}" in said and "0002" not in said


def test_the_records_of_a_server_are_not_ours_to_remove(home, monkeypatch):
    monkeypatch.setenv("MLFLOW_TRACKING_URI", "http://me:hunter2@mlflow:5000")
    done = CliRunner().invoke(app, ["prune", "--records"])
    assert "those in http://mlflow:5000 are not only of this machine's runs" in str(done.exception)
