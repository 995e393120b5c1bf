"""trireme/cli/waiting.py: what ``--for`` ends with."""

import pytest

from trireme.cli import waiting
from trireme.errors import InputError

STATES = ("running", "FINISHED", "FAILED")


@pytest.fixture(autouse=True)
def impatient(monkeypatch):
    monkeypatch.setattr(waiting, "EVERY", 0.01)


def after(*states):
    left = list(states)
    return lambda: left.pop(0) if len(left) > 1 else left[0]


PENDING, RUNNING = ("pending", False), ("running", False)


@pytest.mark.parametrize(
    "wanted, seen, status",
    [
        ("running", [PENDING, RUNNING], 0),
        ("finished", [RUNNING, ("FINISHED", True)], 0),
        ("FINISHED", [RUNNING, ("FAILED", True)], 1),
        ("ended", [RUNNING, ("lost", True)], 0),
        ("running", [PENDING, ("FAILED", True)], 1),
        ("running", [PENDING], 124),
        ("", [PENDING], 0),
    ],
)
def test_the_exit_status_says_whether_it_came(wanted, seen, status):
    timeout = 0.05 if wanted else None
    assert waiting.wait(after(*seen), wanted, timeout, STATES) == status


def test_a_state_that_never_comes_is_refused_with_those_that_may():
    with pytest.raises(InputError, match="--for 'done': must be one of ended, running, FINISHED"):
        waiting.wait(after(PENDING), "done", None, STATES)


def test_a_timeout_of_no_wait_is_refused():
    with pytest.raises(InputError, match="--timeout 5: goes with --for"):
        waiting.wait(after(PENDING), "", 5, STATES)
