"""Runs that MLflow lacks some of: which are brought, and when."""

import shutil
import subprocess
import sys

import pytest

from trireme.errors import InputError, TrackingUnavailable, TriremeError
from trireme.targets.local import running, runs, unsent
from trireme.tracking import store


def test_a_run_that_goes_on_again_is_left_to_itself(untracked, monkeypatch):
    monkeypatch.setattr(unsent, "bring", lambda one: unsent.forget(one.name))
    directory = untracked / "runs" / "one"
    directory.mkdir(parents=True)
    runs.Record(directory).end("FAILED")
    unsent.keep("one", store.uri(), "FINISHED", 3.0)
    again = runs.Record(directory)
    assert not unsent.bring_all()
    assert [one.name for one in unsent.read()] == ["one"]
    again.end("FAILED")
    assert unsent.bring_all()


def test_what_another_process_brings_is_not_brought_twice(untracked, monkeypatch):
    brought = []
    monkeypatch.setattr(unsent, "bring", brought.append)
    directory = untracked / "runs" / "one"
    directory.mkdir(parents=True)
    runs.Record(directory).end("FAILED")
    unsent.keep("one", store.uri(), "FINISHED", 3.0)
    waiting = unsent.read()
    monkeypatch.setattr(unsent, "read", lambda: waiting)
    unsent.forget("one")
    unsent.bring_all()
    assert brought == []


@pytest.fixture
def kept(untracked):
    """Keeps that runs have failed while MLflow was away; returns their directories by name."""

    def keep(*names):
        directories = [untracked / "runs" / name for name in names]
        for directory in directories:
            directory.mkdir(parents=True)
            runs.Record(directory).end("FAILED")
            unsent.keep(directory.name, store.uri(), "FAILED", 3.0)
        return directories

    return keep


def test_one_that_cannot_be_brought_does_not_hold_up_the_others(kept, monkeypatch, capsys):
    def bring(one):
        if one.name == "two":
            raise TriremeError("MLflow does not accept it")
        unsent.forget(one.name)

    gone, *_ = kept("one", "two", "three")
    shutil.rmtree(gone)
    monkeypatch.setattr(unsent, "bring", bring)
    assert not unsent.bring_all()
    assert [one.name for one in unsent.read()] == ["two"]
    assert "one is gone from this machine" in capsys.readouterr().err
    unsent.bring_all()
    said = capsys.readouterr().err
    assert "lacks some of two: MLflow does not accept it" in said and "one is gone" not in said


def test_a_server_that_is_away_is_asked_for_one_run(kept, monkeypatch):
    asked = []

    def bring(one):
        asked.append(one.name)
        raise TrackingUnavailable("it does not answer")

    kept("one", "two")
    monkeypatch.setattr(unsent, "bring", bring)
    assert not unsent.bring_all()
    assert asked == ["one"]


HOLDER = """
import sys, time
from trireme.targets.local import runs
with runs.held("one"):
    print("held", flush=True)
    sys.stdin.read()
"""


def test_a_run_is_brought_or_resumed_by_one_process(kept, monkeypatch):
    brought = []
    monkeypatch.setattr(unsent, "bring", brought.append)
    kept("one")
    holder = [sys.executable, "-c", HOLDER]
    with subprocess.Popen(holder, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as other:
        assert other.stdout.readline() == b"held\n"
        unsent.bring_all()
        assert brought == []
        with pytest.raises(InputError, match="resumed already, or brought to MLflow, by another"):
            running.resume(runs.find("one"), None)
        other.stdin.close()
    unsent.bring_all()  # as whoever resumes it does in the end
    assert [one.name for one in brought] == ["one"]
