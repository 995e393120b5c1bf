"""What the replicas of a job spend their time with, as it is kept."""

import json
from dataclasses import replace
from types import SimpleNamespace

import pytest

from trireme.observers import timeline
from trireme.observers.timeline import (
    QUEUED,
    RESTARTING,
    RUNNING,
    SPANS,
    STARTING,
    Attempt,
    Life,
    Span,
    Timeline,
    spans,
)


def test_what_lies_between_two_attempts_is_a_restart():
    attempts = [Attempt(5, 8, "exited with status 1"), Attempt(9, 12)]
    assert spans(1, attempts, placed=3, goes_on=False) == [
        Span(QUEUED, 1, 3),
        Span(STARTING, 3, 5),
        Span(RUNNING, 5, 8, "exited with status 1"),
        Span(RESTARTING, 8, 9),
        Span(RUNNING, 9, 12),
    ]


@pytest.mark.parametrize(
    ("placed", "attempts", "last"),
    [
        (None, [], Span(QUEUED, 1)),
        (3, [], Span(STARTING, 3)),
        (3, [Attempt(5)], Span(RUNNING, 5)),
        (3, [Attempt(5, 8, "failed")], Span(RESTARTING, 8)),
    ],
)
def test_what_still_lasts_has_no_end(placed, attempts, last):
    assert spans(1, attempts, placed=placed)[-1] == last
    over = spans(1, [attempt._replace(ended=8) for attempt in attempts], goes_on=False)
    assert all(span.ended is not None for span in over)


def look(timeline, lives, *, has_ended=False):
    """Has a time line look at a job with these replicas."""
    timeline.tick(SimpleNamespace(has_ended=has_ended, lives=lambda: lives))


def test_a_file_is_read_as_it_was_written(tmp_path):
    lives = {"worker-0": Life(spans(1, [Attempt(5, 8, "failed"), Attempt(9)]), 0, 1.5, 2.0**20)}
    look(Timeline(tmp_path / "logs" / timeline.NAME), lives)
    assert timeline.read(tmp_path / "logs" / timeline.NAME) == lives


def test_a_replica_that_is_restarted_for_ever_does_not_fill_the_disk(tmp_path):
    attempts = [Attempt(10 * n, 10 * n + 9, "x" * 10_000) for n in range(1, 1000)]
    life = Life(spans(0, attempts, goes_on=False))
    look(Timeline(tmp_path / "r"), {"worker-0": life})
    kept = timeline.read(tmp_path / "r")["worker-0"]
    assert kept.spans[0] == life.spans[0]
    assert [each[:3] for each in kept.spans[1:]] == [s[:3] for s in life.spans[1 - SPANS :]]
    assert kept.left_out == len(life.spans) - SPANS
    assert (tmp_path / "r").stat().st_size < 300 * SPANS


def test_changes_are_not_written_all_the_time(tmp_path):
    file = tmp_path / "replicas"
    kept = Timeline(file)
    look(kept, {"worker-0": Life([Span(RUNNING, 1)])})
    look(kept, {"worker-0": Life([Span(RUNNING, 1, 2)])})
    assert timeline.read(file)["worker-0"].spans == [Span(RUNNING, 1)]
    look(kept, {"worker-0": Life([Span(RUNNING, 1, 2)])}, has_ended=True)
    assert timeline.read(file)["worker-0"].spans == [Span(RUNNING, 1, 2)]


def test_of_a_job_that_is_made_anew_both_are_kept_and_of_one_that_is_found_again_one(tmp_path):
    file = tmp_path / "replicas"
    kept = Timeline(file)
    first = [Span(STARTING, 1, 2), Span(RUNNING, 2, 9, "failed")]
    look(kept, {"worker-0": Life(first)}, has_ended=True)
    kept.prepare({})
    second = [Span(STARTING, 10, 11), Span(RUNNING, 11)]
    look(kept, {"worker-0": Life(second)}, has_ended=True)
    assert timeline.read(file)["worker-0"].spans == first + second
    found_again = [Span(STARTING, 10, 11), Span(RUNNING, 11, 20)]
    look(Timeline(file), {"worker-0": Life(found_again)})
    assert timeline.read(file)["worker-0"].spans == first + found_again


def test_what_a_job_used_counts_when_it_is_made_anew_and_not_twice_when_it_is_found(tmp_path):
    file = tmp_path / "replicas"
    first = Life([Span(RUNNING, 2, 12)], 0, 20.0, 7.0)
    look(Timeline(file), {"worker-0": first})
    kept = Timeline(file)
    found_again = replace(first, cpu_seconds=19.0, peak_memory=6.0)
    look(kept, {"worker-0": found_again}, has_ended=True)
    assert timeline.read(file)["worker-0"] == replace(found_again, peak_memory=7.0)
    kept.prepare({})
    under_way = Life([Span(RUNNING, 20)], 0, None, 5.0)
    look(kept, {"worker-0": under_way}, has_ended=True)
    assert timeline.read(file)["worker-0"].cpu == 1.9
    second = Life([Span(RUNNING, 20, 30)], 0, 10.0, 5.0)
    look(kept, {"worker-0": second}, has_ended=True)
    both = timeline.read(file)["worker-0"]
    assert (both.ran, both.cpu_seconds, both.peak_memory) == (20.0, 29.0, 7.0)
    unknown = Life([Span(RUNNING, 20, 30)])
    look(Timeline(file), {"worker-0": unknown})
    assert timeline.read(file)["worker-0"].cpu_seconds is None


@pytest.mark.parametrize(
    "text",
    [
        "",
        "[]",
        '{"replicas": []}',
        '{"replicas": {"worker-0": {"spans": [{"state": "rests", "from": 1}]}}}',
        '{"replicas": {"worker-0": {"spans": [{"state": "running", "from": NaN}]}}}',
        '{"replicas": {"worker-0": {"spans": [{"state": "running", "from": 2, "to": 1}]}}}',
        '{"replicas": {"worker-0": {"spans": [{"state": ["running"], "from": 2}]}}}',
        '{"replicas": {"worker-0": {"spans": 7}}}',
        '{"replicas": {"worker-0": {"spans": [], "left_out": 1e999}}}',
        '{"replicas": {"worker-0": {"spans": [], "cpu_seconds": 1' + "0" * 400 + "}}}",
        "[" * 100_000,
    ],
)
def test_what_a_program_has_made_of_the_file_is_nothing(tmp_path, text):
    (tmp_path / "r").write_text(text)
    assert timeline.read(tmp_path / "r") == {}
    look(Timeline(tmp_path / "r"), {"worker-0": Life([Span(RUNNING, 1)])})
    assert set(json.loads((tmp_path / "r").read_text())["replicas"]) == {"worker-0"}
