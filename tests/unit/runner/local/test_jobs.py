"""Jobs of this machine: what is kept of them, and what is not."""

import errno
import fcntl
import json
import os
import signal
import subprocess
import sys
import textwrap

import pytest

from trireme.errors import InputError, JobFailed
from trireme.job.job import TrainingJob
from trireme.runner.local import jobs, provision

LIMIT = 60  # seconds; far more than any of this takes


@pytest.fixture
def home(tmp_path):
    return tmp_path / "jobs"


@pytest.fixture
def run(home, tmp_path, monkeypatch):
    """Runs a program as the job ``digits``."""
    monkeypatch.chdir(tmp_path)

    def run(program="print('epoch 1')", **fields):
        (tmp_path / "train.py").write_text(program)
        described = {"name": "digits", "framework": "custom", "entrypoint": "train.py"} | fields
        job = TrainingJob.create(**described)
        with jobs.make_directory(home, job.name) as directory:
            jobs.run(job, directory)

    return run


def test_a_job_can_be_found_again(run, home):
    run()
    job = jobs.find(home, "digits")
    assert (job.kind, job.state, job.replicas) == ("PyTorchJob", "succeeded", ["master-0"])
    assert [one.name for one in jobs.all_jobs(home)] == ["digits"]


def test_lack_of_memory_is_named_with_what_was_used(run, monkeypatch):
    killed = "import os, signal; x = bytes(range(256)) * (1 << 18); os.kill(os.getpid(), 9)"
    # The kernel's count is that of the machine, on which others may run.
    counted = "trireme.process.processes.oom_kills"
    before = "trireme.runner.local.replica.oom_kills"
    monkeypatch.setattr(counted, lambda: 7)
    monkeypatch.setattr(before, lambda: 7)
    with pytest.raises(JobFailed, match=r"master-0 was ended by SIGKILL$"):
        run(killed)
    monkeypatch.setattr(before, lambda: 6)
    said = (
        r"SIGKILL; the kernel killed a process for lack of memory meanwhile, and its largest had "
    )
    # As much as the process that started it, where that has more.
    with pytest.raises(JobFailed, match=said + r"\d+\.\d [MG]iB$"):
        run(killed, name="again")


def test_a_name_is_taken_only_by_a_job_that_says_so(run, home):
    (home / "digits").mkdir(parents=True)  # as a command left it that was killed at this moment
    run()
    with (
        pytest.raises(InputError, match=r"^job 'digits' is in .*digits already \(succeeded\)"),
        jobs.make_directory(home, "digits"),
    ):
        pass
    with jobs.make_directory(home, "other"):
        assert jobs.find(home, "other").state == "running"
    assert jobs.find(home, "other").state == "lost"  # as one that was killed before it began
    jobs.delete(home, "other")
    assert [*home.iterdir()] == [home / "digits"]
    assert [*home.parent.glob("job-*")] == []


def test_where_a_file_system_keeps_no_locks_nothing_is_left(run, home, monkeypatch):
    def flock(*_):
        raise OSError(errno.ENOLCK, "No locks available")

    monkeypatch.setattr(fcntl, "flock", flock)
    with pytest.raises(InputError, match="its file system keeps no locks"):
        run()
    assert [path.name for path in home.parent.rglob("*") if path.is_file()] == ["train.py"]


def test_where_no_room_is_left_nothing_is_left_of_a_job(run, home, monkeypatch):
    def full(*_):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(jobs, "_write", full)
    with pytest.raises(InputError, match="digits: cannot be created: No space left on device"):
        run()
    assert [path.name for path in home.parent.rglob("*") if path.is_file()] == ["train.py"]
    assert [*home.parent.glob("job-*")] == []


def test_a_failed_job_says_why(run, home):
    with pytest.raises(JobFailed):
        run("raise SystemExit(3)")
    job = jobs.find(home, "digits")
    assert (job.state, job.reason) == ("failed", "replica master-0 exited with status 3")


@pytest.mark.parametrize(
    ("fields", "said"),
    [
        ({"entrypoint": "no.py"}, "entrypoint 'no.py' does not exist"),
        (
            {"checkpoint_dir": "/proc/none/ckpt"},
            "checkpoint_dir '/proc/none/ckpt' cannot be created",
        ),
        ({"model_dir": "/dev/null/model"}, "model_dir '/dev/null/model' cannot be created"),
    ],
)
def test_a_job_that_cannot_be_run_leaves_its_name_free(run, home, fields, said):
    with pytest.raises(InputError, match=said):
        run(**fields)
    assert jobs.all_jobs(home) == []
    run()


def test_whatever_goes_wrong_before_a_job_starts_leaves_its_name_free(run, home, monkeypatch):
    def fails(*_):
        raise RuntimeError("no such luck")

    with monkeypatch.context() as patch:
        patch.setattr(provision, "provision", fails)
        with pytest.raises(RuntimeError):
            run()
    run()


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_job_can_be_cancelled_while_its_code_is_fetched(tmp_path, runs, eventually, number):
    (tmp_path / "bin").mkdir()
    git = tmp_path / "bin" / "git"
    git.write_text(
        f"#!/bin/sh\necho $$ > {tmp_path}/pid.partial\n"
        f"mv {tmp_path}/pid.partial {tmp_path}/pid\nexec sleep 600\n"
    )
    git.chmod(0o755)
    program = """
        import sys
        from pathlib import Path
        from trireme.errors import TriremeError
        from trireme.job.job import TrainingJob
        from trireme.runner.local import jobs

        code = {"url": "https://example.org/code.git"}
        job = TrainingJob.create(name="digits", entrypoint="train.py", code=code)
        try:
            with jobs.make_directory(Path(sys.argv[1]), job.name) as directory:
                jobs.run(job, directory)
        except TriremeError as error:
            sys.exit(str(error))
    """
    process = subprocess.Popen(
        [sys.executable, "-c", textwrap.dedent(program), str(tmp_path / "jobs")],
        env=os.environ | {"PATH": f"{tmp_path}/bin:{os.environ['PATH']}"},
        stderr=subprocess.PIPE,
        text=True,
    )
    assert eventually((tmp_path / "pid").exists)
    assert jobs.find(tmp_path / "jobs", "digits").state == "running"
    process.send_signal(number)
    assert process.communicate(timeout=LIMIT)[1] == "the job was cancelled\n"
    assert eventually(lambda: not runs(int((tmp_path / "pid").read_text())))
    assert not (tmp_path / "jobs" / "digits").exists()


def test_a_record_that_cannot_be_read_is_no_job_and_in_nobodys_way(run, home):
    run()
    (home / "half").mkdir()
    (home / "half" / "state.json").write_text("")
    assert [job.name for job in jobs.all_jobs(home)] == ["digits"]
    with pytest.raises(InputError, match=r"half/state\.json: is of another version of Trireme"):
        jobs.find(home, "half")
    for name in ("none", "../jobs/digits"):
        with pytest.raises(InputError, match="there is no such job"):
            jobs.find(home, name)


def test_logs_are_those_of_the_job(run, home):
    run("print('epoch 1')\nprint('epoch 2')")
    lines = []
    jobs.logs(home, "digits", True, "", lambda *line: lines.append(line))
    assert lines == [("master-0", "epoch 1"), ("master-0", "epoch 2")]
    for replica in ("worker-9", "../logs/master-0"):
        for follow in (False, True):
            with pytest.raises(InputError, match=r"job 'digits' has master-0$"):
                jobs.logs(home, "digits", follow, replica, lines.append)


@pytest.mark.parametrize("do", [jobs.cancel, jobs.delete, jobs.usage])
def test_a_job_that_runs_elsewhere_is_left_to_those_there(home, do):
    with jobs.make_directory(home, "digits") as directory:
        record = json.loads((directory / "state.json").read_text())
        # As in a pid namespace of its own, where this number is that of another process.
        (directory / "state.json").write_text(json.dumps(record | {"pid": 1, "host": "abc"}))
        with pytest.raises(InputError, match=r"'digits' runs in another container or on .*, abc"):
            do(home, "digits")
        assert jobs.find(home, "digits").state == "running"


def test_a_job_whose_process_is_gone_is_lost_and_can_be_deleted(run, home):
    run()
    file = home / "digits" / "state.json"
    file.write_text(json.dumps(json.loads(file.read_text()) | {"state": "running"}))
    assert jobs.find(home, "digits").state == "lost"
    jobs.delete(home, "digits")
    assert not (home / "digits").exists()


@pytest.mark.parametrize(
    ("fields", "said"),
    [
        ({"suspend": True}, "runPolicy.suspend true"),
        ({"secret_env": {"TOKEN": "team/token"}}, "set the environment variable TOKEN"),
        ({"volumes": [{"mount": "/no/such/place", "claim": "data"}]}, "/no/such/place"),
        ({"dataset": "/no/such/place"}, "there is no such file or directory"),
        ({"dataset": "pvc://claim/a"}, "is mounted, which needs a cluster"),
    ],
)
def test_what_could_not_run_is_refused_also_where_it_is_only_checked(
    home, tmp_path, monkeypatch, fields, said
):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "train.py").touch()
    with pytest.raises(InputError, match=said):
        jobs.check(home, TrainingJob.create(entrypoint="train.py", **fields))


def test_a_check_knows_what_is_here(run, home, tmp_path):
    run()
    job = TrainingJob.create(name="digits", entrypoint="train.py", dataset=str(tmp_path))
    with pytest.raises(InputError, match=r"^job 'digits' is in .*digits already \(succeeded\)"):
        jobs.check(home, job)
    assert jobs.check(home, job.model_copy(update={"name": "other"}))["kind"] == "PyTorchJob"
