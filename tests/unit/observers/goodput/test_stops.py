"""For how long checkpoints stop a training: of programs whose stops are known."""

import random

import pytest

from trireme.files import checkpoint_files
from trireme.observers.goodput.ledger import Mark
from trireme.observers.goodput.saving import Saving, states
from trireme.observers.goodput.stops import Writing, stop


def told(step, saves, *, every=0.0, jitter=0.0, count=200):
    """Returns marks of a program with steps of some seconds that saves after some of them."""
    at, heard, marks, seed = 1000.0, 0.0, [], random.Random(1)
    writings = []
    for number in range(1, count + 1):
        at += step * (1 + seed.uniform(-jitter, jitter))
        if at >= heard + every:
            marks.append(Mark(at, "step", number))
            heard = at
        if number in saves:
            before, lasts = saves[number]
            at += before + lasts
            writings.append(Writing(at - lasts - 0.4, at))
    return marks, writings


@pytest.mark.parametrize(
    ("step", "every", "jitter"), [(0.01, 0.5, 0.2), (0.3, 0.5, 0.2), (2.0, 0.5, 0.1)]
)
def test_a_stop_is_what_it_was(step, every, jitter):
    marks, writings = told(step, {500: (0, 3.0)}, every=every, jitter=jitter, count=1000)
    seen = stop(writings[0], marks, writings)
    assert seen.stop == pytest.approx(3.0, rel=0.1)
    assert writings[0].began <= seen.began and seen.began + seen.stop <= writings[0].ended + 0.5


def test_what_is_done_before_the_writing_is_no_stop_for_it():
    marks, writings = told(0.5, {100: (20.0, 3.0)})  # an evaluation comes first
    assert stop(writings[0], marks).stop == pytest.approx(3.4, abs=0.1)


def test_what_is_written_beside_training_stops_nothing():
    marks, _ = told(0.5, {})
    assert stop(Writing(1020, 1030), marks).stop == pytest.approx(0, abs=0.01)


def test_where_steps_differ_more_than_a_stop_lasts_it_cannot_be_told():
    marks, writings = told(30, {100: (0, 2.0)}, jitter=0.5)
    assert stop(writings[0], marks).stop is None


@pytest.mark.parametrize(
    "marks", [[], told(1, {}, count=4)[0], [m for m in told(1, {})[0] if m.at < 1050]]
)
def test_without_enough_marks_or_none_after_it_nothing_is_known(marks):
    assert stop(Writing(1060, 1062), marks).stop is None


def looked(*looks):
    saving = Saving()
    return [saving.take(dict(files), at) for at, files in looks]


def test_a_checkpoint_is_seen_when_nothing_is_written_any_more():
    first = {"old": (1, 5 * 10**9)}
    half, whole = (
        first | {"a": (7, int(11.2e9))},
        first | {"a": (9, int(12.5e9)), "b": (1, int(12.7e9))},
    )
    seen = looked((10, first), (11, first), (12, half), (13, whole), (14, whole), (16, whole))
    assert seen == [None] * 5 + [Writing(11, 12.7)]


def test_what_is_written_all_the_time_is_no_checkpoint():
    seen = looked(
        *((at, {"a": (at, at * 10**9)}) for at in range(2000)),
        (2001, {"a": (1999, 1999 * 10**9)}),
        (2005, {"a": (1999, 1999 * 10**9)}),
    )
    assert not any(seen)


def test_a_clock_that_is_another_is_not_believed():
    seen = looked((10, {}), (11, {"a": (1, 900 * 10**9)}), (15, {"a": (1, 900 * 10**9)}))
    assert seen[-1] == Writing(10, 11)


def test_files_that_programs_write_besides_are_no_checkpoints(tmp_path, monkeypatch):
    for name in (
        "a.pt",
        "train.log",
        ".hidden",
        "tensorboard/x",
        "deep/b/c/model.bin",
        "events.out.tfevents.1",
    ):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text("x")
    assert {file.rpartition("/")[2] for file in states(tmp_path)} == {"a.pt", "model.bin"}
    assert states(tmp_path / "none") == {}
    monkeypatch.setattr(checkpoint_files, "MOST", 3)
    assert states(tmp_path) is None
