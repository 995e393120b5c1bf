"""Train the image classifier of pytorch_classifier.py on any number of processes that MPI connects.

An ordinary program, which needs mpi4py and what pytorch_classifier.py needs.
Copy along: {pytorch_classifier,helpers,metrics,splits}.py
Run it under mpirun (``mpirun -np 4 python mpi_classifier.py``), or as the entrypoint of an MPIJob.
It reads what pytorch_classifier.py reads, but for the variables of torchrun, and does at SIGTERM
what that does.
"""

import argparse
import traceback

import helpers
import numpy as np
import torch
from metrics import Metrics, until_sigterm
from mpi4py import MPI
from pytorch_classifier import FACTORY, Progress, compute, make_network, parse
from torch import nn


def choose_device(world: MPI.Intracomm) -> torch.device:
    """Returns this process's device: a GPU of its machine, if that has any, or the CPU."""
    if not torch.cuda.is_available():
        return torch.device("cpu")
    return torch.device("cuda", world.Split_type(MPI.COMM_TYPE_SHARED).rank)


def all_reduce_gradients(network: nn.Module, world: MPI.Intracomm) -> None:
    """Makes the gradients of a network the sum of those of all processes."""
    gradients = [value.grad for value in network.parameters() if value.grad is not None]
    together = nn.utils.parameters_to_vector(gradients).cpu()  # one message instead of many
    world.Allreduce(MPI.IN_PLACE, together.numpy())
    nn.utils.vector_to_parameters(together.to(gradients[0].device), gradients)


def train(arguments: argparse.Namespace, world: MPI.Intracomm) -> None:
    """Trains, leaving a checkpoint per epoch in CHECKPOINT_DIR and the model in MODEL_DIR."""
    is_leader, device = world.rank == 0, choose_device(world)
    samples = helpers.Samples(
        helpers.directory("DATA_DIR"),
        arguments.batch_size * world.size,
        part=world.rank,
        parts=world.size,
        seed=helpers.seed(),
    )
    network, shape = make_network(arguments, samples, device)
    optimizer = torch.optim.AdamW(network.parameters(), lr=arguments.learning_rate)
    checkpoints = helpers.Checkpoints(network, optimizer, is_leader, world.bcast)
    metrics = Metrics(checkpoints.directory, helpers.FILES) if is_leader else None
    terminated = until_sigterm()
    progress = Progress(arguments, len(samples.x), checkpoints.load(Progress.START), metrics)

    while progress.has_more:
        progress.set_rate(optimizer)
        batch = samples.batch(progress.seen)
        loss, counted = compute(network, batch, device)
        (loss / batch.counted).backward()
        all_reduce_gradients(network, world)
        optimizer.step()
        optimizer.zero_grad()
        sums = np.array([*map(float, counted), terminated.is_set()])
        world.Allreduce(MPI.IN_PLACE, sums)  # with which all know whether one of them is to end
        *counts, stop = sums.tolist()
        if progress.take(batch.samples, counts) or stop:
            checkpoints.save(progress.step, progress.progress)
        if stop and progress.has_more:
            break

    checkpoints.wait()
    if metrics and not progress.has_more:
        helpers.save_model(FACTORY, shape, network)
    if metrics:
        metrics.close()
    world.Barrier()  # one that ends may be the end of all
    if progress.has_more:
        raise helpers.Stopped(progress.step)


def main() -> None:
    """Reads the command line and trains."""
    arguments = parse(__doc__)
    try:
        train(arguments, MPI.COMM_WORLD)
    except helpers.Stopped as stopped:
        print(stopped, flush=True)
        raise SystemExit(stopped.status) from None  # as all do
    except helpers.Ended as ended:
        print(ended, flush=True)
        MPI.COMM_WORLD.Abort(ended.status)
    except Exception:
        traceback.print_exc()
        MPI.COMM_WORLD.Abort(1)  # the others would wait for this one for ever


if __name__ == "__main__":
    main()
