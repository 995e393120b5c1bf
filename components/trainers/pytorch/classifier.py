"""Train an image classifier with PyTorch on any number of processes.

An ordinary program: with helpers.py beside it, it needs PyTorch, NumPy and, to track metrics,
MLflow. Run it as it is (``python classifier.py``), under torchrun, or as the entrypoint of a
PyTorchJob. It reads

    DATA_DIR        train.npz with arrays x (samples, channels, height, width) and y (samples)
    CHECKPOINT_DIR  a checkpoint after every epoch; training goes on from the last one
    MODEL_DIR       the trained model, model.pt
    SEED            of weights and sample order, default 0
    WARM_START_DIR  where it is set: the model to start from, as left in MODEL_DIR
    RANK, WORLD_SIZE, LOCAL_RANK, MASTER_ADDR, MASTER_PORT
                    as torchrun and the Kubeflow training operator set them; none: one process
    MLFLOW_TRACKING_URI, MLFLOW_RUN_ID
                    the run that rank 0 logs metrics to; none: metrics are only printed
    METRICS_PORT    where Prometheus finds those of rank 0; none: nowhere
"""

import argparse
import math
import os
import time
from pathlib import Path

import helpers
import torch
import torch.distributed as dist
from torch import nn


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
    shape = {"channels": samples.x.shape[1], "classes": int(samples.y.max()) + 1}

    torch.manual_seed(helpers.seed())
    network = Classifier(**shape, width=arguments.width).to(device)
    if "WARM_START_DIR" in os.environ:
        start = Path(os.environ["WARM_START_DIR"], "model.pt")
        weights = torch.load(start, map_location=device, weights_only=True)["state_dict"]
        network.load_state_dict(weights)
    model = helpers.data_parallel(network, samples.batch(0).inputs.to(device))
    optimizer = torch.optim.AdamW(model.parameters(), lr=arguments.learning_rate)
    checkpoints = helpers.Checkpoints(network, optimizer)
    first = checkpoints.load({"epoch": 0})["epoch"]
    metrics = helpers.Metrics() if rank == 0 else None
    if metrics and first:
        print(f"going on after epoch {first}", flush=True)

    for epoch in range(first, arguments.epochs):
        started = time.monotonic()
        falling = (1 + math.cos(math.pi * epoch / arguments.epochs)) / 2
        for group in optimizer.param_groups:
            group["lr"] = arguments.learning_rate * falling
        total = torch.zeros(3, dtype=torch.float64, device=device)  # loss, hits, samples
        seen = 0
        while seen < len(samples.x):
            batch = samples.batch(epoch * len(samples.x) + seen)
            inputs, targets = batch.inputs.to(device), batch.targets.to(device)
            logits = model(inputs)
            loss = nn.functional.cross_entropy(
                logits, targets, reduction="sum", ignore_index=helpers.NONE
            )
            # DistributedDataParallel takes the mean of the processes, for the sum of the batch.
            (loss * world_size / batch.counted).backward()
            optimizer.step()
            optimizer.zero_grad()
            hits = (logits.argmax(1) == targets).sum()
            total += torch.stack([loss.detach(), hits, (targets != helpers.NONE).sum()])
            seen += batch.samples
        dist.all_reduce(total)
        checkpoints.save(epoch + 1, {"epoch": epoch + 1})
        loss_mean, accuracy = (total[:2] / total[2]).tolist()
        if metrics:
            rate = total[2].item() / (time.monotonic() - started)
            metrics.log(epoch + 1, loss=loss_mean, accuracy=accuracy, samples_per_second=rate)
            print(
                f"epoch {epoch + 1}/{arguments.epochs} loss {loss_mean:.4f} "
                f"accuracy {accuracy:.4f} samples/s {rate:.0f}",
                flush=True,
            )

    checkpoints.wait()
    if metrics:
        leave_model(network, shape | {"width": arguments.width})
        metrics.close()
    dist.barrier()


def leave_model(network: Classifier, shape: dict[str, int]) -> None:
    """Writes how to build the network again, and its weights: nothing in there is executable."""
    result = {
        "factory": "classifier:Classifier",
        "arguments": shape,
        "state_dict": {name: value.cpu() for name, value in network.state_dict().items()},
    }
    helpers.save(result, helpers.directory("MODEL_DIR") / "model.pt")


def parse(description: str | None) -> argparse.Namespace:
    """Reads the command line of a program whose docstring this is."""
    parser = argparse.ArgumentParser(description=(description or "").splitlines()[0])
    parser.add_argument("--epochs", type=int, default=15)
    parser.add_argument("--batch-size", type=int, default=32, help="samples per process")
    parser.add_argument("--learning-rate", type=float, default=2e-3)
    parser.add_argument("--width", type=int, default=32, help="channels of the first layer")
    return parser.parse_args()


def main() -> None:
    """Reads the command line and trains."""
    arguments = parse(__doc__)
    helpers.run(lambda device: train(arguments, device))


if __name__ == "__main__":
    main()
