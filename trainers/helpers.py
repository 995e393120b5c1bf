"""Helpers of training programs; to be copied along with them.

The process group, the samples, what a program starts from and leaves, and how it ends. It needs
PyTorch and NumPy.
"""

import os
import pickle
import signal
import sys
import threading
import traceback
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
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

UNREADABLE = (
    *(OSError, RuntimeError, LookupError, TypeError, AttributeError),
    pickle.UnpicklingError,
)
"""What reading a model raises that is not there, or is none."""

NONE = -100  # the target that cross_entropy leaves out
WHOLE = "step-????????"  # a checkpoint that is complete; until then it has .partial at its end
FILES = f"{WHOLE}.pt"  # such as ``Checkpoints`` writes


class Ended(Exception):
    """Training ends early, for a reason outside of the program, with this exit status."""

    def __init__(self, why: str, status: int) -> None:
        super().__init__(why)
        self.status = status


class Stopped(Ended):
    """Training ends early, as SIGTERM asks, and can resume after this step."""

    def __init__(self, step: int) -> None:
        super().__init__(f"stopped after step {step}; training can resume from there", RECLAIMED)


def directory(name: str) -> Path:
    """Returns the folder that a variable such as DATA_DIR names; by default ``data`` here."""
    return Path(os.environ.get(name, name.split("_")[0].lower()))


def positive(text: str) -> int:
    """Returns a number of the command line."""
    if int(text) < 1:
        raise ValueError
    return int(text)


def run(train: Callable[[torch.device], None]) -> None:
    """Joins the process group, trains on its device, and ends the process with the right status."""
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
    options: dict[str, Any] = {"backend": "gloo"}
    if device.type == "cuda":
        options = {"backend": "nccl", "device_id": device}
    if "RANK" not in os.environ:
        os.environ.setdefault("GLOO_SOCKET_IFNAME", "lo")  # a host may not know its own address
        options |= {"store": dist.HashStore(), "rank": 0, "world_size": 1}
    dist.init_process_group(**options)
    return device


def leave(status: int) -> None:
    """Leaves the process group and ends the process."""
    # Gloo now and then hangs while it is destroyed
    # (https://github.com/pytorch/pytorch/issues/56297), mostly when other processes are gone. After
    # an error nothing is left to be done; otherwise the work is done by then, so the process ends
    # with its status all the same.
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


def broadcast(value: Any) -> Any:
    """Returns to all processes of the group what the first one gives it."""
    values = [value]
    dist.broadcast_object_list(values)
    return values[0]


def data_parallel(network: nn.Module, example: torch.Tensor) -> DistributedDataParallel:
    """Returns a network whose gradients are the mean of all processes', for such examples."""
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
        self.part, self.local = part, slice(part * size // parts, (part + 1) * size // parts)
        self.epoch, self.order = -1, np.arange(0)

    def batch(self, seen: int) -> Batch:
        """Returns the next batch, after so many samples in all epochs."""
        # Random numbers of PyTorch start anew, so that what is random in a step, as a dropout is,
        # depends on how far training is, and is the same when it goes on from a checkpoint.
        torch.manual_seed(int(np.random.default_rng([self.seed, seen, self.part]).integers(2**63)))
        epoch, start = divmod(seen, len(self.x))
        if epoch != self.epoch:
            self.epoch = epoch
            self.order = np.random.default_rng([self.seed, epoch]).permutation(len(self.x))
        chosen = self.order[start : start + self.size]
        targets = np.full((self.size, *self.y.shape[1:]), NONE, np.int64)
        labels = self.y[chosen].astype(np.int64)  # NONE is in no range of small or unsigned numbers
        targets[: len(chosen)] = np.where(labels < 0, NONE, labels)
        local = chosen[self.local]  # alone: to read what others train on would take time
        inputs = np.zeros((self.local.stop - self.local.start, *self.x.shape[1:]), self.x.dtype)
        inputs[: len(local)] = self.x[local]
        both = torch.from_numpy(inputs), torch.from_numpy(targets)[self.local]
        return Batch(*both, len(chosen), max(1, int((targets != NONE).sum())))


def save(state: dict[str, Any], file: Path) -> None:
    """Writes a file that is whole whenever it is there, also after a crash."""
    file.parent.mkdir(parents=True, exist_ok=True)
    partial = file.with_name(file.name + ".partial")
    with partial.open("wb") as stream:
        torch.save(state, stream)
        stream.flush()
        os.fsync(stream.fileno())
    partial.replace(file)


def save_model(factory: str, arguments: dict[str, int], network: nn.Module) -> None:
    """Writes model.pt: the ``module:class`` of a network, its arguments and weights; no pickle."""
    weights = {name: value.cpu() for name, value in network.state_dict().items()}
    result = {"factory": factory, "arguments": arguments, "state_dict": weights}
    save(result, directory("MODEL_DIR") / "model.pt")


def start_weights(arguments: dict[str, int], network: nn.Module) -> dict[str, torch.Tensor]:
    """Returns the weights of WARM_START_DIR that a network, or a part of one, starts from."""
    if "WARM_START_DIR" not in os.environ:
        return {}
    file = Path(os.environ["WARM_START_DIR"], "model.pt")
    try:
        saved = torch.load(file, "cpu", weights_only=True, mmap=True)
        saved_arguments, weights = saved["arguments"], saved["state_dict"]
        shapes = {name: value.shape for name, value in weights.items()}
    except UNREADABLE as error:
        why = str(error).partition("\n")[0]
        raise Ended(f"training cannot start from {file}: {why}", 2) from None
    if saved_arguments != arguments:
        raise Ended(
            f"training cannot start from {file}: it has {saved_arguments}, not {arguments}", 2
        )
    for name, value in network.named_parameters():
        if shapes.get(name) != value.shape:
            raise Ended(f"training cannot start from {file}: its network has another {name}", 2)
    return weights


def on_cpu(state: Any) -> Any:
    """Returns a copy of a state, in lists and mappings of any depth, that is in no GPU's memory."""
    if isinstance(state, dict):
        return {name: on_cpu(value) for name, value in state.items()}
    if isinstance(state, list):
        return [on_cpu(value) for value in state]
    return state.detach().to("cpu", copy=True) if isinstance(state, torch.Tensor) else state


class Checkpoints:
    """The last few states of a training, each a file ``step-00000020.pt`` of CHECKPOINT_DIR.

    They hold model and optimizer, which every process has whole, so any number of processes can go
    on. Training does not wait for the disk.

    Args:
        model: The network, without what makes it parallel.
        optimizer: Of its parameters.
        is_leader: Whether this process is the one that reads and writes them.
        from_leader: Broadcasts a value from that process to all.
        keep: How many are kept.
    """

    def __init__(
        self,
        model: nn.Module,
        optimizer: torch.optim.Optimizer,
        is_leader: bool,
        from_leader: Callable[[Any], Any],
        keep: int = 2,
    ) -> None:
        self.model, self.optimizer, self.keep = model, optimizer, keep
        self.is_leader, self.from_leader = is_leader, from_leader
        self.directory = directory("CHECKPOINT_DIR")
        self.writer = ThreadPoolExecutor(1)
        self.writing: Future[None] | None = None

    def load(self, progress: dict[str, Any]) -> dict[str, Any]:
        """Resumes from the newest checkpoint; returns its progress, or the given one."""
        newest = max(self.directory.glob(FILES), default=None) if self.is_leader else None
        # One reads it for all: not every machine's disk shows it at once.
        state = self.from_leader(torch.load(newest, "cpu", weights_only=True) if newest else None)
        if not state:
            return progress
        self.model.load_state_dict(state["model"])
        self.optimizer.load_state_dict(state["optimizer"])
        return state["progress"]

    def save(self, step: int, progress: dict[str, Any]) -> None:
        """Starts to save; waits for nothing but the save before, which is long done as a rule."""
        self.wait()
        if self.is_leader:
            state = {"model": self.model.state_dict(), "optimizer": self.optimizer.state_dict()}
            copied = on_cpu(state) | {"progress": progress}
            self.writing = self.writer.submit(self._write, copied, step)

    def wait(self) -> None:
        """Waits until the last save is on the disk."""
        if self.writing:
            self.writing.result()

    def _write(self, state: dict[str, Any], step: int) -> None:
        save(state, self.directory / f"step-{step:08}.pt")
        for old in sorted(self.directory.glob(FILES))[: -self.keep]:
            old.unlink()
