"""trireme/runner/local/runner.py, with small programs instead of training."""

import signal
import threading

import pytest

from trireme.errors import JobFailed
from trireme.observers.preflight.replica.said import MARK
from trireme.runner import failed_replica
from trireme.runner.local import replica, runner

LIMIT = 90  # seconds; far more than any of this takes

WHO = "import os, sys, time\nname = {'0': 'master'}.get(os.environ['RANK'], 'worker')\n"
"""Starts programs whose replicas do different things."""


def test_a_failing_worker_is_named_and_its_last_lines_are_shown(manifest, logs, impatient):
    program = WHO + (
        "if os.environ['RANK'] == '2':\n"
        "    for number in range(100):\n"
        "        print('line', number)\n"
        "    sys.exit(3)\n"
        "time.sleep(600)\n"
    )
    with pytest.raises(JobFailed, match=r"^replica worker-1 exited with status 3$") as caught:
        runner.run(manifest(program, workers=2), logs)
    lines = caught.value.detail.splitlines()
    assert lines == [
        f"[worker-1] line {number}" for number in range(100 - failed_replica.TAIL, 100)
    ]
    assert sorted(caught.value.replica_seconds) == ["master-0", "worker-0", "worker-1"]
    assert all(seconds > 0 for seconds in caught.value.replica_seconds.values())


def test_a_failing_master_is_named(manifest, logs, impatient):
    program = WHO + "sys.exit('no data') if name == 'master' else time.sleep(600)"
    with pytest.raises(JobFailed, match=r"^replica master-0 exited with status 1$") as caught:
        runner.run(manifest(program), logs)
    assert caught.value.detail == "[master-0] no data"


@pytest.mark.parametrize(
    "complaint",
    [
        "RuntimeError: [gloo/transport/tcp/pair.cc:553] Connection closed by peer [127.0.0.1]:3",
        "RuntimeError: Connection reset by peer",
        "torch.distributed.DistBackendError: NCCL communicator was aborted",
    ],
)
def test_a_replica_that_was_dragged_down_is_not_blamed(
    manifest, logs, complaint, tmp_path, monkeypatch
):
    monkeypatch.setattr(runner, "SETTLE", 60.0)
    program = WHO + (
        f"gone = {str(tmp_path / 'gone')!r}\n"
        "if name == 'worker':\n"
        f"    print({complaint!r})\n"
        "    open(gone, 'w').close()\n"
        "    sys.exit(1)\n"
        "while not os.path.exists(gone):\n"
        "    time.sleep(0.01)\n"
        "time.sleep(0.5)\n"
        "raise ValueError('the cause')\n"
    )
    with pytest.raises(
        JobFailed, match=r"^replica master-0 .* status 1: ValueError: the cause$"
    ) as caught:
        runner.run(manifest(program), logs)
    assert "ValueError: the cause" in caught.value.detail


def test_if_all_were_dragged_down_the_first_is_named(manifest, logs, monkeypatch, tmp_path):
    monkeypatch.setattr(runner, "SETTLE", 60.0)
    program = WHO + (
        f"gone = {str(tmp_path / 'gone')!r}\n"
        "while name == 'worker' and not os.path.exists(gone):\n"
        "    time.sleep(0.01)\n"
        "time.sleep(0.5 if name == 'worker' else 0)\n"
        "print('Connection reset by peer')\n"
        "open(gone, 'w').close()\n"
        "sys.exit(1)\n"
    )
    with pytest.raises(JobFailed, match=r"^replica master-0 exited"):
        runner.run(manifest(program), logs)


def test_what_the_preflight_said_is_none_of_a_replicas_words(manifest, logs, monkeypatch):
    monkeypatch.setattr(runner, "SETTLE", 60.0)
    program = WHO + (
        f"if name == 'worker':\n    print('{MARK}' + '{{\"skipped\":\"Broken pipe\"}}')\n"
        "time.sleep(0.5 if name == 'master' else 0)\n"
        "sys.exit('the ' + name)\n"
    )
    with pytest.raises(JobFailed, match=r"^replica worker-0 exited") as caught:
        runner.run(manifest(program), logs)
    assert caught.value.detail == "[worker-0] the worker"


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGSEGV])
def test_a_signal_that_ended_a_replica_is_named(manifest, logs, impatient, number):
    program = WHO + (
        "import resource\n"
        "resource.setrlimit(resource.RLIMIT_CORE, (0, 0))\n"
        f"if name == 'worker':\n    os.kill(os.getpid(), {int(number)})\n"
        "time.sleep(600)\n"
    )
    with pytest.raises(JobFailed, match=f"^replica worker-0 was ended by {number.name}$"):
        runner.run(manifest(program), logs)


@pytest.mark.parametrize("status", [128, 200, 255])
def test_a_high_exit_status_that_is_no_signal_is_named(manifest, logs, impatient, status):
    # sys.exit(-1) gives 255.
    with pytest.raises(JobFailed, match=f"^replica master-0 exited with status {status}$"):
        runner.run(manifest(f"import sys; sys.exit({status})", workers=0), logs)


def test_a_command_that_cannot_be_started_is_named(manifest, logs, impatient):
    job = manifest("", workers=0)
    container = job["spec"]["pytorchReplicaSpecs"]["Master"]["template"]["spec"]["containers"][0]
    container["command"] = ["no-such-program"]
    with pytest.raises(
        JobFailed, match=r"^replica (master|worker)-0 could not be started$"
    ) as caught:
        runner.run(job, logs)
    assert "no-such-program: No such file or directory" in caught.value.detail


@pytest.mark.slow
def test_a_job_that_runs_too_long_is_ended(manifest, logs, tmp_path, runs):
    program = WHO + (
        f"open({str(tmp_path)!r} + '/pid' + os.environ['RANK'], 'w').write(str(os.getpid()))\n"
        "print('working')\n"
        "time.sleep(600)\n"
    )
    # Long enough for both to have started also where the machine is busy.
    with pytest.raises(JobFailed, match=r"^the job ran into its time limit of \d s$") as caught:
        runner.run(manifest(program, policy={"activeDeadlineSeconds": 5}), logs)
    assert caught.value.detail == "[master-0] working"
    pids = [int(file.read_text()) for file in tmp_path.glob("pid*")]
    assert len(pids) == 2
    assert not any(map(runs, pids))


def test_a_time_limit_that_is_kept_changes_nothing(manifest, logs):
    assert set(runner.run(manifest("", policy={"activeDeadlineSeconds": 600}), logs)) == {
        "master-0",
        "worker-0",
    }


def test_workers_that_outlive_a_successful_master_are_stopped(
    manifest, logs, monkeypatch, tmp_path, runs
):
    monkeypatch.setitem(runner.LINGER, "Running", 1.0)
    pid, ready = tmp_path / "pid", tmp_path / "ready"
    program = WHO + (
        f"pid, ready = {str(pid)!r}, {str(ready)!r}\n"
        "if name == 'worker':\n"
        "    open(pid, 'w').write(str(os.getpid()))\n"
        "    open(ready, 'w').close()\n"
        "    time.sleep(600)\n"
        "while not os.path.exists(ready):\n"
        "    time.sleep(0.01)\n"
    )
    assert set(runner.run(manifest(program), logs)) == {"master-0", "worker-0"}
    assert not runs(int(pid.read_text()))


def test_a_worker_that_fails_after_the_master_succeeded_changes_nothing(manifest, logs, tmp_path):
    program = WHO + (
        f"done = {str(tmp_path / 'done')!r}\n"
        "if name == 'master':\n"
        "    open(done, 'w').close()\n"
        "    sys.exit(0)\n"
        "while not os.path.exists(done):\n"
        "    time.sleep(0.01)\n"
        "time.sleep(1)\n"
        "sys.exit(1)\n"
    )
    assert set(runner.run(manifest(program), logs)) == {"master-0", "worker-0"}


def test_a_replica_that_hangs_at_its_exit_is_named(manifest, logs, monkeypatch):
    monkeypatch.setattr(runner, "EXIT_LIMIT", 1.0)
    program = WHO + "time.sleep(600 if name == 'master' else 0)"
    with pytest.raises(JobFailed, match="replica master-0 has neither printed nor worked for 1 s"):
        runner.run(manifest(program), logs)


@pytest.mark.parametrize(
    "work",
    [
        "for _ in range(30):\n    sys.stdout.write('\\r.'); sys.stdout.flush(); time.sleep(0.1)\n",
        "while time.monotonic() < end: pass\n",
    ],
    ids=["progress bar", "computing"],
)
def test_a_replica_that_still_works_when_the_others_are_done_is_let(
    manifest, logs, monkeypatch, work
):
    monkeypatch.setattr(runner, "EXIT_LIMIT", 1.0)
    busy = "\n    ".join(work.splitlines())
    program = WHO + f"end = time.monotonic() + 3\nif name == 'master':\n    {busy}\n"
    runner.run(manifest(program), logs)


def test_a_job_that_cannot_be_started_is_ended_in_a_sentence(manifest, logs):
    job = manifest("", env={"LONG": "x" * 200_000})
    with pytest.raises(JobFailed, match=r"^replica \w+-0 could not be started$") as caught:
        runner.run(job, logs)
    assert "python3: Argument list too long" in caught.value.detail


@pytest.mark.parametrize("threads", range(5))
def test_a_job_whose_user_may_have_no_more_threads_is_ended_in_a_sentence(
    manifest, logs, impatient, monkeypatch, threads
):
    started = []

    class Limited(threading.Thread):
        def start(self):
            if len(started) == threads:
                raise RuntimeError("can't start new thread")
            started.append(self)
            super().start()

    monkeypatch.setattr(replica.threading, "Thread", Limited)
    with pytest.raises(JobFailed, match=r"^replica \S+ could not be followed: .*, ulimit -u$"):
        runner.run(manifest("import time; time.sleep(600)", workers=2), logs)
    assert not [*logs.glob("*.pid")]  # which is there as long as a replica runs


def test_signal_handlers_are_as_before_when_the_job_has_ended(manifest, logs):
    numbers = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)
    before = [signal.getsignal(number) for number in numbers]
    runner.run(manifest("", workers=0), logs)
    assert [signal.getsignal(number) for number in numbers] == before


SPREAD = WHO + (
    "import pathlib, subprocess\n"
    "child = subprocess.Popen(['setsid', 'sleep', '600'])\n"
    "here = pathlib.Path(os.environ['OUT'])\n"
    "(here / f'{os.environ[\"RANK\"]}.pids').write_text(f'{os.getpid()} {child.pid}')\n"
    "print('ready')\n"
    "time.sleep(600)\n"
)
"""Has a child in a session of its own, and runs until it is stopped."""


@pytest.mark.slow
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT, signal.SIGHUP])
def test_a_signal_cancels_the_job_and_nothing_is_left(
    manifest, alone, tmp_path, runs, number, logs
):
    process = alone(manifest(SPREAD))
    assert {process.stdout.readline() for _ in range(2)} == {"master-0 ready\n", "worker-0 ready\n"}
    pids = [int(pid) for file in tmp_path.glob("*.pids") for pid in file.read_text().split()]
    assert len(pids) == 4 and all(map(runs, pids))
    process.send_signal(number)
    assert process.wait(LIMIT) == 143
    assert process.stdout.read() == "Cancelled: the job was cancelled\n"
    assert not any(map(runs, pids))


@pytest.mark.slow
def test_nothing_is_left_when_the_runner_is_killed(manifest, alone, tmp_path, runs, eventually):
    process = alone(manifest(SPREAD))
    for _ in range(2):
        process.stdout.readline()
    pids = [int(pid) for file in tmp_path.glob("*.pids") for pid in file.read_text().split()]
    process.kill()
    assert eventually(lambda: not any(map(runs, pids)))
