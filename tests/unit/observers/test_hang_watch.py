"""Jobs on a cluster that hang: what is asked of their pods, and what follows from it.

What is sent to a pod runs here, in a shell; tests/cluster has it run in pods.
"""

import os
import subprocess
import sys
import time
from pathlib import Path
from types import SimpleNamespace

import pytest

from trireme.errors import JobFailed
from trireme.kubernetes import pod_exec
from trireme.kubernetes.errors import Forbidden, Unavailable
from trireme.observers import hangs
from trireme.observers.base import Findings, Observers, StartAnew
from trireme.observers.hangs import Hangs
from trireme.runner.cluster import activity

BUSY = "cpu 5000000"
IDLE = "cpu 20"
SAID = "no replica has printed or saved a checkpoint for 0 minutes, and none works"


class Silent:
    """A job on a cluster that says nothing."""

    has_ended, goes_on, last_line, began = False, True, 0.0, 0.0
    replicas = (SimpleNamespace(name="worker-0", pod={}, container="main"),)

    def __init__(self, on_hang):
        self.manifest = {"metadata": {"annotations": {hangs.ON_HANG: on_hang}}}
        self.shown = []

    def activity(self, since):
        return activity.activity(None, self.replicas, since)

    def stacks(self):
        return activity.stacks(None, self.replicas)

    def show(self, replica, lines):
        self.shown += [(replica, line) for line in lines]


@pytest.fixture
def watched(monkeypatch):
    """Makes a job that may be silent for no time at all, and is asked with these answers."""
    monkeypatch.setattr(hangs, "FIRST", 0.0)
    monkeypatch.setattr(hangs, "CONFIRMED", 0.0)

    def make(*answers, on_hang="report"):
        left = list(answers)

        def output(cluster, pod, container, command, limit):
            answer = left[0] if len(left) == 1 else left.pop(0)
            if isinstance(answer, Exception):
                raise answer
            return answer

        monkeypatch.setattr(pod_exec, "output", output)
        job, found, hang = Silent(on_hang), [], Hangs()
        Observers([hang], found.append)

        def look():
            """Looks until there is an answer, and as often again as it was idle."""
            for _ in range(2):
                hang.tick(job)
                if hang._question:
                    hang._question.wait()
                    hang.tick(job)
                time.sleep(0.01)
            return found

        return job, look

    return make


def test_a_job_that_does_nothing_is_told_once_with_where_it_stands(watched):
    job, look = watched(IDLE, f"{IDLE}\nsaved 7\n", "Process 1: python\nall_reduce (a.py:3)\n")
    assert look() == [Findings(tags={"hang": SAID})]
    stack = ["Process 1: python", "all_reduce (a.py:3)"]
    assert job.shown == [("worker-0", line) for line in [f"(it hangs: {SAID})", *stack]]
    assert len(look()) == 1


@pytest.mark.parametrize(
    "said", [BUSY, f"{IDLE}\ngpu 0\ngpu 12", lambda: f"{IDLE}\nsaved {int(time.time()) + 1}"]
)
def test_one_that_works_or_has_saved_is_not(said, watched):
    job, look = watched(said() if callable(said) else said)
    assert not look() and not job.shown


def test_an_answer_that_does_not_come_is_asked_for_again(watched):
    job, look = watched(Unavailable("away"), IDLE, IDLE, "stack")
    assert not look()
    assert look() and job.shown[-1] == ("worker-0", "stack")


@pytest.mark.parametrize(
    ("answer", "said"),
    [
        (Forbidden("you may not"), "you may not"),
        ("sh: no such file", "what replica worker-0 uses is not known: sh: no such file"),
        ("", "what replica worker-0 uses is not known: its control group does not tell"),
    ],
)
def test_what_cannot_be_found_out_is_said_once(answer, said, watched):
    _, look = watched(answer)
    told = [Findings(words=[f"whether the job hangs cannot be told: {said}"])]
    assert look() == told
    assert look() == told


def test_one_that_is_idle_for_a_moment_is_not(watched):
    job, look = watched(IDLE, BUSY)
    assert not look() and not job.shown


def test_a_line_begins_the_silence_anew(watched, monkeypatch):
    job, look = watched(IDLE, "stack")
    monkeypatch.setattr(hangs, "FIRST", 900.0)
    job.last_line = time.monotonic()
    assert not look()


def test_only_a_new_checkpoint_gives_more_restarts(watched):
    job, look = watched(f"{IDLE}\nsaved 5", on_hang="restart")
    for began in (6, 6, 4, 6, 6):
        job.began = began
        with pytest.raises(StartAnew, match=f"^the job hangs: {SAID}$"):
            look()
    with pytest.raises(JobFailed, match=f"{SAID}, after 3 restarts without a new checkpoint$") as e:
        look()
    assert not isinstance(e.value, StartAnew)
    assert e.value.detail == "[worker-0] cpu 20\n[worker-0] saved 5"


def test_a_job_that_is_to_fail_fails_and_has_no_success_by_another_start(watched):
    _, look = watched(IDLE, IDLE, "a stack", on_hang="fail")
    with pytest.raises(JobFailed, match=f"^the job hangs: {SAID}$") as caught:
        look()
    assert not isinstance(caught.value, StartAnew)
    assert caught.value.detail == "[worker-0] a stack"


def test_a_job_of_which_not_all_go_on_does_not_hang(watched):
    job, look = watched(IDLE, IDLE, "a stack", on_hang="fail")
    job.goes_on = False
    assert not look()


def shell(script, seconds="0.2", **environment):
    command = ["sh", "-c", script, "sh", seconds, "tensorboard"]
    done = subprocess.run(
        command, capture_output=True, text=True, timeout=60, env=os.environ | environment
    )
    return done.stdout.splitlines()


def test_what_a_pod_is_asked_tells_what_it_uses_and_has_saved(tmp_path):
    (tmp_path / "tensorboard").mkdir()
    for name, at in (("a.pt", 1000), ("b c.pt", 2000), ("tensorboard/events", 3000)):
        (tmp_path / name).touch()
        os.utime(tmp_path / name, (at, at))
    found = shell(activity._USE, CHECKPOINT_DIR=str(tmp_path))
    assert activity._numbers([found], "saved") == [2000]
    # The control group that this is in may not tell: then nothing is said of it.
    assert len(activity._numbers([found], "cpu")) <= 1
    assert activity._numbers([shell(activity._USE, CHECKPOINT_DIR="")], "saved") == []


def test_where_programs_stand_is_asked_of_every_python(tmp_path):
    program = tmp_path / "waits.py"
    program.write_text("import time\ndef for_a_peer():\n    time.sleep(60)\nfor_a_peer()\n")
    process = subprocess.Popen([sys.executable, str(program)])
    try:
        bin_of_ours = Path(sys.executable).parent
        for _ in range(20):
            found = shell(activity._STACKS, PATH=f"{bin_of_ours}:{os.environ['PATH']}")
            if any("for_a_peer" in line for line in found):
                break
        assert any("for_a_peer" in line for line in found), found
    finally:
        process.kill()
        process.wait()
    assert "py-spy" in shell(activity._STACKS, PATH="/usr/bin:/bin")[0]
