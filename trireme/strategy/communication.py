"""The time of a step: computing, waiting for others, and the bubble of a pipeline.

A message takes ``alpha + bytes / beta``: https://doi.org/10.1177/1094342005051521. A ring adds up
n copies in the time of ``2 (n - 1) / n`` of their bytes, and gathers or scatters them in half of
that: https://doi.org/10.1016/j.jpdc.2008.09.002, also the ``busbw`` of
https://github.com/NVIDIA/nccl-tests/blob/master/doc/PERFORMANCE.md. What tensor parallelism
exchanges: https://arxiv.org/abs/2205.05198, section 4.2. The bubble is ``(p - 1) / m`` of the ideal
time: https://arxiv.org/abs/2104.04473, section 2.2.
"""

import math
from dataclasses import dataclass

from trireme.strategy.memory import Memory, Mesh, Recipe, Work
from trireme.strategy.model import Transformer

INSIDE, BETWEEN = 5e-6, 20e-6
"""Latency of a message inside of a node and between nodes, in seconds: an assumption."""

BUCKET = 25 * 2**20
"""Bytes of gradients that DistributedDataParallel sends at once."""


@dataclass(frozen=True)
class Machines:
    """What there is to train on.

    Attributes:
        nodes: Machines.
        devices: Of a node.
        memory: Bytes of a device.
        flops: Operations per second of a device that are computed when nothing waits.
        link: Bytes per second that a device sends to others of its node.
        network: Bytes per second that a node sends to others, all of its devices together.
    """

    nodes: int
    devices: int
    memory: float
    flops: float
    link: float
    network: float

    @property
    def world(self) -> int:
        """How many devices there are."""
        return self.nodes * self.devices


@dataclass(frozen=True)
class Step:
    """The seconds of a step.

    Attributes:
        compute: When nothing waits.
        waiting: For what is sent and not computed behind at the same time.
        bubble: For the first and last micro-batches of a pipeline.
    """

    compute: float
    waiting: float
    bubble: float

    @property
    def seconds(self) -> float:
        """All of them."""
        return self.compute + self.waiting + self.bubble


@dataclass(frozen=True)
class Group:
    """Processes that exchange something: how many, how fast, and how late a message arrives."""

    size: int
    bandwidth: float
    latency: float

    def all_reduce(self, size: float, pieces: int = 1) -> float:
        """Returns the seconds in which each gets the sum of so many bytes of all, in pieces."""
        # NCCL has trees besides rings, as wide, with fewer messages one after another:
        # https://developer.nvidia.com/blog/massively-scale-deep-learning-training-nccl-2-4/
        rounds = math.ceil(math.log2(self.size)) if self.size > 1 else 0
        return 2 * (pieces * rounds * self.latency + self.gather(size, 0))

    def gather(self, size: float, pieces: int = 1) -> float:
        """Returns the seconds in which each gets all of so many bytes; also of a reduce-scatter."""
        rounds = self.size - 1
        return rounds * (pieces * self.latency + size / self.size / self.bandwidth)

    def send(self, size: float) -> float:
        """Returns the seconds in which one gets so many bytes from another."""
        return self.latency + size / self.bandwidth if self.size > 1 else 0.0


def group(machines: Machines, size: int, stride: int) -> Group:
    """Returns a group of so many processes whose ranks are a stride apart."""
    together = max(1, min(size, machines.devices // stride))
    if together == size:
        return Group(size, machines.link, INSIDE)
    # The other groups that cross between these nodes use the same network.
    share = machines.network * together / machines.devices
    return Group(size, min(machines.link, share), BETWEEN)


def bubble(stages: int, parts: int) -> float:
    """Returns how much longer a pipeline takes than its ideal time, as a share of that."""
    return (stages - 1) / parts


def step(
    model: Transformer, recipe: Recipe, mesh: Mesh, work: Work, machines: Machines, memory: Memory
) -> Step:
    """Returns how long a step takes; ``memory`` is of the stage that has most parameters."""
    layers = -(-model.layers // mesh.pp)  # of the slowest stage
    operations = model.operations(work.length) * work.tokens * work.parts * mesh.dp
    slower = layers * mesh.pp / model.layers * (4 / 3 if work.recompute else 1)
    compute = operations * slower / machines.world / machines.flops
    between_layers = work.tokens * model.width * recipe.compute

    # Gathered and scattered twice a layer; in the forward pass, the backward pass, and once more.
    inside = group(machines, mesh.tp, 1).gather(between_layers)
    inside *= layers * work.parts * (12 if work.recompute else 8)
    stages = group(machines, mesh.pp, mesh.tp * mesh.dp)
    between = 2 * work.parts * stages.send(between_layers)

    data, parameters = group(machines, mesh.dp, mesh.tp), memory.weights / recipe.weights
    if mesh.sharded:  # on their way while other blocks are computed
        parameters *= mesh.dp
        exchanged = 2 * data.gather(parameters * recipe.compute, layers)
        exchanged += data.gather(parameters * recipe.gradients, layers)
        shared, behind = exchanged * (1 if mesh.pp > 1 else work.parts), compute
    else:  # while the backward pass of the last micro-batch is computed
        size = parameters * recipe.gradients
        shared = data.all_reduce(size, math.ceil(size / BUCKET))
        behind = compute / work.parts * (3 / 4 if work.recompute else 2 / 3)
    waiting = inside + between + max(0.0, shared - behind)
    return Step(compute, waiting, (compute + inside) * bubble(mesh.pp, work.parts))
