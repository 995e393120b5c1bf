"""What training a transformer costs, computed without allocating anything, and what GPUs can do."""

import argparse
import re
from typing import NamedTuple

import torch
import transformer

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


def peak_flops(device: torch.device) -> float:
    """Returns a device's operations per second in bfloat16; 0 where they are not known."""
    name = torch.cuda.get_device_name(device) if device.type == "cuda" else ""
    # Whole words: the A10G of some clouds is slower than an A10.
    return next((speed for gpu, speed in PEAKS.items() if re.search(rf"\b{gpu}\b", name)), 0.0)


def operations(shape: transformer.Shape, length: int) -> int:
    """Returns the floating-point operations that a token costs in training.

    Source: https://arxiv.org/abs/2204.02311, appendix B.
    """
    with torch.device("meta"):
        count = sum(value.numel() for value in transformer.LanguageModel(*shape).parameters())
    return 6 * count + 12 * shape.layers * shape.width * length


class Footprint(NamedTuple):
    """What a process of one stage holds, in bytes; ``weights`` are parameters of the stage."""

    weights: int
    parameters: int
    gradients: int
    optimizer: int
    activations: int


def footprint(
    shape: transformer.Shape,
    *,
    stage: int,
    stages: int,
    tp: int,
    shards: int,
    tokens: int,
    parts: int,
    kind: torch.dtype,
    recompute: bool,
) -> Footprint:
    """Returns what a process of one stage holds, without allocating it.

    Args:
        tp: Among how many processes matrices are divided.
        shards: Into how many parts parameters are divided besides.
        tokens: Of a micro-batch in a process.
        parts: Micro-batches of a step.
        kind: The type of activations.
        recompute: Whether blocks are computed again.
    """
    with torch.device("meta"):
        network = transformer.LanguageModel(*shape, stage, stages)
    sizes = [(value.numel(), tp if value.dim() > 1 else 1) for value in network.parameters()]
    parameters = 4 * sum(-(-count // (divided * shards)) for count, divided in sizes)
    # Of a token: what goes into norms and what they divide it by; queries, keys, values, what
    # attention makes of them, twice; gate, its sigmoid's product, up, and the product of both.
    between = shape.width // tp * kind.itemsize
    block = 2 * between + (2 * shape.width + 5 * shape.width // tp) * kind.itemsize
    block += 4 * transformer.hidden_width(shape.width) // tp * kind.itemsize
    kept = between * len(network.blocks) + block if recompute else block * len(network.blocks)
    head = 2 * shape.width * kind.itemsize + 4 * shape.vocabulary // tp if network.last else 0
    in_flight = min(stages - stage, parts)  # of the schedule 1F1B
    return Footprint(
        sum(count for count, _ in sizes),
        parameters,
        parameters,
        2 * parameters,
        tokens * (kept + head) * in_flight,
    )


def print_cost(arguments: argparse.Namespace) -> None:
    """Prints what a step costs, and what the processes of each stage hold."""
    pp, dp, tp = arguments.mesh
    shape, length = arguments.shape, arguments.length
    print(f"{arguments.size} {shape._asdict()}, --pp {pp} --dp {dp} --tp {tp}, {length} tokens")
    print(f"operations per token {operations(shape, length):.3e}")
    for stage in range(pp):
        held = footprint(
            shape,
            stage=stage,
            stages=pp,
            tp=tp,
            shards=1 if arguments.strategy == "ddp" else dp,
            tokens=arguments.micro_batch * length,
            parts=arguments.batch_size // dp // arguments.micro_batch,
            kind=torch.bfloat16 if arguments.bf16 else torch.float32,
            recompute=arguments.recompute,
        )
        bytes_of = held._asdict()
        count = bytes_of.pop("weights")
        summary = ", ".join(f"{name} {size / 2**30:.3f} GiB" for name, size in bytes_of.items())
        print(f"stage {stage}: {count:,} parameters; each process: {summary}")
