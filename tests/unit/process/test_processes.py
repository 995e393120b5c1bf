"""trireme/process/processes.py: how processes end, and which limits they are under."""

import errno
import os
import subprocess

import pytest

from trireme.process.processes import limit_reached, reap


def test_the_end_of_a_process_that_was_seen_by_who_signalled_it_is_known():
    process = subprocess.Popen(["sh", "-c", "exit 3"])
    os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOWAIT)
    process.terminate()
    assert reap(process).status == 3


@pytest.mark.parametrize(
    ("error", "limit"),
    [
        (RuntimeError("can't start new thread"), "ulimit -u"),
        (OSError(errno.EAGAIN, "Resource temporarily unavailable"), "ulimit -u"),
        (OSError(errno.EMFILE, "Too many open files"), "ulimit -n"),
    ],
)
def test_a_limit_that_something_has_failed_at_is_named(error, limit):
    assert limit_reached(error).endswith(limit)


@pytest.mark.parametrize(
    "error",
    [
        RuntimeError("anything"),
        OSError(errno.ENOENT, "No such file or directory"),
        BlockingIOError(errno.EAGAIN, "write could not complete without blocking", 0),
    ],
)
def test_of_other_errors_no_limit_is_named(error):
    assert not limit_reached(error)
