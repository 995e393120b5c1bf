"""How long training waits for a checkpoint: asynchronous ones of the trainers against torch.save.

The state is the same, a network and its optimizer, and so is the disk. Parameters may not change
while they are copied, which goes on during the next forward and backward pass; what is left of it
then is waited for, too. The first save is a figure of its own, because it gets its memory.

    python tests/benchmarks/checkpoint.py [SAVES]
"""

import os
import statistics
import sys
import tempfile
import time
from pathlib import Path

import torch
import torch.distributed as dist
from torch import nn

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "components/trainers/pytorch"))

import helpers
import sharded

WIDTH, LAYERS, SAMPLES = 1024, 16, 512


class Training:
    """A network in training."""

    def __init__(self) -> None:
        self.network = nn.Sequential(*(nn.Linear(WIDTH, WIDTH) for _ in range(LAYERS)))
        self.optimizer = torch.optim.AdamW(self.network.parameters(), fused=True)
        self.compute()
        self.optimizer.step()

    def compute(self) -> None:
        """Goes forward and backward."""
        self.optimizer.zero_grad()
        self.network(torch.ones(SAMPLES, WIDTH)).square().mean().backward()


def by_torch(training: Training, directory: Path) -> float:
    """Saves with torch.save; returns the seconds that training waits."""
    state = {
        "model": training.network.state_dict(),
        "optimizer": training.optimizer.state_dict(),
    }
    started = time.perf_counter()
    with (directory / "state.pt").open("wb") as file:
        torch.save(state, file)
        file.flush()
        os.fsync(file.fileno())  # as the other one does
    return time.perf_counter() - started


def by_trainers(training: Training, checkpoints: sharded.Checkpoints, step: int) -> float:
    """Saves as the trainers do; returns the seconds that training waits."""
    started = time.perf_counter()
    checkpoints.save(step, {"step": step})
    waited = time.perf_counter() - started
    training.compute()
    started = time.perf_counter()
    checkpoints.copied()
    waited += time.perf_counter() - started
    training.optimizer.step()
    checkpoints.wait()
    return waited


def main() -> None:
    """Measures and prints the figures."""
    saves = int(sys.argv[1]) if len(sys.argv) > 1 else 7
    helpers.join()
    with tempfile.TemporaryDirectory() as name:
        directory = Path(name)
        os.environ["CHECKPOINT_DIR"] = str(directory / "checkpoints")
        training = Training()
        checkpoints = sharded.Checkpoints(training.network, training.optimizer)
        first = by_trainers(training, checkpoints, 0)
        pairs = [
            (by_trainers(training, checkpoints, step), by_torch(training, directory))
            for step in range(1, saves + 1)
        ]
        size = (directory / "state.pt").stat().st_size
    ours, theirs = (statistics.median(times) for times in zip(*pairs, strict=True))
    print(f"{size / 2**20:.0f} MiB, medians of {saves} saves, seconds that training waits")
    print(f"torch.save {theirs:.3f}, asynchronous {ours:.3f}: {ours / theirs:.1%}")
    print(f"the first asynchronous one {first:.3f}: {first / theirs:.1%}")
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
