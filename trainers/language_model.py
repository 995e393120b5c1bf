"""Train a language model with PyTorch, divided among any number of processes in any way.

An ordinary program, which needs PyTorch, NumPy and, to track metrics, MLflow.
Copy along: {cost,helpers,metrics,options,sharded,splits,strategies,transformer}.py
Run it as it is (``python language_model.py``), under torchrun, or as the entrypoint of a
PyTorchJob. It reads

    DATA_DIR        train.npz with arrays x and y, or train/x.npy and train/y.npy: tokens and those
                    that follow them, (samples, length); negative in y where none is to be foretold
    CHECKPOINT_DIR  the last checkpoints, from which training goes on, also with other processes
    MODEL_DIR       the trained model, model.pt
    SEED            of weights and sample order, default 0
    WARM_START_DIR  where it is set: the model to start from, as left in MODEL_DIR
    RANK, WORLD_SIZE, LOCAL_RANK, MASTER_ADDR, MASTER_PORT
                    as torchrun and the Kubeflow training operator set them; none: one process
    MLFLOW_TRACKING_URI, MLFLOW_RUN_ID
                    the server and run that rank 0 logs metrics to; no run: a new one; neither:
                    they stay in CHECKPOINT_DIR
    METRICS_PORT    where Prometheus finds those of rank 0; none: nowhere

The strategies differ in what a process has of a model, and compute the same:

    ddp     all of it, for a part of each batch
    fsdp    a part of each parameter, whole only while it is used; for a part of each batch
    tp      a part of each matrix, for all of the batch (tensor and sequence parallelism)
    pp      some of the layers (pipeline parallelism)
    hybrid  --dp (as in fsdp) times --tp times --pp

SIGTERM, as when a machine is reclaimed, makes it save a checkpoint and exit with status 143.
"""

import argparse
import math
import time

import cost
import helpers
import options
import sharded
import strategies
import torch
import torch.distributed as dist
import transformer
from metrics import Metrics, until_sigterm
from torch import nn
from torch.distributed.device_mesh import init_device_mesh


def rate(step: int, arguments: argparse.Namespace) -> float:
    """Returns the learning rate of a step: it rises, then falls to a tenth along a cosine."""
    if step < arguments.warm_up:
        return arguments.learning_rate * (step + 1) / arguments.warm_up
    done = (step - arguments.warm_up) / max(1, arguments.steps - arguments.warm_up)
    return arguments.learning_rate * (0.55 + 0.45 * math.cos(math.pi * done))


def make_optimizer(model: nn.Module) -> torch.optim.Optimizer:
    """Returns AdamW, under which only matrices decay."""
    matrices = [value for value in model.parameters() if value.dim() > 1]
    norms = [value for value in model.parameters() if value.dim() == 1]
    groups = [{"params": matrices, "weight_decay": 0.1}, {"params": norms, "weight_decay": 0.0}]
    return torch.optim.AdamW(groups, betas=(0.9, 0.95), fused=True)


class Meter:
    """Says how training goes, on the terminal and to MLflow."""

    def __init__(self, arguments: argparse.Namespace, device: torch.device) -> None:
        self.arguments = arguments
        self.metrics = Metrics(helpers.directory("CHECKPOINT_DIR"), helpers.WHOLE)
        self.peak_flops = (
            cost.peak_flops(device) * math.prod(arguments.mesh) if arguments.bf16 else 0.0
        )
        self.started, self.tokens = time.monotonic(), 0

    def log(self, step: int, loss: float, shape: torch.Size) -> None:
        """Takes in a step with a batch of this shape, and now and then says how it went."""
        self.tokens += math.prod(shape)
        if step % self.arguments.log_every and step != self.arguments.steps:
            return
        speed = self.tokens / (time.monotonic() - self.started)
        figures = {"loss": loss, "tokens_per_second": speed}
        if self.peak_flops:
            operations = cost.operations(self.arguments.shape, shape[1])
            figures["model_flops_utilization"] = speed * operations / self.peak_flops
        summary = " ".join(f"{name} {value:.7g}" for name, value in figures.items())
        print(f"step {step}/{self.arguments.steps} {summary}", flush=True)
        self.metrics.log(step, **figures, learning_rate=rate(step - 1, self.arguments))
        self.started, self.tokens = time.monotonic(), 0


def train(arguments: argparse.Namespace, device: torch.device) -> None:
    """Trains, leaving checkpoints in CHECKPOINT_DIR and the model in MODEL_DIR."""
    mesh = init_device_mesh(device.type, arguments.mesh, mesh_dim_names=strategies.AXES)
    samples = helpers.Samples(
        helpers.directory("DATA_DIR"),
        arguments.batch_size,
        part=mesh["dp"].get_local_rank(),
        parts=mesh["dp"].size(),
        seed=helpers.seed(),
    )
    check_data(samples, arguments)
    model = strategies.build(arguments, mesh, device)
    compute = strategies.gradients(model, arguments, mesh, device)
    optimizer = make_optimizer(model)
    checkpoints = sharded.Checkpoints(model, optimizer, arguments.keep)
    progress = checkpoints.load({"step": 0, "seen": 0})
    meter = Meter(arguments, device) if dist.get_rank() == 0 else None
    terminated = until_sigterm()
    if meter and progress["step"]:
        print(f"resuming after step {progress['step']}", flush=True)
    while progress["step"] < arguments.steps:
        batch = samples.batch(progress["seen"])
        loss = compute(batch)
        strategies.clip(model, arguments.clip, mesh["pp"])
        for group in optimizer.param_groups:
            group["lr"] = rate(progress["step"], arguments)
        checkpoints.copied()
        optimizer.step()
        optimizer.zero_grad()
        progress = {"step": progress["step"] + 1, "seen": progress["seen"] + batch.samples}
        step, last = progress["step"], progress["step"] == arguments.steps
        shared = torch.stack([loss, torch.full_like(loss, terminated.is_set())])
        dist.all_reduce(shared)
        mean, stop = shared.tolist()
        if meter:
            meter.log(step, mean, torch.Size((arguments.batch_size, batch.targets.shape[1])))
        if stop or last or step % arguments.save_every == 0:
            checkpoints.save(step, progress)
        if stop and not last:
            break
    checkpoints.wait()
    done = progress["step"] >= arguments.steps
    if meter and done:
        save_model(arguments, checkpoints)
    if meter:
        meter.metrics.close()
    dist.barrier()  # one that ends may be the end of all
    if not done:
        raise helpers.Stopped(progress["step"])


def save_model(arguments: argparse.Namespace, checkpoints: sharded.Checkpoints) -> None:
    """Puts the parts of the last checkpoint together, in MODEL_DIR."""
    with torch.device("meta"):
        network = transformer.LanguageModel(*arguments.shape)
    network.to_empty(device="cpu")
    checkpoints.fill(network)
    helpers.save_model("transformer:LanguageModel", arguments.shape._asdict(), network)


def check_data(samples: helpers.Samples, arguments: argparse.Namespace) -> None:
    """Refuses data that the network cannot be trained on."""
    x, y, tp = samples.x, samples.y, arguments.mesh[-1]
    kinds = {x.dtype.kind, y.dtype.kind} - set("iu")
    if x.ndim != 2 or x.shape != y.shape or not x.size or kinds:
        why = "x and y have to be whole numbers, (samples, length); they are "
        why += f"{x.dtype} {x.shape} and {y.dtype} {y.shape}"
    elif x.shape[1] % tp:
        why = f"--tp {tp} has to divide the {x.shape[1]} tokens of a sample"
    elif (most := max(x.max(), y.max())) >= arguments.shape.vocabulary:
        why = f"the data has a token {most}, and --vocabulary is {arguments.shape.vocabulary}"
    elif x.dtype.kind == "i" and x.min() < 0:  # no need to read all of the others for it
        why = f"the data has a token {x.min()}; they count from 0"
    else:
        return
    raise helpers.Ended(why, 2)


def main() -> None:
    """Reads the command line and trains."""
    arguments = options.parse((__doc__ or "").splitlines()[0])
    helpers.run(lambda device: train(arguments, device))


if __name__ == "__main__":
    main()
