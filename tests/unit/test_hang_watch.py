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
from trireme.kubernetes.errors import Forbidden, Refused, Unavailable
from trireme.observers import hangs
from trireme.runner.cluster import hang_watch
from trireme.runner.cluster.hang_watch import Hang, HangWatch, Hung

BUSY = "cpu 5000000"
IDLE = "cpu 20"


@pytest.fixture
def told(monkeypatch):
    """What was said of a job that may be silent for no time at all."""
    monkeypatch.setattr(hangs, "FIRST", 0.0)
    return []


@pytest.fixture
def watched(told, monkeypatch):
    """Makes a job that is watched, with an answer to each question for every replica."""

    def make(*answers, on_hang="report"):
        left = list(answers)

        def output(cluster, pod, container, command, limit):
            answer = left[0] if len(left) == 1 else left.pop(0)
            if isinstance(answer, Exception):
                raise answer
            return answer

        monkeypatch.setattr(pod_exec, "output", output)
        job = {"metadata": {"annotations": {hangs.ON_HANG: on_hang}}}
        return HangWatch(None, job, told.append)

    return make


REPLICA = SimpleNamespace(name="worker-0", pod={}, container="main", last_line=0.0)


def looked(watch, *replicas):
    """What it says once it has its answer, if it has asked."""
    found = watch.look(replicas or [REPLICA])
    if watch._question:
        watch._question.wait()
        found = watch.look(replicas or [REPLICA])
    return found


def test_a_job_that_does_nothing_is_told_once_with_where_it_stands(watched, told):
    watch = watched(f"{IDLE}\nsaved 7\n", "Process 1: python\nall_reduce (a.py:3)\n")
    hang = looked(watch)
    assert hang.stacks == {"worker-0": ["Process 1: python", "all_reduce (a.py:3)"]}
    assert hang.saved == 7
    assert told == [hang.sentence]
    assert looked(watch) is None and len(told) == 1


@pytest.mark.parametrize(
    "said", [BUSY, f"{IDLE}\ngpu 0\ngpu 12", lambda: f"{IDLE}\nsaved {int(time.time()) + 1}"]
)
def test_one_that_works_or_has_saved_is_not(said, watched, told):
    watch = watched(said() if callable(said) else said)
    assert looked(watch) is None
    assert told == []


def test_an_answer_that_does_not_come_is_asked_for_again(watched, told):
    watch = watched(Unavailable("away"), IDLE, "stack")
    assert looked(watch) is None
    time.sleep(0.01)
    assert looked(watch).stacks == {"worker-0": ["stack"]}


@pytest.mark.parametrize(
    ("answer", "said"),
    [
        (Forbidden("you may not"), "you may not"),
        ("sh: no such file", "what replica worker-0 uses is not known: sh: no such file"),
        ("", "its control group does not tell"),
    ],
)
def test_what_cannot_be_found_out_is_said_once(answer, said, watched, told):
    watch = watched(answer)
    with pytest.raises(Refused) as caught:
        looked(watch)
    assert said in str(caught.value)
    assert looked(watch) is None
    assert told == []


def test_a_line_begins_the_silence_anew(watched, told, monkeypatch):
    watch = watched(IDLE, "stack")
    monkeypatch.setattr(hangs, "FIRST", 900.0)
    speaks = SimpleNamespace(**vars(REPLICA) | {"last_line": time.monotonic()})
    assert looked(watch, speaks) is None
    assert told == []


def hung(saved):
    return Hung(Hang("for 9 minutes", {"worker-0": ["a stack"]}, saved))


def test_only_a_new_checkpoint_gives_more_restarts(watched):
    watch = watched(IDLE, on_hang="restart")
    for saved in (0, 0, 0, 5, 5, 5):
        watch.restart(hung(saved))
    with pytest.raises(JobFailed, match="for 9 minutes, after 3 restarts without a new") as caught:
        watch.restart(hung(5))
    assert "a stack" in caught.value.detail


@pytest.mark.parametrize("on_hang", ["report", "fail"])
def test_a_job_that_is_not_to_be_restarted_is_not(on_hang, watched):
    with pytest.raises(Hung, match="the job hangs: for 9 minutes"):
        watched(IDLE, on_hang=on_hang).restart(hung(0))


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
    found = shell(hang_watch._USE, CHECKPOINT_DIR=str(tmp_path))
    assert hang_watch._numbers([found], "saved") == [2000]
    # The control group that this is in may not tell: then nothing is said of it.
    assert len(hang_watch._numbers([found], "cpu")) <= 1
    assert hang_watch._numbers([shell(hang_watch._USE, CHECKPOINT_DIR="")], "saved") == []


def test_where_programs_stand_is_asked_of_every_python(tmp_path):
    program = tmp_path / "waits.py"
    program.write_text("import time\ndef for_a_peer():\n    time.sleep(60)\nfor_a_peer()\n")
    process = subprocess.Popen([sys.executable, str(program)])
    try:
        bin_of_ours = Path(sys.executable).parent
        for _ in range(20):
            found = shell(hang_watch._STACKS, PATH=f"{bin_of_ours}:{os.environ['PATH']}")
            if any("for_a_peer" in line for line in found):
                break
        assert any("for_a_peer" in line for line in found), found
    finally:
        process.kill()
        process.wait()
    assert "py-spy" in shell(hang_watch._STACKS, PATH="/usr/bin:/bin")[0]
