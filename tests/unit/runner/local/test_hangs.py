"""Jobs that hang: when that is seen, where they stand, and what becomes of them."""

import errno
import subprocess
import sys
import time
from pathlib import Path
from types import SimpleNamespace

import pytest
from line_by_line import line_by_line

from trireme.errors import InputError, JobFailed
from trireme.frameworks.kinds import ON_HANG, RETRIES
from trireme.observers import hangs
from trireme.observers.base import Findings, Observers
from trireme.observers.hangs import Hangs, Rhythm
from trireme.runner.local import activity, runner, stacks


def heard(*times):
    rhythm = Rhythm(0.0)
    for at in times:
        rhythm.heard(at)
    return rhythm


@pytest.mark.parametrize(
    ("times", "limit"),
    [
        ((), 900),
        # The start may be slow: it is no part of the rhythm.
        ((800, 801, 802), 300),
        ((10, 11, 12, 112), 500),
        ((10, 500), 900),
        # A line that is heard twice is one sign.
        ((10, 10, 10, 10), 900),
    ],
)
def test_how_long_a_job_may_be_silent_is_learnt_from_it(times, limit):
    rhythm, last = heard(*times), max(times, default=0)
    assert rhythm.silence(last + limit) is None
    assert rhythm.silence(last + limit + 1) == limit + 1


def test_work_is_no_silence_and_a_start_may_be_slow_again():
    rhythm = heard(10, 11, 12)
    rhythm.worked(1000)
    assert rhythm.silence(1300) is None and rhythm.silence(1301) == 301
    rhythm.start_anew(1301)
    assert rhythm.silence(2201) is None and rhythm.silence(2202) == 901


SAYS = """
import os, pathlib, sys, time
rank, out = os.environ["RANK"], pathlib.Path(os.environ["OUT"])
count = len(list(out.glob(f"start-{rank}-*")))
(out / f"start-{rank}-{count}").touch()
for step in range(8):
    print("step", step, flush=True)
    time.sleep(0.05)

def wait_for_the_other():
    time.sleep(600)

"""
"""Starts programs, which then do something else."""


@pytest.fixture
def soon(monkeypatch, impatient):
    """Shortens the times of hangs."""
    monkeypatch.setattr(hangs, "FIRST", 3.0)
    monkeypatch.setattr(hangs, "LEAST", 3.0)
    monkeypatch.setattr(hangs, "CONFIRMED", 1.5)
    monkeypatch.setattr(activity, "MEASURED", 0.5)


@pytest.fixture(scope="module")
def may_look():
    """Skips a test where the kernel lets nobody look at another process."""
    with subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE) as process:
        said = []
        limit = time.monotonic() + 10  # until its Python has started
        while not any("Thread" in line for line in said) and time.monotonic() < limit:
            said = stacks._stack(str(Path(sys.executable).with_name("py-spy")), process.pid, 10.0)
        process.communicate(b"\n")
    if "ermission" in "".join(said) or "not permitted" in "".join(said):
        pytest.skip(f"py-spy may not look at other processes here: {said}")


@pytest.fixture
def hanging(manifest, tmp_path):
    """Makes a job of two replicas that do something when it hangs."""

    def make(program, on_hang="report"):
        checkpoints = tmp_path / "checkpoints"
        checkpoints.mkdir()
        job = manifest(
            SAYS + program, restart="OnFailure", env={"CHECKPOINT_DIR": str(checkpoints)}
        )
        job["metadata"]["annotations"] = {ON_HANG: on_hang}
        return job

    return make


@pytest.mark.slow
def starts(tmp_path):
    return [len(list(tmp_path.glob(f"start-{rank}-*"))) for rank in (0, 1)]


@pytest.mark.slow
def test_a_job_that_hangs_tells_where_its_programs_stand(hanging, logs, soon, may_look):
    shown, found = [], []
    job = hanging(
        "if rank == '0':\n"
        "    while not (out / 'seen').exists(): time.sleep(0.2)\n"
        "else: wait_for_the_other()\n"
    )

    def listen(name, line):
        shown.append((name, line))
        if "wait_for_the_other (train.py:" in line:
            (logs.parent / "seen").touch()

    job["spec"]["runPolicy"]["cleanPodPolicy"] = "All"
    runner.run(job, logs, line_by_line(listen, Hangs(), recorder=found.append))
    said = "no replica has printed or saved a checkpoint for 0 minutes, and none works"
    assert found == [Findings(tags={"hang": said})]
    assert ("worker-0", f"(it hangs: {said})") in shown
    assert ("master-0", f"(it hangs: {said})") in shown
    kept = (logs / "worker-0.log").read_text()
    assert "step 7\n(it hangs: " in kept and "Thread" in kept and "wait_for_the_other" in kept


def test_a_job_that_hangs_fails_where_it_is_to(hanging, logs, soon, tmp_path, may_look):
    with pytest.raises(JobFailed) as failed:
        runner.run(hanging("wait_for_the_other()\n", "fail"), logs, Observers([Hangs()]))
    assert str(failed.value).startswith("the job hangs: no replica has printed ")
    assert "[master-0]     wait_for_the_other (train.py:" in failed.value.detail
    assert starts(tmp_path) == [1, 1]


GOODBYE = """
import signal
def say_goodbye(*_):
    (pathlib.Path(os.environ["CHECKPOINT_DIR"]) / f"saved-at-the-end-{count}").touch()
    sys.exit(0)
signal.signal(signal.SIGTERM, say_goodbye)
"""


@pytest.mark.slow
@pytest.mark.slow
@pytest.mark.parametrize("before", ["", GOODBYE])
def test_a_job_that_hangs_is_started_anew_where_it_is_to(hanging, logs, soon, tmp_path, before):
    job = hanging(before + "if count == 0: wait_for_the_other()\n", "restart")
    runner.run(job, logs, Observers([Hangs()]))
    assert starts(tmp_path) == [2, 2]


@pytest.mark.slow
def test_a_job_that_hangs_each_time_is_started_three_times_unless_it_saves(
    hanging, logs, soon, tmp_path
):
    program = GOODBYE + (
        "checkpoints = pathlib.Path(os.environ['CHECKPOINT_DIR'])\n"
        "if rank == '0' and count == 1:\n"
        "    (checkpoints / 'version_0' / 'checkpoints').mkdir(parents=True)\n"
        "    (checkpoints / 'version_0' / 'checkpoints' / 'new').touch()\n"
        "    (checkpoints / 'latest').symlink_to('nowhere')\n"
        # Every start makes one of these, which is no progress.
        "(checkpoints / 'tensorboard').mkdir(exist_ok=True)\n"
        "(checkpoints / 'tensorboard' / f'events-{rank}-{count}').touch()\n"
        "wait_for_the_other()\n"
    )
    with pytest.raises(JobFailed, match=r"after 3 restarts without a new checkpoint$"):
        runner.run(hanging(program, "restart"), logs, Observers([Hangs()]))
    # One before the checkpoint, the one that saved it, and three after that.
    assert starts(tmp_path) == [5, 5]


def test_what_was_ended_for_a_hang_is_not_to_blame_for_what_comes(hanging, logs, soon):
    program = (
        "if count == 0: wait_for_the_other()\n"
        "if rank == '1': raise ValueError('the cause')\n"
        "time.sleep(600)\n"
    )
    job = hanging(program, "restart")
    for role in job["spec"]["pytorchReplicaSpecs"].values():
        role["restartPolicy"] = "ExitCode"
    with pytest.raises(JobFailed, match=r"^replica worker-0 exited with status 1") as failed:
        runner.run(job, logs, Observers([Hangs()]))
    assert "the cause" in failed.value.detail


BUSY_OR_SAVING = [
    "sum(range(200_000))",
    "(pathlib.Path(os.environ['CHECKPOINT_DIR']) / f'{time.time()}').touch(); time.sleep(0.2)",
    # One of two, and a twentieth of a processor.
    "sum(range(200_000 if rank == '1' else 0)); time.sleep(0.1)",
]


@pytest.mark.slow
@pytest.mark.slow
@pytest.mark.parametrize("work", BUSY_OR_SAVING)
def test_a_job_that_works_or_saves_in_silence_does_not_hang(hanging, logs, soon, work):
    program = (
        f"end = time.time() + 7\nwhile time.time() < end: {work}\n"
        "time.sleep(1.5)\n"  # as at a download, which is no hang for all the silence before
    )
    runner.run(hanging(program, "fail"), logs, Observers([Hangs()]))


def test_a_report_that_fails_ends_no_job(hanging, logs, soon, monkeypatch, tmp_path):
    (spy := tmp_path / "bin" / "py-spy").parent.mkdir()
    spy.write_text("no program")
    spy.chmod(0o755)
    monkeypatch.setattr(stacks, "sys", SimpleNamespace(executable=str(spy.with_name("python"))))

    def full(found):
        (tmp_path / "seen").touch()
        raise OSError(errno.ENOSPC, "No space left on device")

    job = hanging("while not (out / 'seen').exists(): time.sleep(0.1)\n")
    runner.run(job, logs, Observers([Hangs()], full))


@pytest.mark.parametrize(
    ("name", "value"), [(ON_HANG, "Report"), (RETRIES, "three"), (RETRIES, "-1")]
)
def test_what_somebody_else_has_written_is_refused(hanging, logs, name, value):
    job = hanging("")
    job["metadata"]["annotations"] = {name: value}
    with pytest.raises(InputError, match=f"annotation {name} '{value}': must be "):
        runner.run(job, logs)
