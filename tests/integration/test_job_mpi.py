"""MPIJobs for real, with OpenMPI: here, and over SSH between isolated hosts."""

import importlib.util
import itertools
import json
import os
import shutil
import signal
import subprocess
import sys

import pytest
from line_by_line import line_by_line

from trireme.errors import JobFailed
from trireme.runner.local import runner

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(not shutil.which("mpirun"), reason="needs OpenMPI"),
]

isolating = pytest.mark.skipif(
    os.geteuid() != 0 or not shutil.which("ip") or not shutil.which("sshd"),
    reason="needs root, iproute2 and OpenSSH",
)
here_and_isolated = pytest.mark.parametrize(
    "isolated", [False, pytest.param(True, marks=isolating)]
)

SUM = """
import os
from mpi4py import MPI

world = MPI.COMM_WORLD
total = world.allreduce(world.rank + 1)
print(f"rank {world.rank} of {world.size}: {total} {os.environ['SEED']}", flush=True)
"""


@pytest.fixture
def mpijob(job, replicas):
    """Makes a job of two workers with two ranks each."""

    def make(*program, policy=None, env=None):
        env = {"SEED": "7"} | (env or {})
        command = ["mpirun", "-np", "4", "-x", "SEED", *program]
        return job(
            "MPIJob",
            {"backoffLimit": 0, "activeDeadlineSeconds": 120} | (policy or {}),
            {"slotsPerWorker": 2},
            Launcher=replicas(command, restart="OnFailure", env=env),
            Worker=replicas(None, 2, env=env),
        )

    return make


@pytest.fixture
def ranks_of(tmp_path, monkeypatch):
    """Runs a job; returns what its ranks printed."""
    # A shell that a remote one starts reads ~/.bashrc, which may print what it likes.
    monkeypatch.setenv("HOME", str(tmp_path))

    def run(job, isolated=False):
        said: list[str] = []

        def listen(name: str, line: str) -> None:
            # What mpirun itself warns of on a busy machine, where a child was faster than it.
            if name == "launcher-0" and "plm:rsh: Warning: setpgid" not in line:
                said.append(line)

        runner.run(job, tmp_path / "logs", line_by_line(listen), isolated=isolated)
        return sorted(said)

    return run


@pytest.mark.skipif(not importlib.util.find_spec("mpi4py"), reason="needs mpi4py")
@here_and_isolated
def test_four_ranks_add_up_with_mpi4py(mpijob, ranks_of, tmp_path, isolated):
    program = tmp_path / "sum.py"
    program.write_text(SUM)
    found = ranks_of(mpijob("python3", str(program)), isolated)
    assert found == [f"rank {rank} of 4: 10 7" for rank in range(4)]


@here_and_isolated
def test_a_program_that_is_not_python_runs_on_every_worker(mpijob, ranks_of, isolated):
    script = 'echo "$OMPI_COMM_WORLD_RANK $OMPI_COMM_WORLD_LOCAL_RANK $(hostname)"'
    found = ranks_of(mpijob("sh", "-c", script), isolated)
    here = os.uname().nodename
    hosts = ["job-worker-0", "job-worker-1"] if isolated else [here, here]
    assert found == [f"{rank} {rank % 2} {hosts[rank // 2]}" for rank in range(4)]


@here_and_isolated
def test_ranks_see_the_gpus_of_their_worker(mpijob, ranks_of, tmp_path, monkeypatch, isolated):
    nvidia_smi = tmp_path / "nvidia-smi"  # of a machine with four
    nvidia_smi.write_text("#!/bin/sh\nfor number in 0 1 2 3; do echo $number; done\n")
    nvidia_smi.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    script = 'echo "$OMPI_COMM_WORLD_RANK sees ${CUDA_VISIBLE_DEVICES-all}"'
    found = ranks_of(mpijob("sh", "-c", script), isolated)
    assert found == ["0 sees 0,1", "1 sees 0,1", "2 sees 2,3", "3 sees 2,3"]


@here_and_isolated
def test_the_rank_that_failed_is_named_and_its_lines_are_shown(mpijob, ranks_of, isolated):
    script = (
        "echo rank $OMPI_COMM_WORLD_RANK; "
        '[ "$OMPI_COMM_WORLD_RANK" = 2 ] && { echo no data; exit 7; }; exec sleep 600'
    )
    # Once in a while mpirun ends without its report, and so without naming the rank.
    sentence = r"^(rank 2 of|replica) launcher-0 exited with status 7$"
    with pytest.raises(JobFailed, match=sentence) as caught:
        ranks_of(mpijob("sh", "-c", script), isolated)
    assert "[launcher-0] no data" in caught.value.detail.splitlines()
    if str(caught.value).startswith("rank 2"):
        assert caught.value.detail == "[launcher-0] rank 2\n[launcher-0] no data"


@here_and_isolated
def test_a_lost_worker_is_the_cause(mpijob, tmp_path, isolated):
    # Rank 3 kills all of its worker: what serves sessions there, the daemon and the ranks.
    program = tmp_path / "lose.py"
    program.write_text(LOSE)
    job = mpijob("python3", str(program))
    with pytest.raises(JobFailed, match=r"^replica worker-1 was ended by SIGKILL$"):
        runner.run(job, tmp_path / "logs", isolated=isolated)


LOSE = """
import os, pathlib, signal, time

def parent(pid):
    return int(pathlib.Path(f"/proc/{pid}/stat").read_text().rpartition(") ")[2].split()[1])

def supervisor(pid):
    while b"supervisor.py" not in pathlib.Path(f"/proc/{pid}/cmdline").read_bytes():
        pid = parent(pid)
    return pid

if os.environ["OMPI_COMM_WORLD_RANK"] == "3":
    top = supervisor(os.getpid())
    for process in pathlib.Path("/proc").glob("[0-9]*"):
        try:
            if parent(process.name) == top and int(process.name) != os.getpid():
                os.kill(int(process.name), signal.SIGKILL)
        except OSError:
            pass
time.sleep(600)
"""


@here_and_isolated
def test_nothing_is_left_when_the_runner_is_killed(mpijob, tmp_path, runs, eventually, isolated):
    script = f'echo $$ > {tmp_path}/$OMPI_COMM_WORLD_RANK.pid; echo "$PPID" up; exec sleep 600'
    script = script.replace("$", "$$")
    (tmp_path / "job.json").write_text(json.dumps(mpijob("sh", "-c", script)))
    program = (
        "import json, sys\n"
        "from pathlib import Path\n"
        "from trireme.observers.base import Observers\n"
        "from trireme.observers.printing import Printing\n"
        "from trireme.runner.local import runner\n"
        "show = Observers([Printing(lambda name, line: print(line, flush=True))])\n"
        "here = Path(sys.argv[1])\n"
        "job = json.loads((here / 'job.json').read_text())\n"
        f"runner.run(job, here / 'logs', show, isolated={isolated})\n"
    )
    command = [sys.executable, "-c", program, str(tmp_path)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        up = (line for line in process.stdout if line.endswith(" up\n"))
        daemons = {int(line.split()[0]) for line in itertools.islice(up, 4)}
        process.send_signal(signal.SIGKILL)
    ranks = [int(file.read_text()) for file in tmp_path.glob("*.pid")]
    assert len(ranks) == 4 and len(daemons) == 2
    assert eventually(lambda: not any(map(runs, [*ranks, *daemons])))
