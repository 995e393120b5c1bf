"""Choosing a strategy: each one's best mesh, how they compare, and why one of them is taken."""

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache

from trireme.strategy.communication import Machines, Step, step
from trireme.strategy.memory import Memory, Mesh, Recipe, Work, of_most
from trireme.strategy.model import Transformer

NAMES = ("single", "ddp", "fsdp", "tp", "pp", "hybrid")
"""From the simplest on, as ``--strategy`` of language_model.py has them."""

USABLE = 0.9
"""What of a device's memory tensors may take: the rest is for its context, libraries and gaps."""

MARGIN = 1.05
"""How much faster another strategy has to be than a simpler one: what is below is noise."""


@dataclass(frozen=True)
class Choice:
    """A strategy, the mesh and micro-batch that suit it best, and what they come to.

    Attributes:
        activations: Bytes that blocks keep for the backward pass, without and with activation
            checkpointing, which ``work`` may ask for.
    """

    name: str
    mesh: Mesh
    work: Work
    memory: Memory
    activations: tuple[float, float]
    step: Step
    fits: bool


def choices(
    model: Transformer, recipe: Recipe, machines: Machines, batch: int, length: int
) -> list[Choice]:
    """Returns a choice for each strategy that can be, the best first.

    Those that fit come first, and of them the fastest, or the simplest that is about as fast.
    """
    best: dict[str, Choice] = {}
    for name, mesh in meshes(model, machines):
        for work in works(mesh, batch, length):
            both = tuple(
                of_most(model, recipe, mesh, variant) for variant in (work, work.recomputed())
            )
            for variant, memory in zip((work, work.recomputed()), both, strict=True):
                fits = memory.peak <= USABLE * machines.memory
                duration = step(model, recipe, mesh, variant, machines, memory)
                activations = (both[0].activations, both[1].activations)
                choice = Choice(name, mesh, variant, memory, activations, duration, fits)
                best[name] = min(best.get(name, choice), choice, key=_order)
    ordered = sorted(best.values(), key=_order)
    return sorted(ordered, key=lambda choice: choice is not _simplest(ordered))


def meshes(model: Transformer, machines: Machines) -> Iterator[tuple[str, Mesh]]:
    """Yields the meshes of all devices, each with the strategy that it is.

    Tensor parallelism stays inside of a node: https://arxiv.org/abs/2104.04473, section 3.3.
    """
    world = machines.world
    for tp in _divisors(machines.devices):
        if model.heads % tp or model.kv_heads % tp or model.vocabulary % tp:
            continue
        for pp in _divisors(world // tp):
            dp = world // tp // pp
            used = [axis for axis, size in (("tp", tp), ("pp", pp), ("fsdp", dp)) if size > 1]
            if pp > model.layers:
                continue
            if used in ([], ["fsdp"]):
                yield "ddp" if used else "single", Mesh(dp=dp)
            if used:
                yield used[0] if len(used) == 1 else "hybrid", Mesh(pp, dp, tp, dp > 1)


def works(mesh: Mesh, batch: int, length: int) -> Iterator[Work]:
    """Yields the ways to divide a batch into micro-batches; none where it cannot be divided."""
    if batch % mesh.dp:
        return
    for samples in reversed(_divisors(batch // mesh.dp)):  # large ones compute faster
        parts = batch // mesh.dp // samples
        if parts >= mesh.pp:
            yield Work(length, samples, parts)


def reason(ordered: list[Choice], machines: Machines) -> str:
    """Returns the sentence that says why the first one is the best."""
    best, *others = ordered
    if not best.fits:
        usable = gigabytes(USABLE * machines.memory)
        least = f"{best.name} needs least, {gigabytes(best.memory.peak)}"
        return f"nothing fits into {usable} of each device; {least}"
    simpler = [choice for choice in others if NAMES.index(choice.name) < NAMES.index(best.name)]
    against = [
        f"{choice.name} takes {choice.step.seconds / best.step.seconds:.2g} times as long"
        if choice.fits
        else f"{choice.name} needs {gigabytes(choice.memory.peak)} of each device"
        for choice in sorted(simpler, key=lambda choice: NAMES.index(choice.name))
    ]
    fastest = min(choice.step.seconds for choice in ordered if choice.fits) == best.step.seconds
    distinction = (
        "the fastest that fits" if fastest else "the simplest of those about as fast that fit"
    )
    return f"{best.name} is {distinction}{': ' if against else ''}{', '.join(against)}"


def _order(choice: Choice) -> tuple[bool, float, int]:
    measure = choice.step.seconds if choice.fits else choice.memory.peak
    # What is the same but for rounding is the same.
    return not choice.fits, float(f"{measure:.6g}"), NAMES.index(choice.name)


def _simplest(ordered: list[Choice]) -> Choice:
    fastest = ordered[0]
    about = [
        choice
        for choice in ordered
        if choice.fits and choice.step.seconds <= MARGIN * fastest.step.seconds
    ]
    return min(about or [fastest], key=lambda choice: NAMES.index(choice.name))


@cache
def _divisors(number: int) -> list[int]:
    return [divisor for divisor in range(1, number + 1) if number % divisor == 0]


def gigabytes(size: float) -> str:
    """Returns bytes as a person reads them."""
    return f"{size / 1e9:.1f} GB"
