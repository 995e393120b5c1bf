"""The language model's trainer on one GPU: tokens per second and model FLOP utilisation.

GPT-2's shapes in bfloat16 by default, as the trainer computes them (compiled blocks, attention and
optimizer in one kernel each) and written the plain way (eager, attention with its whole matrix of
scores, an optimizer that goes from parameter to parameter). Weights are in float32 in both.

    python benchmarks/language_model.py [SIZE...]    # toy: on a CPU, too
"""

import argparse
import contextlib
import gc
import sys
import time
from collections.abc import Callable
from pathlib import Path

import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.device_mesh import init_device_mesh

# First, because the trainer has this file's name.
sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "trainers"))

import cost
import helpers
import language_model
import strategies
import transformer
from options import parse

SIZES = ["gpt2-124m", "gpt2-350m", "gpt2-1.5b"]
BATCH, LENGTH = (32, 1024) if torch.cuda.is_available() else (4, 64)  # samples, tokens of each
WARM_UP, STEPS = 3, 10


class PlainAttention(transformer.Attention):
    """Attention as its formula says."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Returns what each position takes from those before it."""
        query, key, value = (
            layer(x).unflatten(-1, (-1, self.features)).transpose(1, 2)
            for layer in (self.query, self.key, self.value)
        )
        query, key = transformer.rotate(query), transformer.rotate(key)
        scores = query @ key.transpose(-1, -2) / self.features**0.5
        later = torch.ones(scores.shape[-2:], dtype=torch.bool, device=x.device).triu(1)
        weights = scores.masked_fill(later, -torch.inf).softmax(-1).type_as(value)
        return self.out((weights @ value).transpose(1, 2).flatten(2))


class PlainNorm(nn.RMSNorm):
    """A root-mean-square norm as its formula says."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Returns what was given, of length 1 and scaled."""
        length = (x.float().square().mean(-1, keepdim=True) + 1e-5).rsqrt()
        return (x.float() * length).type_as(x) * self.weight


PLAIN = {transformer.Attention: PlainAttention, nn.RMSNorm: PlainNorm}


def make_plain(network: nn.Module) -> torch.optim.Optimizer:
    """Makes a network one that is written the plain way; returns such an optimizer."""
    for module in network.modules():
        module.__class__ = PLAIN.get(type(module), type(module))
    groups = language_model.make_optimizer(network).param_groups
    plain = [{name: group[name] for name in ("params", "weight_decay")} for group in groups]
    return torch.optim.AdamW(plain, betas=(0.9, 0.95), foreach=False)


def options(size: str, micro_batch: int, is_plain: bool) -> argparse.Namespace:
    """Returns the options of the trainer."""
    words = ["--size", size, "--bf16", "--strategy", "single", "--batch-size", str(BATCH)]
    words += ["--micro-batch", str(micro_batch), *([] if is_plain else ["--compile"])]
    sys.argv = ["language_model.py", *words]
    return parse("Train.")


def measure(arguments: argparse.Namespace, device: torch.device, is_plain: bool) -> float:
    """Trains for some steps; returns tokens per second."""
    mesh = init_device_mesh(device.type, arguments.mesh, mesh_dim_names=strategies.AXES)
    network = strategies.build(arguments, mesh, device)
    optimizer = make_plain(network) if is_plain else language_model.make_optimizer(network)
    compute = strategies.gradients(network, arguments, mesh, device)
    tokens = torch.randint(arguments.shape.vocabulary, (BATCH, LENGTH))
    batch = helpers.Batch(tokens, tokens.roll(-1, 1), BATCH, tokens.numel())

    def step() -> None:
        compute(batch)
        strategies.clip(network, arguments.clip, mesh["pp"])
        optimizer.step()
        optimizer.zero_grad()

    for _ in range(WARM_UP):
        step()
    seconds = timed(lambda: [step() for _ in range(STEPS)], device)
    return STEPS * tokens.numel() / seconds


def timed(work: Callable[[], object], device: torch.device) -> float:
    """Returns the seconds that work takes, on the GPU too."""
    wait = torch.cuda.synchronize if device.type == "cuda" else lambda: None
    wait()
    started = time.perf_counter()
    work()
    wait()
    return time.perf_counter() - started


def best(size: str, device: torch.device, is_plain: bool) -> tuple[float, argparse.Namespace]:
    """Measures with as many samples at a time as the memory holds."""
    micro_batch = BATCH
    while micro_batch:
        gc.collect()
        torch.cuda.empty_cache()
        torch.compiler.reset()
        arguments = options(size, micro_batch, is_plain)
        with contextlib.suppress(torch.OutOfMemoryError):
            return measure(arguments, device, is_plain), arguments
        micro_batch //= 2
    sys.exit(f"{size}: not even one sample fits into the memory of this device")


def main() -> None:
    """Measures and prints a line for each size."""
    sizes = sys.argv[1:]
    if not sizes and not torch.cuda.is_available():
        print("no GPU: nothing was measured")
        return
    device = helpers.join()
    name = torch.cuda.get_device_name(device) if device.type == "cuda" else "CPU"
    print(f"{name}, torch {torch.__version__}, bfloat16, {BATCH} samples of {LENGTH} tokens")
    for size in sizes or SIZES:
        speeds = []
        for is_plain in (False, True):
            speed, arguments = best(size, device, is_plain)
            speeds.append(speed)
            line = f"{size:10} {'plain' if is_plain else 'trainer':8} {speed:9.0f} tokens/s"
            if cost.peak_flops(device):
                used = speed * cost.operations(arguments.shape, LENGTH) / cost.peak_flops(device)
                line += f", utilisation {used:5.1%}"
            print(f"{line}, {arguments.micro_batch} samples at a time", flush=True)
        print(f"{size:10} trainer / plain: {speeds[0] / speeds[1]:.2f}", flush=True)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
