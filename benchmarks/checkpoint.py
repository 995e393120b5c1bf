"""How long training waits for a checkpoint: asynchronous ones of the trainers against torch.save.

The state is the same, a network and its optimizer, and so is the disk. Parameters may not change
while they are copied, which goes on during the next forward and backward pass; what is left of it
then is waited for, too. The first save is a figure of its own, because it gets its memory.

And how many steps are lost when the language model's trainer is killed and started again.

    python benchmarks/checkpoint.py [SAVES]
"""

import os
import random
import re
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
import torch
import torch.distributed as dist
from torch import nn

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "trainers"))

import helpers
import language_model
import sharded

WIDTH, LAYERS, SAMPLES = 1024, 16, 512
KILLS = 5  # how often a training is killed
EVERY = 10  # steps from one of its checkpoints to the next


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


def steps_lost(directory: Path) -> list[int]:
    """Kills a training again and again; returns how many of its steps are to be done again."""
    tokens = np.random.default_rng(0).integers(0, 256, (64, 129), np.uint8)
    np.savez(directory / "train.npz", x=tokens[:, :-1], y=tokens[:, 1:])
    command = [sys.executable, language_model.__file__, "--batch-size", "4"]
    command += ["--steps", "100000", "--log-every", "1", "--save-every", str(EVERY)]
    variables = {"DATA_DIR": str(directory), "CHECKPOINT_DIR": str(directory / "killed")}
    reached, lost = 0, []
    while len(lost) < KILLS:
        until = reached + random.randint(EVERY, 3 * EVERY)
        with subprocess.Popen(
            command, env=os.environ | variables, stdout=subprocess.PIPE, text=True
        ) as process:
            assert process.stdout
            for line in process.stdout:
                if match := re.match(r"resuming after step (\d+)", line):
                    lost.append(reached - int(match[1]))
                elif match := re.match(r"step (\d+)/", line):
                    if int(match[1]) == 1 and reached:  # the first checkpoint was on its way
                        lost.append(reached)
                    reached = int(match[1])
                    if reached == until:
                        process.kill()
    return lost


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
        lost = steps_lost(directory)
    ours, theirs = (statistics.median(times) for times in zip(*pairs, strict=True))
    print(f"{size / 2**20:.0f} MiB, medians of {saves} saves, seconds that training waits")
    print(f"torch.save {theirs:.3f}, asynchronous {ours:.3f}: {ours / theirs:.1%}")
    print(f"the first asynchronous one {first:.3f}: {first / theirs:.1%}")
    print(f"killed {KILLS} times, with a checkpoint every {EVERY} steps: of steps were lost {lost}")
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
