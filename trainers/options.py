"""The command line of the language model's trainer."""

import argparse
import math
import os
from typing import Any

import helpers
import strategies
import transformer

MAIN_AXIS = {"single": "dp", "ddp": "dp", "fsdp": "dp", "tp": "tp", "pp": "pp", "hybrid": "dp"}
"""The strategies, and the axis of the mesh along which each has all of its processes."""


def complete(arguments: argparse.Namespace) -> None:
    """Fills in what was not given, or raises ValueError where it does not fit together."""
    size = transformer.SIZES[arguments.size]
    named = {name: getattr(arguments, name) or getattr(size, name) for name in size._fields}
    shape = arguments.shape = transformer.Shape(**named)
    sizes = {axis: getattr(arguments, axis) for axis in strategies.AXES}
    world = int(os.environ.get("WORLD_SIZE", 1))
    arguments.strategy = arguments.strategy or ("ddp" if world > 1 else "single")
    main = MAIN_AXIS[arguments.strategy]
    others = math.prod(count or 1 for axis, count in sizes.items() if axis != main)
    sizes[main] = sizes[main] or max(1, world // others)
    pp, dp, tp = arguments.mesh = tuple(count or 1 for count in sizes.values())
    per_process = arguments.batch_size // dp
    micro = arguments.micro_batch = arguments.micro_batch or max(1, per_process // pp)
    wrong = {
        f"--pp {pp} --dp {dp} --tp {tp} makes {pp * dp * tp} processes, and there are {world}": (
            pp * dp * tp != world
        ),
        f"--strategy {arguments.strategy} has one process; {world} would train alone": (
            arguments.strategy == "single" and world > 1
        ),
        f"--strategy {arguments.strategy} divides along --{main} only; hybrid along several": (
            arguments.strategy != "hybrid" and others > 1
        ),
        f"--width {shape.width} has to be a multiple of twice --heads {shape.heads}": (
            shape.width % (2 * shape.heads) != 0
        ),
        f"--tp {tp} has to divide {shape.heads} heads and a vocabulary of {shape.vocabulary}": (
            shape.heads % tp != 0 or shape.vocabulary % tp != 0
        ),
        f"--pp {pp} has to be at most the number of layers, {shape.layers}": pp > shape.layers,
        f"--batch-size {arguments.batch_size} has to be a multiple of {dp * micro}: --dp {dp} "
        f"times --micro-batch {micro}": arguments.batch_size % (dp * micro) != 0,
        f"--pp {pp} needs as many micro-batches, and a process has {per_process // micro}": (
            per_process // micro < pp
        ),
    }
    for sentence, holds in wrong.items():
        if holds:
            raise ValueError(sentence)


def parse(description: str) -> argparse.Namespace:
    """Returns the arguments; ends the program with status 2 where they do not fit together."""
    parser = argparse.ArgumentParser(
        description=description,
        formatter_class=argparse.ArgumentDefaultsHelpFormatter,
    )
    add = parser.add_argument
    number: dict[str, Any] = {"type": helpers.positive, "metavar": "N"}
    add("--strategy", choices=MAIN_AXIS, help="default: ddp; for one process: single")
    add("--dp", **number, help="data-parallel size; default: all processes / tp / pp")
    add("--tp", **number, help="tensor-parallel size")
    add("--pp", **number, help="pipeline-parallel size")
    add("--size", choices=transformer.SIZES, default="toy", help="of the network")
    for name in transformer.Shape._fields:
        add(f"--{name}", **number, help="instead of that of --size")
    add("--steps", **number, default=300, help="batches to train on")
    add("--batch-size", **number, default=32, help="samples in a batch, of all processes")
    add("--micro-batch", **number, help="samples at a time in a process; default: all")
    add("--learning-rate", type=float, default=1e-3, metavar="X", help="the highest")
    add("--warm-up", **number, default=20, help="steps of learning-rate warm-up")
    add("--clip", type=float, default=1.0, metavar="X", help="the largest norm of gradients")
    add("--bf16", action="store_true", help="compute in bfloat16; weights stay in float32")
    add("--recompute", action="store_true", help="activation checkpointing: less memory, slower")
    add("--compile", action="store_true", help="compile each block with torch.compile")
    add("--save-every", **number, default=100, help="steps from one checkpoint to the next")
    add("--keep", **number, default=2, help="checkpoints that are kept")
    add("--log-every", **number, default=10, help="steps from one line to the next")
    arguments = parser.parse_args()
    try:
        complete(arguments)
    except ValueError as error:
        parser.error(str(error))
    return arguments
