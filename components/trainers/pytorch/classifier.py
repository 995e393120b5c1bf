"""Train an image classifier with PyTorch on any number of processes.

An ordinary program: it needs PyTorch, NumPy and, to track metrics, MLflow. Run it as it is
(``python classifier.py``), under torchrun, or as the entrypoint of a PyTorchJob. It reads

    DATA_DIR        train.npz with arrays x (samples, channels, height, width) and y (samples)
    CHECKPOINT_DIR  a checkpoint after every epoch; training goes on from the last one
    MODEL_DIR       the trained model, model.pt
    SEED            of weights and sample order, default 0
    WARM_START_DIR  where it is set: the model to start from, as left in MODEL_DIR
    RANK, WORLD_SIZE, LOCAL_RANK, MASTER_ADDR, MASTER_PORT
                    as torchrun and the Kubeflow training operator set them; none: one process
    MLFLOW_TRACKING_URI, MLFLOW_RUN_ID
                    the run that rank 0 logs metrics to; none: metrics are only printed
"""

import argparse
import json
import os
import queue
import threading
import time
import traceback
from pathlib import Path
from typing import Any

import numpy as np
import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader, TensorDataset
from torch.utils.data.distributed import DistributedSampler

EXIT_LIMIT = 30.0  # seconds that leaving the process group may take, see leave()


class Classifier(nn.Module):
    """A small convolutional network.

    Args:
        channels: Channels of the input images.
        classes: Number of classes.
        width: Channels of the first convolution.
    """

    def __init__(self, channels: int, classes: int, width: int = 32) -> None:
        super().__init__()
        self.features = nn.Sequential(
            nn.Conv2d(channels, width, 3, padding=1),
            nn.ReLU(),
            nn.Conv2d(width, 2 * width, 3, padding=1),
            nn.ReLU(),
            nn.AdaptiveMaxPool2d(4),
            nn.Flatten(),
        )
        self.head = nn.Linear(2 * width * 4 * 4, classes)

    def forward(self, images: torch.Tensor) -> torch.Tensor:
        """Returns logits, (samples, classes), for images, (samples, channels, height, width)."""
        return self.head(self.features(images))


class Metrics:
    """Sends metrics to the MLflow run of the environment, from a thread of its own.

    Training never waits for the tracking server: what it does not take is kept and sent again,
    at the end too, for ``patience`` seconds; what is still left then is written to a file.
    """

    def __init__(self, unsent: Path, patience: float = 120.0) -> None:
        self.unsent, self.patience = unsent, patience
        self.pending: queue.SimpleQueue[tuple[dict[str, float], int, int] | None]
        self.pending = queue.SimpleQueue()
        self.thread: threading.Thread | None = None
        if os.environ.get("MLFLOW_RUN_ID"):
            self.thread = threading.Thread(target=self._send, daemon=True)
            self.thread.start()

    def log(self, step: int, **values: float) -> None:
        """Takes the values of one step; returns at once."""
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


def load(file: Path) -> TensorDataset:
    """Reads samples and labels from an ``.npz`` file."""
    with np.load(file) as arrays:
        return TensorDataset(torch.from_numpy(arrays["x"]), torch.from_numpy(arrays["y"]))


def save(state: dict[str, Any], file: Path) -> None:
    """Writes a file that is whole whenever it is there, also after a crash."""
    partial = file.with_name(file.name + ".partial")
    torch.save(state, partial)
    partial.replace(file)


def join() -> torch.device:
    """Joins the process group, if there is one, and returns this process's device."""
    device = torch.device("cpu")
    if torch.cuda.is_available():
        # The local rank: ranks count through all machines, devices only through this one's.
        device = torch.device("cuda", int(os.environ.get("LOCAL_RANK", 0)))
        torch.cuda.set_device(device)
    if "RANK" in os.environ:
        dist.init_process_group("nccl" if device.type == "cuda" else "gloo")
    return device


def leave(status: int) -> None:
    """Leaves the process group and ends the process.

    Gloo now and then hangs while it is destroyed (https://github.com/pytorch/pytorch/issues/56297);
    the work is done by then, so the process ends with its status all the same.
    """
    limit = threading.Timer(EXIT_LIMIT, os._exit, [status])
    limit.daemon = True
    limit.start()
    if dist.is_initialized():
        dist.destroy_process_group()
    raise SystemExit(status)


def train(arguments: argparse.Namespace, device: torch.device) -> None:
    """Trains, leaving a checkpoint per epoch in CHECKPOINT_DIR and the model in MODEL_DIR."""
    seed = int(os.environ.get("SEED", 0))
    data, checkpoints, models = (
        Path(os.environ.get(name, name.split("_")[0].lower()))
        for name in ("DATA_DIR", "CHECKPOINT_DIR", "MODEL_DIR")
    )
    rank = dist.get_rank() if dist.is_initialized() else 0
    world_size = dist.get_world_size() if dist.is_initialized() else 1

    dataset = load(data / "train.npz")
    images, labels = dataset.tensors
    shape = {"channels": images.shape[1], "classes": int(labels.max()) + 1}

    torch.manual_seed(seed)
    network = Classifier(**shape, width=arguments.width).to(device)
    if "WARM_START_DIR" in os.environ:
        start = Path(os.environ["WARM_START_DIR"], "model.pt")
        weights = torch.load(start, map_location=device, weights_only=True)["state_dict"]
        network.load_state_dict(weights)
    model = DistributedDataParallel(network) if dist.is_initialized() else network
    optimizer = torch.optim.AdamW(model.parameters(), lr=arguments.learning_rate)
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, arguments.epochs)
    sampler: DistributedSampler[Any] = DistributedSampler(dataset, world_size, rank, seed=seed)
    batches = DataLoader(dataset, arguments.batch_size, sampler=sampler)

    checkpoints.mkdir(parents=True, exist_ok=True)
    checkpoint = checkpoints / "last.pt"
    first = 0
    if checkpoint.exists():
        state = torch.load(checkpoint, map_location=device, weights_only=True)
        network.load_state_dict(state["network"])
        optimizer.load_state_dict(state["optimizer"])
        schedule.load_state_dict(state["schedule"])
        first = state["epoch"]
        if rank == 0:
            print(f"going on after epoch {first}", flush=True)

    metrics = Metrics(checkpoints / "metrics-unsent.json") if rank == 0 else None
    for epoch in range(first, arguments.epochs):
        started = time.monotonic()
        sampler.set_epoch(epoch)  # another order every epoch
        total = torch.zeros(3, dtype=torch.float64, device=device)  # loss, hits, samples
        for inputs, targets in batches:
            inputs, targets = inputs.to(device), targets.to(device)
            logits = model(inputs)
            loss = nn.functional.cross_entropy(logits, targets)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            hits = (logits.argmax(1) == targets).sum()
            total += torch.stack([loss.detach() * len(targets), hits, hits * 0 + len(targets)])
        schedule.step()
        if dist.is_initialized():
            dist.all_reduce(total)
        loss_mean, accuracy = (total[:2] / total[2]).tolist()
        if metrics:
            rate = total[2].item() / (time.monotonic() - started)
            save(
                {
                    "network": network.state_dict(),
                    "optimizer": optimizer.state_dict(),
                    "schedule": schedule.state_dict(),
                    "epoch": epoch + 1,
                },
                checkpoint,
            )
            metrics.log(epoch + 1, loss=loss_mean, accuracy=accuracy, samples_per_second=rate)
            print(
                f"epoch {epoch + 1}/{arguments.epochs} loss {loss_mean:.4f} "
                f"accuracy {accuracy:.4f} samples/s {rate:.0f}",
                flush=True,
            )

    if metrics:
        models.mkdir(parents=True, exist_ok=True)
        # How to build the network again, and its weights: nothing in here is executable.
        result = {
            "factory": "classifier:Classifier",
            "arguments": shape | {"width": arguments.width},
            "state_dict": {name: value.cpu() for name, value in network.state_dict().items()},
        }
        save(result, models / "model.pt")
        metrics.close()
    if dist.is_initialized():
        dist.barrier()


def main() -> None:
    """Reads the command line and trains."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--epochs", type=int, default=15)
    parser.add_argument("--batch-size", type=int, default=32, help="samples per process")
    parser.add_argument("--learning-rate", type=float, default=2e-3)
    parser.add_argument("--width", type=int, default=32, help="channels of the first layer")
    arguments = parser.parse_args()

    status = 1
    try:
        train(arguments, join())
        status = 0
    except Exception:
        traceback.print_exc()
    finally:
        leave(status)


if __name__ == "__main__":
    main()
