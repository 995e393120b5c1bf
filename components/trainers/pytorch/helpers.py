"""What training programs have in common; to be copied along with them.

The process group, the samples, and how a program ends. It needs PyTorch and NumPy.
"""

import os
import re
import signal
import sys
import threading
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import splits
import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel

EXIT_LIMIT = 30.0  # seconds that leaving the process group may take, see leave()
RECLAIMED = 128 + signal.SIGTERM  # exit status that the training operator takes for "try again"

NONE = -100  # the target that cross_entropy leaves out
WHOLE = "step-????????"  # a checkpoint that is complete; until then it has .partial at its end

PEAKS = {
    **dict.fromkeys(("H100 PCIe", "H800 PCIe"), 756e12),
    **dict.fromkeys(("H100 NVL", "H200 NVL"), 835e12),
    **dict.fromkeys(("H100", "H200", "H800", "GH200"), 989e12),
    **dict.fromkeys(("A100", "A800"), 312e12),
    "H20": 148e12,
    "L40S": 362e12,
    "L20": 119.5e12,
    "A10": 125e12,
}
"""Operations per second of GPUs in bfloat16, dense, as their data sheets say."""


def peak(device: torch.device) -> float:
    """Returns a device's operations per second in bfloat16; 0 where they are not known."""
    name = torch.cuda.get_device_name(device) if device.type == "cuda" else ""
    # Whole words: the A10G of some clouds is slower than an A10.
    return next((speed for gpu, speed in PEAKS.items() if re.search(rf"\b{gpu}\b", name)), 0.0)


class Ended(Exception):
    """Training ends early, and the program is not to blame.

    Args:
        why: One sentence.
        status: The process's exit status.
    """

    def __init__(self, why: str, status: int) -> None:
        super().__init__(why)
        self.status = status


class Stopped(Ended):
    """Training ends early, as SIGTERM asks, and can go on from a checkpoint.

    Args:
        step: After which it was saved.
    """

    def __init__(self, step: int) -> None:
        super().__init__(f"stopped after step {step}; training can go on from there", RECLAIMED)


def directory(name: str) -> Path:
    """Returns one of the program's folders.

    Args:
        name: The variable that says where it is, such as ``DATA_DIR``; by default ``data`` here.
    """
    return Path(os.environ.get(name, name.split("_")[0].lower()))


def run(train: Callable[[torch.device], None]) -> None:
    """Joins the process group, trains, leaves it, and ends the process with the right status.

    Args:
        train: Trains on the device it is given.
    """
    status = 1
    try:
        train(join())
        status = 0
    except Ended as ended:
        print(ended, flush=True)
        status = ended.status
    except Exception:
        traceback.print_exc()
    finally:
        leave(status)


def seed() -> int:
    """Returns the seed of everything that is random."""
    return int(os.environ.get("SEED", 0))


def join() -> torch.device:
    """Joins the process group and returns this process's device; alone it is a group of one."""
    device = torch.device("cpu")
    if torch.cuda.is_available():
        # The local rank: ranks count through all machines, devices only through this one's.
        device = torch.device("cuda", int(os.environ.get("LOCAL_RANK", 0)))
        torch.cuda.set_device(device)
    backend = "nccl" if device.type == "cuda" else "gloo"
    if "RANK" in os.environ:
        dist.init_process_group(backend)
    else:
        os.environ.setdefault("GLOO_SOCKET_IFNAME", "lo")  # a host may not know its own address
        dist.init_process_group(backend, store=dist.HashStore(), rank=0, world_size=1)
    return device


def leave(status: int) -> None:
    """Leaves the process group and ends the process.

    Gloo now and then hangs while it is destroyed (https://github.com/pytorch/pytorch/issues/56297),
    mostly when other processes are gone. After an error nothing is left to be done; otherwise the
    work is done by then, so the process ends with its status all the same.
    """
    if status:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(status)
    limit = threading.Timer(EXIT_LIMIT, os._exit, [status])
    limit.daemon = True
    limit.start()
    if dist.is_initialized():
        dist.destroy_process_group()
    raise SystemExit(status)


def from_first(value: Any) -> Any:
    """Returns to all processes of the group what the first one gives it."""
    values = [value]
    dist.broadcast_object_list(values)
    return values[0]


def data_parallel(network: nn.Module, example: torch.Tensor) -> DistributedDataParallel:
    """Returns the network as one whose gradients are the mean of those of all processes.

    Args:
        network: The same in all of them.
        example: What it takes, with any content.
    """
    model = DistributedDataParallel(network)
    # Gradients are arranged anew after the first backward pass, and added up in another order. With
    # that done here, training after a restart adds them up as training without one.
    (model(example).sum() * 0).backward()
    model.zero_grad()
    return model


class Batch(NamedTuple):
    """This process's part of a batch.

    Attributes:
        inputs: Of each sample.
        targets: Of each sample; ``NONE`` where there is nothing to learn from.
        samples: How many samples the whole batch has.
        counted: How many targets it has, without those that are ``NONE``.
    """

    inputs: torch.Tensor
    targets: torch.Tensor
    samples: int
    counted: int


class Samples:
    """The samples to train on: every one comes once an epoch, each epoch in another order.

    The last batch of an epoch is filled up with targets that are ``NONE``: it may be smaller, and
    all parts have the same size.

    Args:
        data: The dataset's folder; ``splits`` says in which forms.
        size: Samples in a batch, of all processes.
        part: Which part of each batch is this process's.
        parts: How many there are.
        seed: Of the order.
    """

    def __init__(self, data: Path, size: int, part: int, parts: int, seed: int) -> None:
        self.x, self.y = splits.load(data, "train", lambda why: Ended(why, 2))
        self.size, self.seed = size, seed
        self.mine = slice(part * size // parts, (part + 1) * size // parts)
        self.epoch, self.order = -1, np.arange(0)

    def batch(self, seen: int) -> Batch:
        """Returns the next batch, after so many samples in all epochs."""
        epoch, start = divmod(seen, len(self.x))
        if epoch != self.epoch:
            self.epoch = epoch
            self.order = np.random.default_rng([self.seed, epoch]).permutation(len(self.x))
        taken = self.order[start : start + self.size]
        targets = np.full((self.size, *self.y.shape[1:]), NONE, np.int64)
        targets[: len(taken)] = np.where(self.y[taken] < 0, NONE, self.y[taken])
        mine = taken[self.mine]  # alone: to read what others train on would take time
        inputs = np.zeros((self.mine.stop - self.mine.start, *self.x.shape[1:]), self.x.dtype)
        inputs[: len(mine)] = self.x[mine]
        both = torch.from_numpy(inputs), torch.from_numpy(targets)[self.mine]
        return Batch(*both, len(taken), max(1, int((targets != NONE).sum())))


def save(state: dict[str, Any], file: Path) -> None:
    """Writes a file that is whole whenever it is there, also after a crash."""
    file.parent.mkdir(parents=True, exist_ok=True)
    partial = file.with_name(file.name + ".partial")
    torch.save(state, partial)
    partial.replace(file)
