"""Train the image classifier of classifier.py on any number of processes that MPI connects.

An ordinary program: with the modules beside it, it needs PyTorch, NumPy, mpi4py and, to track
metrics, MLflow. Run it under mpirun (``mpirun -np 4 python mpi_classifier.py``), or as the
entrypoint of an MPIJob. It reads what classifier.py reads, but for the variables of torchrun.
"""

import argparse
import math
import os
import time
import traceback
from pathlib import Path

import helpers
import numpy as np
import torch
from classifier import Classifier, leave_model, parse
from mpi4py import MPI
from torch import nn


def place(world: MPI.Intracomm) -> torch.device:
    """Returns this process's device: a GPU of its machine, if that has any, or the CPU."""
    if not torch.cuda.is_available():
        return torch.device("cpu")
    return torch.device("cuda", world.Split_type(MPI.COMM_TYPE_SHARED).rank)


def add_up(network: nn.Module, world: MPI.Intracomm) -> None:
    """Makes the gradients of a network the sum of those of all processes."""
    gradients = [value.grad for value in network.parameters() if value.grad is not None]
    together = nn.utils.parameters_to_vector(gradients).cpu()  # one message instead of many
    world.Allreduce(MPI.IN_PLACE, together.numpy())
    nn.utils.vector_to_parameters(together.to(gradients[0].device), gradients)


def train(arguments: argparse.Namespace, world: MPI.Intracomm) -> None:
    """Trains, leaving a checkpoint per epoch in CHECKPOINT_DIR and the model in MODEL_DIR."""
    leads, device = world.rank == 0, place(world)
    samples = helpers.Samples(
        helpers.directory("DATA_DIR"),
        arguments.batch_size * world.size,
        part=world.rank,
        parts=world.size,
        seed=helpers.seed(),
    )
    shape = {"channels": samples.x.shape[1], "classes": int(samples.y.max()) + 1}

    torch.manual_seed(helpers.seed())
    network = Classifier(**shape, width=arguments.width).to(device)
    if "WARM_START_DIR" in os.environ:
        start = Path(os.environ["WARM_START_DIR"], "model.pt")
        network.load_state_dict(torch.load(start, weights_only=True)["state_dict"])
    optimizer = torch.optim.AdamW(network.parameters(), lr=arguments.learning_rate)
    directory, first = helpers.directory("CHECKPOINT_DIR"), 0
    newest = max(directory.glob(f"{helpers.WHOLE}.pt"), default=None) if leads else None
    # One reads it for all: not every machine sees a file at once.
    saved = world.bcast(torch.load(newest, "cpu", weights_only=True) if newest else None)
    if saved:
        network.load_state_dict(saved["network"])
        optimizer.load_state_dict(saved["optimizer"])
        first = saved["epoch"]
    metrics = helpers.Metrics() if leads else None
    if metrics and first:
        print(f"going on after epoch {first}", flush=True)

    for epoch in range(first, arguments.epochs):
        started = time.monotonic()
        falling = (1 + math.cos(math.pi * epoch / arguments.epochs)) / 2
        for group in optimizer.param_groups:
            group["lr"] = arguments.learning_rate * falling
        total = np.zeros(3)  # loss, hits, samples
        seen = 0
        while seen < len(samples.x):
            batch = samples.batch(epoch * len(samples.x) + seen)
            inputs, targets = batch.inputs.to(device), batch.targets.to(device)
            logits = network(inputs)
            loss = nn.functional.cross_entropy(
                logits, targets, reduction="sum", ignore_index=helpers.NONE
            )
            optimizer.zero_grad()
            (loss / batch.counted).backward()
            add_up(network, world)
            optimizer.step()
            hits, counted = (logits.argmax(1) == targets).sum(), (targets != helpers.NONE).sum()
            total += [loss.item(), hits.item(), counted.item()]
            seen += batch.samples
        world.Allreduce(MPI.IN_PLACE, total)
        if metrics:
            state = {"network": network.state_dict(), "optimizer": optimizer.state_dict()}
            helpers.save(state | {"epoch": epoch + 1}, directory / f"step-{epoch + 1:08}.pt")
            for old in sorted(directory.glob(f"{helpers.WHOLE}.pt"))[:-1]:
                old.unlink()
            figures = {"loss": total[0] / total[2], "accuracy": total[1] / total[2]}
            rate = total[2] / (time.monotonic() - started)
            metrics.log(epoch + 1, **figures, samples_per_second=rate)
            said = " ".join(f"{name} {value:.7g}" for name, value in figures.items())
            print(f"epoch {epoch + 1}/{arguments.epochs} {said} samples/s {rate:.0f}", flush=True)

    if metrics:
        leave_model(network, shape | {"width": arguments.width})
        metrics.close()


def main() -> None:
    """Reads the command line and trains."""
    arguments = parse(__doc__)
    try:
        train(arguments, MPI.COMM_WORLD)
    except helpers.Ended as ended:
        print(ended, flush=True)
        MPI.COMM_WORLD.Abort(ended.status)
    except Exception:
        traceback.print_exc()
        MPI.COMM_WORLD.Abort(1)  # the others would wait for this one for ever


if __name__ == "__main__":
    main()
