"""What training programs have in common; to be copied along with them.

The process group, checkpoints that training does not wait for, and metrics that it does not wait
for. It needs PyTorch, NumPy and, where a run is to be tracked, MLflow; where it is to be watched,
prometheus_client.
"""

import contextlib
import json
import math
import os
import queue
import re
import signal
import sys
import threading
import time
import traceback
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
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
        data: A folder with ``train.npz``, which holds the arrays ``x`` and ``y``, or with
            ``train/x.npy`` and ``train/y.npy``, which may be larger than the memory.
        size: Samples in a batch, of all processes.
        part: Which part of each batch is this process's.
        parts: How many there are.
        seed: Of the order.
    """

    def __init__(self, data: Path, size: int, part: int, parts: int, seed: int) -> None:
        if (data / "train").is_dir():
            self.x, self.y = (np.load(data / "train" / f"{name}.npy", "r") for name in "xy")
        elif (data / "train.npz").is_file():
            with np.load(data / "train.npz") as arrays:
                self.x, self.y = arrays["x"], arrays["y"]
        else:
            raise Ended(f"there is no {data / 'train.npz'}; DATA_DIR says where to look for it", 2)
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
        inputs = np.zeros((self.size, *self.x.shape[1:]), self.x.dtype)
        targets = np.full((self.size, *self.y.shape[1:]), NONE, np.int64)
        inputs[: len(taken)] = self.x[taken]
        targets[: len(taken)] = np.where(self.y[taken] < 0, NONE, self.y[taken])
        both = torch.from_numpy(inputs)[self.mine], torch.from_numpy(targets)[self.mine]
        return Batch(*both, len(taken), max(1, int((targets != NONE).sum())))


def save(state: dict[str, Any], file: Path) -> None:
    """Writes a file that is whole whenever it is there, also after a crash."""
    file.parent.mkdir(parents=True, exist_ok=True)
    partial = file.with_name(file.name + ".partial")
    torch.save(state, partial)
    partial.replace(file)


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
        keep: How many are kept.
    """

    def __init__(self, model: nn.Module, optimizer: torch.optim.Optimizer, keep: int = 2) -> None:
        self.model, self.optimizer, self.keep = model, optimizer, keep
        self.directory = directory("CHECKPOINT_DIR")
        self.writer = ThreadPoolExecutor(1)
        self.writing: Future[None] | None = None

    def load(self, progress: dict[str, int]) -> dict[str, int]:
        """Goes on from the newest, if there is one.

        Args:
            progress: How far training is without one.

        Returns:
            How far it is.
        """
        newest = [max(self.directory.glob(f"{WHOLE}.pt"), default=None)]
        dist.broadcast_object_list(newest)  # not every disk shows it at once
        if not newest[0]:
            return progress
        state = torch.load(newest[0], map_location="cpu", weights_only=True)
        self.model.load_state_dict(state["model"])
        self.optimizer.load_state_dict(state["optimizer"])
        return state["progress"]

    def save(self, step: int, progress: dict[str, int]) -> None:
        """Starts to save; waits for nothing but the save before, which is long done as a rule."""
        self.wait()
        if dist.get_rank() == 0:
            state = {"model": self.model.state_dict(), "optimizer": self.optimizer.state_dict()}
            copied = on_cpu(state) | {"progress": progress}
            self.writing = self.writer.submit(self._write, copied, step)

    def wait(self) -> None:
        """Waits until the last save is on the disk."""
        if self.writing:
            self.writing.result()

    def _write(self, state: dict[str, Any], step: int) -> None:
        save(state, self.directory / f"step-{step:08}.pt")
        for old in sorted(self.directory.glob(f"{WHOLE}.pt"))[: -self.keep]:
            old.unlink()


class Served:
    """The latest metrics, for Prometheus to fetch at http://HOST:METRICS_PORT/metrics.

    Besides what is logged: the step, the seconds spent on steps so far, and how old the newest
    checkpoint is, all with ``training_`` before their names.

    Args:
        port: The port; on this machine alone where this is no pod.
    """

    def __init__(self, port: int) -> None:
        import prometheus_client as prometheus

        registry = prometheus.CollectorRegistry()
        self.gauge = partial(prometheus.Gauge, registry=registry)
        self.gauges: dict[str, prometheus.Gauge] = {}
        self.seconds = prometheus.Counter(
            "training_seconds", "Seconds spent on steps.", registry=registry
        )
        age = self.gauge("training_checkpoint_age_seconds", "Since the newest checkpoint.")
        age.set_function(self._age)
        self.since = time.monotonic()
        in_a_pod = "KUBERNETES_SERVICE_HOST" in os.environ
        prometheus.start_http_server(port, "0.0.0.0" if in_a_pod else "127.0.0.1", registry)

    def log(self, step: int, **values: float) -> None:
        """Takes the values of one step."""
        now = time.monotonic()
        self.seconds.inc(now - self.since)
        self.since = now
        for name, value in {"step": step, **values}.items():
            if name not in self.gauges:
                known = re.sub(r"\W", "_", name)  # what Prometheus takes for a name
                self.gauges[name] = self.gauge(f"training_{known}", name.replace("_", " "))
            self.gauges[name].set(value)

    def _age(self) -> float:
        times = [math.nan]
        for path in directory("CHECKPOINT_DIR").glob(f"{WHOLE}*"):
            with contextlib.suppress(FileNotFoundError):  # removed meanwhile
                times.append(path.stat().st_mtime if path.suffix != ".partial" else math.nan)
        return time.time() - max(filter(math.isfinite, times), default=math.nan)


def served() -> Served | None:
    """Serves metrics where METRICS_PORT asks for it; that this fails does not stop training."""
    try:
        return Served(int(os.environ["METRICS_PORT"])) if "METRICS_PORT" in os.environ else None
    except (ImportError, OSError, ValueError, OverflowError) as error:
        print(f"metrics are not served: {error}", flush=True)
        return None


class Metrics:
    """Sends metrics to the MLflow run of the environment, from a thread of its own.

    Training never waits for the tracking server: what it does not take is kept and sent again,
    at the end too, for ``patience`` seconds; what is still left then is written to a file.
    Where METRICS_PORT is set, Prometheus can fetch them, too.
    """

    def __init__(self, patience: float = 120.0) -> None:
        self.unsent = directory("CHECKPOINT_DIR") / "metrics-unsent.json"
        self.patience = patience
        self.pending: queue.SimpleQueue[tuple[dict[str, float], int, int] | None]
        self.pending = queue.SimpleQueue()
        self.thread: threading.Thread | None = None
        if os.environ.get("MLFLOW_RUN_ID"):
            self.thread = threading.Thread(target=self._send, daemon=True)
            self.thread.start()
        self.served = served()

    def log(self, step: int, **values: float) -> None:
        """Takes the values of one step; returns at once."""
        if self.served:
            self.served.log(step, **values)
        if self.thread:
            self.pending.put((values, step, int(time.time() * 1000)))

    def close(self) -> None:
        """Waits until everything is sent, or kept in the file."""
        if self.thread:
            self.pending.put(None)
            self.thread.join()

    def _send(self) -> None:
        # Our own loop tries again; MLflow's retries would hold up the end of a cancelled run.
        os.environ.setdefault("MLFLOW_HTTP_REQUEST_MAX_RETRIES", "1")
        from mlflow import MlflowClient
        from mlflow.entities import Metric

        waiting: list[Metric] = []
        give_up, away = None, False
        while waiting or give_up is None:
            if give_up is None:
                # One batch for all that has piled up: SQLite takes 100 as fast as one.
                records = [self.pending.get()]
                while not self.pending.empty():
                    records.append(self.pending.get())
                give_up = time.monotonic() + self.patience if None in records else None
                for values, step, at in filter(None, records):
                    waiting += [Metric(name, value, at, step) for name, value in values.items()]
            try:
                MlflowClient().log_batch(os.environ["MLFLOW_RUN_ID"], metrics=waiting[:1000])
                del waiting[:1000]
                away = False
            except Exception as error:
                if not away:  # without the message, which can hold a password of the server's URL
                    print(f"metrics wait for MLflow: {type(error).__name__}", flush=True)
                away = True
                if give_up and time.monotonic() > give_up:
                    self.unsent.write_text(json.dumps([dict(metric) for metric in waiting]))
                    print(f"metrics that MLflow never took are in {self.unsent}", flush=True)
                    return
                time.sleep(1)
