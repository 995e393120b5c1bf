"""PyTorchJobs of several replicas for real, here and on isolated hosts."""

import os
import shutil
import signal
from contextlib import suppress
from pathlib import Path

import pytest
from line_by_line import line_by_line

from trireme.data.staging import stage
from trireme.errors import JobFailed
from trireme.runner.local import runner, usage
from trireme.runner.local.isolation import Isolated

TRAINER = Path(__file__).resolve().parents[2] / "trainers" / "pytorch_classifier.py"

SUM = """
import datetime, os, time
import torch
import torch.distributed as dist

limit = datetime.timedelta(seconds=float(os.environ["LIMIT"]))
dist.init_process_group("gloo")  # on a busy machine the last may come late
everybody = dist.new_group(timeout=limit)
rank = dist.get_rank()
number = torch.tensor([float(rank + 1)])
dist.all_reduce(number)
# One write a line: both processes of a replica share its output.
os.write(1, f"rank {rank} of {dist.get_world_size()}: {number.item():.0f}\\n".encode())
for _ in range(int(os.environ["STEPS"])):
    dist.all_reduce(number, group=everybody)
    time.sleep(0.1)
dist.destroy_process_group()
"""

pytestmark = pytest.mark.slow

isolating = pytest.mark.skipif(
    os.geteuid() != 0 or not shutil.which("ip"), reason="needs root and iproute2"
)


@pytest.fixture
def allreduce(job, replicas, tmp_path):
    """Makes a job whose replicas add up their ranks, then go on for some steps."""
    program = tmp_path / "sum.py"
    program.write_text(SUM)

    def make(processes, workers=2, limit=60, steps=1):
        env = {"LIMIT": str(limit), "STEPS": str(steps)}
        start = ["torchrun"] if processes > 1 else ["python3"]
        role = {"command": [*start, str(program)], "env": env}
        return job(
            "PyTorchJob",
            spec={"nprocPerNode": str(processes)},
            Master=replicas(**role),
            Worker=replicas(**role, count=workers),
        )

    return make


@pytest.mark.parametrize(
    ("workers", "isolated"), [(1, False), pytest.param(2, True, marks=isolating)]
)
def test_the_processes_of_all_replicas_add_up_their_ranks(allreduce, tmp_path, workers, isolated):
    said: list[str] = []
    runner.run(
        allreduce(processes=2, workers=workers),
        tmp_path / "logs",
        line_by_line(lambda name, line: said.append(line)),
        isolated=isolated,
    )
    results = sorted(line for line in said if line.startswith("rank"))
    size = 2 * (1 + workers)
    total = size * (size + 1) // 2
    assert results == [f"rank {rank} of {size}: {total}" for rank in range(size)]


@isolating
def test_a_cut_link_ends_the_job_and_a_replica_is_named(allreduce, tmp_path, monkeypatch):
    networks: list[Isolated] = []
    monkeypatch.setattr(
        runner, "Isolated", lambda job: networks.append(Isolated(job)) or networks[0]
    )

    def listen(name: str, line: str) -> None:
        if line.startswith("rank 0"):
            networks[0]._in_switch("ip link set host2 nomaster")  # worker-1's

    manifest = allreduce(processes=1, limit=5, steps=10_000)
    with pytest.raises(JobFailed, match=r"^replica \S+ exited with status 1: \S+Error: ") as caught:
        runner.run(manifest, tmp_path / "logs", line_by_line(listen), isolated=True)
    assert "Timed out waiting" in caught.value.detail


def kill_replica(logs: Path, name: str) -> None:
    """Kills all processes of a replica, as the loss of its machine would."""
    for pid in usage.tree(int((logs / f"{name}.pid").read_text())):
        with suppress(ProcessLookupError):  # it has ended meanwhile
            os.kill(pid, signal.SIGKILL)


def test_an_elastic_job_outlives_the_loss_of_its_workers(job, replicas, tmp_path):
    """First one that any other can do without, then worker-0, which holds the rendezvous.

    Without worker-0 torchrun ends in the other replicas too, so that all of them are started
    again: a job that is to outlive that needs a restartPolicy and a backoffLimit for it.
    """
    env = {
        "DATA_DIR": stage("builtin://digits", tmp_path / "data").path,
        "CHECKPOINT_DIR": str(tmp_path / "checkpoints"),
        "MODEL_DIR": str(tmp_path / "model"),
        # torchrun's surviving agents would look for the ranks' store in the one that was lost.
        "TORCH_DISABLE_SHARE_RDZV_TCP_STORE": "1",
        # Rendezvous waits for who is lost until three heartbeats are missing: by default 15 s.
        "PET_RDZV_CONF": "keep_alive_interval=2",
    }
    worker = replicas(["torchrun", str(TRAINER)], 2, "OnFailure", env, args=["--epochs", "5"])
    policy = {"minReplicas": 1, "maxReplicas": 2, "maxRestarts": 10}
    policy |= {"rdzvBackend": "c10d", "rdzvId": "job"}
    made = job(
        "PyTorchJob",
        {"activeDeadlineSeconds": 280},
        {"nprocPerNode": "1", "elasticPolicy": policy},
        Worker=worker,
    )
    logs = tmp_path / "logs"
    said: list[tuple[str, str]] = []
    victims = {"epoch 2/5": "worker-1", "epoch 4/5": "worker-0"}

    def listen(name: str, line: str) -> None:
        said.append((name, line))
        epoch = " ".join(line.split()[:2])
        if epoch in victims:
            kill_replica(logs, victims.pop(epoch))

    runner.run(made, logs, line_by_line(listen))
    lost = [(name, line) for name, line in said if "was ended by SIGKILL and is started" in line]
    assert [name for name, _ in lost] == ["worker-1", "worker-0"]
    lines = [line for _, line in said]
    resumed = [int(line.split()[3]) for line in lines if line.startswith("resuming after epoch")]
    # The last checkpoint may still have been on its way to the disk.
    assert len(resumed) >= 2 and min(resumed) >= 1 and max(resumed) >= 3
    assert sum(line.startswith("epoch 1/5") for line in lines) == 1
    assert (tmp_path / "model" / "model.pt").exists()
