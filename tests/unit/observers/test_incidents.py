"""What the retries of a job count."""

import pytest

from trireme.observers.incidents import (
    KEPT,
    FailedAttempt,
    from_annotation,
    incidents,
    to_annotation,
)


def failed(replica, ended, began=0.0, lost_peer=False):
    return FailedAttempt(replica, began, ended, lambda: lost_peer)


@pytest.mark.parametrize(
    ("failures", "count"),
    [
        ([], 0),
        ([failed("w0", 100)], 1),
        # Four that die of one, whatever they say, and whoever is heard of first.
        ([failed(f"w{number}", 100 + number) for number in range(4)], 1),
        # The same again after a restart is another incident, however soon.
        ([failed("w0", 100), failed("w0", 102, 101)], 2),
        ([failed("w0", 100), failed("w1", 101), failed("w0", 110, 102), failed("w1", 111, 103)], 2),
        # Some notice by a time-out of minutes.
        ([failed("w0", 100), failed("w1", 700, lost_peer=True)], 1),
        ([failed("w0", 100), failed("w1", 700)], 2),
        # It lost another one later than that.
        ([failed("w0", 100), failed("w1", 700, 200, lost_peer=True)], 2),
        # Nobody else has failed.
        ([failed("w0", 100, lost_peer=True), failed("w0", 300, 101, lost_peer=True)], 2),
        # Failures in turn are no single incident that never ends.
        ([failed(f"w{number % 2}", 100 + 20 * number, 90 + 20 * number) for number in range(8)], 4),
    ],
)
def test_replicas_that_fail_together_are_one_incident(failures, count):
    assert incidents(failures) == incidents(reversed(failures)) == count


def test_what_a_replica_printed_is_read_only_where_it_matters():
    def lost_peer():
        raise AssertionError("read")

    soon = [FailedAttempt(f"w{number}", 0.0, 100.0 + number, lost_peer) for number in range(1000)]
    assert incidents(soon) == 1


def test_what_has_failed_is_noted_for_whoever_follows_next():
    failed = [FailedAttempt(f"worker-{n}", n, n + 0.5, lambda n=n: n == 1) for n in range(KEPT + 2)]
    read = from_annotation(to_annotation(reversed(failed)))
    assert [each[:3] for each in read] == [each[:3] for each in failed[2:]]
    assert [each.lost_peer() for each in from_annotation(to_annotation(failed[:3]))] == [
        False,
        True,
        False,
    ]
    for text in ("", "{", "7", "[7]", '[["a", 1]]', '[["a", "b", 2, true]]', 5000 * "["):
        assert from_annotation(text) == []
