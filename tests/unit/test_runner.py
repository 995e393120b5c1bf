"""components/training/runner.py, with small programs instead of training."""

import json
import os
import queue
import signal
import subprocess
import sys
import textwrap
import threading
from pathlib import Path

import pytest

from components.errors import InputError, JobFailed
from components.training import runner
from components.training.job import TrainingJob
from components.training.manifest import render

LIMIT = 90  # seconds; far more than any of this takes


@pytest.fixture
def code(tmp_path):
    directory = tmp_path / "code"
    directory.mkdir()
    return directory


@pytest.fixture
def logs(tmp_path):
    return tmp_path / "logs"


@pytest.fixture
def manifest(code, tmp_path):
    """Makes the manifest of a job that runs a program."""

    def make(program: str, **changes):
        (code / "train.py").write_text(textwrap.dedent(program))
        fields = {
            "image": "example.org/trainer:1",
            "code_dir": str(code),
            "entrypoint": "train.py",
            "data_dir": str(tmp_path / "data"),
            "checkpoint_dir": str(tmp_path / "checkpoints"),
            "model_dir": str(tmp_path),
        }
        made = render(TrainingJob.create(**fields | changes))
        for role in made["spec"]["pytorchReplicaSpecs"].values():
            # torchrun would need PyTorch, and start what is not under test here.
            role["template"]["spec"]["containers"][0]["command"] = ["python", "train.py"]
        return made

    return make


@pytest.fixture
def impatient(monkeypatch):
    """Shortens the waits that a failure goes through."""
    monkeypatch.setattr(runner, "SETTLE", 1.0)
    monkeypatch.setattr(runner, "GRACE", 1.0)


@pytest.fixture
def quiet():
    return lambda name, line: None


WHO = "import os, sys, time\nname = {'0': 'master'}.get(os.environ['RANK'], 'worker')\n"
"""Starts programs whose replicas do different things."""

DUMP = """
import json, os, pathlib
rank = os.environ["RANK"]
pathlib.Path(os.environ["MODEL_DIR"], f"{rank}.json").write_text(json.dumps(dict(os.environ)))
"""

INJECTED = {
    "PYTHONUNBUFFERED",
    "MASTER_ADDR",
    "MASTER_PORT",
    "WORLD_SIZE",
    "RANK",
    "PET_MASTER_ADDR",
    "PET_MASTER_PORT",
    "PET_NODE_RANK",
    "PET_NPROC_PER_NODE",
    "PET_NNODES",
}


def environments(tmp_path: Path) -> dict[str, dict[str, str]]:
    return {file.stem: json.loads(file.read_text()) for file in tmp_path.glob("[0-9].json")}


def test_every_replica_gets_the_environment_that_the_operator_gives(
    manifest, logs, quiet, tmp_path
):
    job = manifest(DUMP, workers=2, processes_per_worker=2, env={"SEED": "7"})
    assert set(runner.run(job, logs, quiet)) == {"master-0", "worker-0", "worker-1"}
    found = environments(tmp_path)
    assert set(found) == {"0", "1", "2"}
    port = found["0"]["MASTER_PORT"]
    assert 0 < int(port) < 65536
    for rank, environment in found.items():
        expected = {
            "PYTHONUNBUFFERED": "1",
            "MASTER_ADDR": "127.0.0.1",
            "MASTER_PORT": port,
            "WORLD_SIZE": "6",
            "RANK": rank,  # of the node: torchrun sets every process's own
            "PET_MASTER_ADDR": "127.0.0.1",
            "PET_MASTER_PORT": port,
            "PET_NODE_RANK": rank,
            "PET_NPROC_PER_NODE": "2",
            "PET_NNODES": "3",
            "CODE_DIR": str(tmp_path / "code"),
            "DATA_DIR": str(tmp_path / "data"),
            "CHECKPOINT_DIR": str(tmp_path / "checkpoints"),
            "MODEL_DIR": str(tmp_path),
            "SEED": "7",
        }
        assert {name: environment.get(name) for name in expected} == expected
        assert "LOCAL_RANK" not in environment


def test_a_single_process_knows_its_local_rank_and_world_size(manifest, logs, quiet, tmp_path):
    runner.run(manifest(DUMP, workers=0), logs, quiet)
    environment = environments(tmp_path)["0"]
    expected = {
        "RANK": "0",
        "WORLD_SIZE": "1",
        "LOCAL_RANK": "0",
        "LOCAL_WORLD_SIZE": "1",
        "PET_NNODES": "1",
        "PET_NPROC_PER_NODE": "1",
    }
    assert {name: environment.get(name) for name in expected} == expected


def test_what_surrounds_the_runner_does_not_leak_into_the_job(
    manifest, logs, quiet, tmp_path, monkeypatch
):
    stale = [
        *("RANK", "WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT", "LOCAL_RANK", "LOCAL_WORLD_SIZE"),
        *("GROUP_RANK", "ROLE_RANK", "PET_RDZV_ENDPOINT", "TORCHELASTIC_RUN_ID", "TF_CONFIG"),
    ]
    for name in stale:
        monkeypatch.setenv(name, "stale")
    monkeypatch.setenv("UNRELATED", "kept")
    runner.run(manifest(DUMP, workers=1, processes_per_worker=2), logs, quiet)
    for environment in environments(tmp_path).values():
        assert environment["UNRELATED"] == "kept"
        assert "stale" not in environment.values()
        distributed = {name for name in environment if name in stale or name.startswith("PET_")}
        assert distributed <= INJECTED


def test_a_set_number_of_threads_is_kept_and_else_chosen(
    manifest, logs, quiet, tmp_path, monkeypatch
):
    monkeypatch.delenv("OMP_NUM_THREADS", raising=False)
    runner.run(manifest(DUMP, workers=0), logs, quiet)
    assert environments(tmp_path)["0"]["OMP_NUM_THREADS"] == str(len(os.sched_getaffinity(0)))
    monkeypatch.setenv("OMP_NUM_THREADS", "3")
    runner.run(manifest(DUMP, workers=0), logs, quiet)
    assert environments(tmp_path)["0"]["OMP_NUM_THREADS"] == "3"


def test_arguments_and_working_directory_reach_the_program(manifest, logs, code):
    said: list[str] = []
    program = "import os, sys; print(os.getcwd(), sys.argv[1:])"
    arguments = ["$(DATA_DIR)", "a b", "", "ü", "$(RANK)"]
    runner.run(
        manifest(program, workers=0, args=arguments), logs, lambda name, line: said.append(line)
    )
    assert said == [f"{code} {arguments}"]


def test_variables_of_a_manifest_are_expanded(manifest, logs):
    said: list[str] = []
    job = manifest("import sys; print(sys.argv[1:])", workers=0)
    container = job["spec"]["pytorchReplicaSpecs"]["Master"]["template"]["spec"]["containers"][0]
    container["env"].append({"name": "BOTH", "value": "$(LOCAL_RANK)-$(NOT_THERE)"})
    container["args"] = ["$(BOTH)", "rank=$(RANK)"]
    runner.run(job, logs, lambda name, line: said.append(line))
    assert said == ["['0-$(NOT_THERE)', 'rank=0']"]


def test_output_is_complete_in_a_file_per_replica_and_line_by_line(manifest, logs):
    heard: dict[str, list[str]] = {}
    lock = threading.Lock()

    def listen(name: str, line: str) -> None:
        with lock:
            heard.setdefault(name, []).append(line)

    program = WHO + (
        "for number in range(2000):\n"
        "    print(name, 'line', number)\n"
        "print('on stderr, ü', file=sys.stderr)\n"
        "print('no end of line', end='')\n"
    )
    runner.run(manifest(program, workers=2), logs, listen)
    assert {file.name for file in logs.iterdir()} == {
        "master-0.log",
        "worker-0.log",
        "worker-1.log",
    }
    for replica, lines in heard.items():
        role = replica.partition("-")[0]
        expected = [f"{role} line {number}" for number in range(2000)]
        assert lines == [*expected, "on stderr, ü", "no end of line"]
        assert (logs / f"{replica}.log").read_text().splitlines() == lines


def test_a_progress_bar_shows_what_a_person_would_see(manifest, logs):
    said: list[str] = []
    program = r"import sys; sys.stdout.write('10 %\r50 %\r100 %\nwindows\r\n')"
    runner.run(manifest(program, workers=0), logs, lambda name, line: said.append(line))
    assert said == ["100 %", "windows"]


def test_bytes_that_are_no_text_do_not_disturb(manifest, logs):
    said: list[str] = []
    program = r"import sys; sys.stdout.buffer.write(b'\xff\xfe ok\n')"
    runner.run(manifest(program, workers=0), logs, lambda name, line: said.append(line))
    assert said == ["\ufffd\ufffd ok"]


def test_a_failing_worker_is_named_and_its_last_lines_are_shown(manifest, logs, quiet, impatient):
    program = WHO + (
        "if os.environ['RANK'] == '2':\n"
        "    for number in range(100):\n"
        "        print('line', number)\n"
        "    sys.exit(3)\n"
        "time.sleep(600)\n"
    )
    with pytest.raises(JobFailed, match=r"^replica worker-1 exited with status 3$") as caught:
        runner.run(manifest(program, workers=2), logs, quiet)
    lines = caught.value.detail.splitlines()
    assert lines == [f"[worker-1] line {number}" for number in range(100 - runner.TAIL, 100)]


def test_a_failing_master_is_named(manifest, logs, quiet, impatient):
    program = WHO + "sys.exit('no data') if name == 'master' else time.sleep(600)"
    with pytest.raises(JobFailed, match=r"^replica master-0 exited with status 1$") as caught:
        runner.run(manifest(program), logs, quiet)
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
    manifest, logs, quiet, complaint, tmp_path, monkeypatch
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
    with pytest.raises(JobFailed, match=r"^replica master-0 exited with status 1$") as caught:
        runner.run(manifest(program), logs, quiet)
    assert "ValueError: the cause" in caught.value.detail


def test_if_all_were_dragged_down_the_first_is_named(manifest, logs, quiet, monkeypatch, tmp_path):
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
        runner.run(manifest(program), logs, quiet)


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGSEGV])
def test_a_signal_that_ended_a_replica_is_named(manifest, logs, quiet, impatient, number):
    program = WHO + (
        "import resource\n"
        "resource.setrlimit(resource.RLIMIT_CORE, (0, 0))\n"
        f"if name == 'worker':\n    os.kill(os.getpid(), {int(number)})\n"
        "time.sleep(600)\n"
    )
    with pytest.raises(JobFailed, match=f"^replica worker-0 was ended by {number.name}$"):
        runner.run(manifest(program), logs, quiet)


@pytest.mark.parametrize("status", [128, 200, 255])
def test_a_high_exit_status_that_is_no_signal_is_named(manifest, logs, quiet, impatient, status):
    # sys.exit(-1) gives 255.
    with pytest.raises(JobFailed, match=f"^replica master-0 exited with status {status}$"):
        runner.run(manifest(f"import sys; sys.exit({status})", workers=0), logs, quiet)


def test_a_command_that_cannot_be_started_is_named(manifest, logs, quiet, impatient):
    job = manifest("", workers=0)
    container = job["spec"]["pytorchReplicaSpecs"]["Master"]["template"]["spec"]["containers"][0]
    container["command"] = ["no-such-program"]
    with pytest.raises(JobFailed, match=r"^replica master-0 could not be started$") as caught:
        runner.run(job, logs, quiet)
    assert "no-such-program: No such file or directory" in caught.value.detail


@pytest.mark.slow
def test_a_job_that_runs_too_long_is_ended(manifest, logs, quiet, tmp_path, runs):
    program = WHO + (
        f"open({str(tmp_path)!r} + '/pid' + os.environ['RANK'], 'w').write(str(os.getpid()))\n"
        "print('working')\n"
        "time.sleep(600)\n"
    )
    # Long enough for both to have started also where the machine is busy.
    with pytest.raises(JobFailed, match=r"^the job ran into its time limit$") as caught:
        runner.run(manifest(program, time_limit=5), logs, quiet)
    assert caught.value.detail == "[master-0] working"
    pids = [int(file.read_text()) for file in tmp_path.glob("pid*")]
    assert len(pids) == 2
    assert not any(map(runs, pids))


def test_a_time_limit_that_is_kept_changes_nothing(manifest, logs, quiet):
    assert set(runner.run(manifest("", time_limit=600), logs, quiet)) == {"master-0", "worker-0"}


def test_workers_that_outlive_a_successful_master_are_stopped(
    manifest, logs, quiet, monkeypatch, tmp_path, runs
):
    monkeypatch.setattr(runner, "AFTER_MASTER", 1.0)
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
    assert set(runner.run(manifest(program), logs, quiet)) == {"master-0", "worker-0"}
    assert not runs(int(pid.read_text()))


def test_a_worker_that_fails_after_the_master_succeeded_changes_nothing(
    manifest, logs, quiet, tmp_path
):
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
    assert set(runner.run(manifest(program), logs, quiet)) == {"master-0", "worker-0"}


def test_a_replica_that_hangs_at_its_exit_is_named(manifest, logs, quiet, monkeypatch):
    monkeypatch.setattr(runner, "EXIT_LIMIT", 1.0)
    program = WHO + "time.sleep(600 if name == 'master' else 0)"
    with pytest.raises(JobFailed, match="replica master-0 has printed nothing for 1 s"):
        runner.run(manifest(program), logs, quiet)


def test_signal_handlers_are_as_before_when_the_job_has_ended(manifest, logs, quiet):
    numbers = (signal.SIGTERM, signal.SIGINT)
    before = [signal.getsignal(number) for number in numbers]
    runner.run(manifest("", workers=0), logs, quiet)
    assert [signal.getsignal(number) for number in numbers] == before


def test_other_kinds_are_refused(manifest, logs, quiet):
    with pytest.raises(InputError, match="kind 'TFJob' cannot run here; only PyTorchJob can"):
        runner.run(manifest("") | {"kind": "TFJob"}, logs, quiet)
    assert not logs.exists()


@pytest.mark.parametrize("policy", ["OnFailure", "Always", "ExitCode"])
def test_restart_policies_that_are_not_done_here_are_refused(manifest, logs, quiet, policy):
    job = manifest("")
    job["spec"]["pytorchReplicaSpecs"]["Worker"]["restartPolicy"] = policy
    with pytest.raises(InputError, match=f"restartPolicy '{policy}' of Worker cannot run here"):
        runner.run(job, logs, quiet)
    assert not logs.exists()


ALONE = """
import json, sys
from pathlib import Path
from components.errors import TriremeError
from components.training import runner
{before}
job = json.loads(Path(sys.argv[1]).read_text())
try:
    runner.run(job, Path(sys.argv[2]), {on_line})
except TriremeError as error:
    print(f"{{type(error).__name__}}: {{error}}", flush=True)
    sys.exit(error.exit_status)
{after}
"""


@pytest.fixture
def alone(tmp_path, logs):
    """Starts a process that runs a job; ends what a failed test has left."""
    started = []

    def start(job, before="", on_line="lambda name, line: print(name, line, flush=True)", after=""):
        (tmp_path / "job.json").write_text(json.dumps(job))
        program = ALONE.format(before=before, on_line=on_line, after=textwrap.dedent(after))
        process = subprocess.Popen(
            [sys.executable, "-c", program, str(tmp_path / "job.json"), str(logs)],
            stdout=subprocess.PIPE,
            text=True,
            cwd=Path(runner.__file__).parents[2],
        )
        started.append(process)
        return process

    yield start
    for process in started:
        process.kill()
        process.communicate()


SPREAD = WHO + (
    "import pathlib, subprocess\n"
    "child = subprocess.Popen(['setsid', 'sleep', '600'])\n"
    "here = pathlib.Path(os.environ['MODEL_DIR'])\n"
    "(here / f'{os.environ[\"RANK\"]}.pids').write_text(f'{os.getpid()} {child.pid}')\n"
    "print('ready')\n"
    "time.sleep(600)\n"
)
"""Has a child in a session of its own, and runs until it is stopped."""


@pytest.mark.slow
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
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


def test_a_line_without_an_end_does_not_fill_the_memory(manifest, alone, logs):
    program = "import sys\nfor _ in range(50):\n    sys.stdout.write('x' * 1_000_000)\n"
    # Its own high-water mark, in KiB, before and after.
    mark = "int(Path('/proc/self/status').read_text().partition('VmHWM:')[2].split()[0])"
    process = alone(
        manifest(program, workers=0),
        before=f"before = {mark}",
        on_line="lambda name, line: None",
        after=f"print({mark} - before)",
    )
    output, _ = process.communicate(timeout=LIMIT)
    assert process.returncode == 0
    assert int(output) < 30 * 1024
    assert (logs / "master-0.log").read_text().replace("\n", "") == "x" * 50_000_000


def test_a_listener_that_fails_does_not_hang_the_job(manifest, alone):
    # As print() does on a full disk, or on a terminal that cannot show a letter.
    process = alone(
        manifest("print('hello')\nprint('again')", workers=0),
        before="def fail(name, line): raise OSError('no space left on device')",
        on_line="fail",
    )
    try:
        process.wait(45)
    except subprocess.TimeoutExpired:
        pytest.fail("the job never ends")


def test_a_failure_is_seen_however_late_it_is_looked_at():
    # Both have ended before the first event is looked at.
    replicas = [runner.Replica(name, process=None, status=1) for name in ("master-0", "worker-0")]
    replicas[1].status = 0
    events = queue.SimpleQueue()
    for replica in reversed(replicas):
        events.put(replica)
    with pytest.raises(JobFailed, match="replica master-0 exited with status 1"):
        runner._wait(replicas, events, float("inf"))


def test_variables_that_only_look_like_ours_are_kept(manifest, logs, quiet, tmp_path, monkeypatch):
    monkeypatch.setenv("LOCAL_DATA", "/data")
    monkeypatch.setenv("MASTER_KEY", "secret")
    runner.run(manifest(DUMP, workers=0), logs, quiet)
    seen = environments(tmp_path)["0"]
    assert (seen["LOCAL_DATA"], seen["MASTER_KEY"]) == ("/data", "secret")
