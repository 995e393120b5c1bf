"""Runs that MLflow lacks some of: which are brought, and when."""

from trireme.components.tracking import store
from trireme.pipelines.targets.local import runs, unsent


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
