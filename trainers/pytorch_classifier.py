"""Train an image classifier with PyTorch on any number of processes.

An ordinary program, which needs PyTorch, NumPy, Pillow for pictures and MLflow to track metrics.
Copy along: {helpers,metrics,splits}.py
Run it as it is (``python pytorch_classifier.py``), under torchrun, or as the entrypoint of a
PyTorchJob. It reads

    DATA_DIR        train.npz with arrays x, float32 (samples, channels, height, width), and y
                    (samples), or another form of images that splits.py knows
    CHECKPOINT_DIR  a checkpoint after every epoch; training goes on from the last one
    MODEL_DIR       the trained model, model.pt
    SEED            of weights and sample order, default 0
    WARM_START_DIR  where it is set: the model to start from, as left in MODEL_DIR
    RANK, WORLD_SIZE, LOCAL_RANK, MASTER_ADDR, MASTER_PORT
                    as torchrun and the Kubeflow training operator set them; none: one process
    MLFLOW_TRACKING_URI, MLFLOW_RUN_ID
                    the server and run that rank 0 logs metrics to; no run: a new one; neither:
                    they stay in CHECKPOINT_DIR
    METRICS_PORT    where Prometheus finds those of rank 0; none: nowhere

SIGTERM, as when a machine is reclaimed, makes it save a checkpoint and exit with status 143.
"""

import argparse
import math
import time
from typing import Any, ClassVar

import helpers
import splits
import torch
import torch.distributed as dist
from metrics import Metrics, until_sigterm
from torch import nn

FACTORY = "pytorch_classifier:Classifier"
ASK_EVERY = 10  # steps after which the processes tell each other whether one is to end


class Classifier(nn.Module):
    """A small convolutional network, its first layer ``width`` channels wide."""

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


def make_network(
    arguments: argparse.Namespace, samples: helpers.Samples, device: torch.device
) -> tuple[Classifier, dict[str, int]]:
    """Returns the network that training starts from, and what it is made of."""
    if why := splits.image_problem(samples.x, samples.y):
        raise helpers.Ended(why, 2)
    shape = {"channels": samples.x.shape[1], "classes": int(samples.y.max()) + 1}
    shape["width"] = arguments.width
    torch.manual_seed(helpers.seed())
    network = Classifier(**shape).to(device)
    network.load_state_dict(helpers.start_weights(shape, network), strict=False)
    return network, shape


def compute(
    model: nn.Module, batch: helpers.Batch, device: torch.device
) -> tuple[torch.Tensor, list[torch.Tensor]]:
    """Returns the sum of losses of this process's part of a batch, and loss, hits and samples."""
    inputs, targets = batch.inputs.to(device), batch.targets.to(device)
    logits = model(inputs)
    loss = nn.functional.cross_entropy(logits, targets, reduction="sum", ignore_index=helpers.NONE)
    hits, counted = (logits.argmax(1) == targets).sum(), (targets != helpers.NONE).sum()
    return loss, [loss.detach(), hits, counted]


class Progress:
    """How far training is, which ``metrics`` of the leading process get each epoch."""

    START: ClassVar = {"step": 0, "seen": 0, "sums": [0.0, 0.0, 0.0]}  # loss, hits, samples

    def __init__(
        self,
        arguments: argparse.Namespace,
        samples: int,
        progress: dict[str, Any],
        metrics: Metrics | None,
    ) -> None:
        self.arguments, self.samples, self.metrics = arguments, samples, metrics
        self.progress, self.first, self.started = progress, progress["seen"], time.monotonic()
        if metrics and self.first:
            epoch, seen = divmod(self.first, samples)
            print(f"resuming after epoch {epoch} and {seen} samples", flush=True)

    @property
    def step(self) -> int:
        """How many batches there have been."""
        return self.progress["step"]

    @property
    def seen(self) -> int:
        """How many samples there have been, in all epochs."""
        return self.progress["seen"]

    @property
    def has_more(self) -> bool:
        """Whether there are more."""
        return self.seen < self.arguments.epochs * self.samples

    def completes_epoch(self, samples: int) -> bool:
        """Whether an epoch is over with a batch of so many samples."""
        return (self.seen + samples) % self.samples == 0

    def set_rate(self, optimizer: torch.optim.Optimizer) -> None:
        """Sets the rate at which the next batch is learned from: from epoch to epoch it falls."""
        done = self.seen // self.samples / self.arguments.epochs
        for group in optimizer.param_groups:
            group["lr"] = self.arguments.learning_rate * (1 + math.cos(math.pi * done)) / 2

    def take(self, samples: int, counted: list[float]) -> bool:
        """Takes in a batch, and what all have counted; tells whether an epoch is over."""
        sums = [sum(pair) for pair in zip(self.progress["sums"], counted, strict=True)]
        self.progress = {"step": self.step + 1, "seen": self.seen + samples, "sums": sums}
        epoch, left_over = divmod(self.seen, self.samples)
        if left_over:
            return False
        self.progress["sums"] = self.START["sums"]
        if self.metrics:
            rate = (self.seen - self.first) / (time.monotonic() - self.started)
            figures = {"loss": sums[0] / sums[2], "accuracy": sums[1] / sums[2]}
            self.metrics.log(epoch, **figures, samples_per_second=rate)
            summary = " ".join(f"{name} {value:.7g}" for name, value in figures.items())
            summary += f" samples/s {rate:.0f}"
            print(f"epoch {epoch}/{self.arguments.epochs} {summary}", flush=True)
        self.first, self.started = self.seen, time.monotonic()
        return True


def train(arguments: argparse.Namespace, device: torch.device) -> None:
    """Trains, leaving a checkpoint per epoch in CHECKPOINT_DIR and the model in MODEL_DIR."""
    rank, world_size = dist.get_rank(), dist.get_world_size()
    samples = helpers.Samples(
        helpers.directory("DATA_DIR"),
        arguments.batch_size * world_size,
        part=rank,
        parts=world_size,
        seed=helpers.seed(),
    )
    network, shape = make_network(arguments, samples, device)
    model = helpers.data_parallel(network, samples.batch(0).inputs.to(device))
    optimizer = torch.optim.AdamW(network.parameters(), lr=arguments.learning_rate)
    checkpoints = helpers.Checkpoints(network, optimizer, rank == 0, helpers.broadcast)
    metrics = Metrics(checkpoints.directory, helpers.FILES) if rank == 0 else None
    terminated = until_sigterm()
    progress = Progress(arguments, len(samples.x), checkpoints.load(Progress.START), metrics)
    sums, stop = torch.zeros(3, dtype=torch.float64, device=device), 0.0

    while progress.has_more and not stop:
        progress.set_rate(optimizer)
        batch = samples.batch(progress.seen)
        loss, counted = compute(model, batch, device)
        # DistributedDataParallel takes the mean of the processes, for the sum of the batch.
        (loss * world_size / batch.counted).backward()
        optimizer.step()
        optimizer.zero_grad()
        sums += torch.stack([value.double() for value in counted])
        counts = [0.0, 0.0, 0.0]
        # Now and then: each time training waits, for the others and for what a GPU still computes.
        if progress.completes_epoch(batch.samples) or (progress.step + 1) % ASK_EVERY == 0:
            shared = torch.cat([sums, sums.new_tensor([terminated.is_set()])])
            dist.all_reduce(shared)  # with which all know whether one of them is to end
            *counts, stop = shared.tolist()
            sums.zero_()
        if progress.take(batch.samples, counts) or stop:
            checkpoints.save(progress.step, progress.progress)

    checkpoints.wait()
    if metrics and not progress.has_more:
        helpers.save_model(FACTORY, shape, network)
    if metrics:
        metrics.close()
    dist.barrier()  # one that ends may be the end of all
    if progress.has_more:
        raise helpers.Stopped(progress.step)


def parse(description: str | None) -> argparse.Namespace:
    """Reads the command line of a program whose docstring this is."""
    parser = argparse.ArgumentParser(description=(description or "").splitlines()[0])
    parser.add_argument("--epochs", type=helpers.positive, default=15)
    parser.add_argument(
        "--batch-size", type=helpers.positive, default=32, help="samples per process"
    )
    parser.add_argument("--learning-rate", type=float, default=2e-3)
    parser.add_argument(
        "--width", type=helpers.positive, default=32, help="channels of the first layer"
    )
    return parser.parse_args()


def main() -> None:
    """Reads the command line and trains."""
    arguments = parse(__doc__)
    helpers.run(lambda device: train(arguments, device))


if __name__ == "__main__":
    main()
