"""``trireme prune`` on this machine: what goes, and what stays."""

import json
import os
import time

import pytest
from typer.testing import CliRunner

from trireme.components.dataset import staging
from trireme.components.dataset.cache_entry import forget_tree, last_used
from trireme.components.processes import born
from trireme.pipelines.cli.app import app
from trireme.pipelines.targets.local import pruning, unsent

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
    process = {"pid": os.getpid(), "born": born(os.getpid()), "steps": {}}
    record = {"state": state, "started": started, "seconds": 0.0} | process | more
    (directory / "run.json").write_text(json.dumps(record))
    return directory


def names(home):
    return sorted(path.name for path in (home / "runs").iterdir())


def prune(*options):
    done = CliRunner().invoke(app, ["prune", *options])
    assert done.exit_code == 0, done.output
    return done.output


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
    make_run(home, "was-killed", 90, "running", born="another process")
    make_run(home, "waits", 90)
    unsent.keep("waits", "http://server", "FINISHED", 1.0)
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
        began |= {"started": time.time() - days * DAY, "pid": os.getpid()}
        (directory / "state.json").write_text(json.dumps(began | {"born": born(os.getpid())}))
    staging.stage(str(data), home / "jobs" / "over" / "data", home / "cache")
    tree = (home / "jobs" / "over" / "data").resolve()
    os.utime(home / "cache" / "used" / tree.name, (0, 0))
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
