"""The memory that each process of a training needs.

States, 16 bytes a parameter with Adam in mixed precision, and how they are divided: ZeRO,
https://arxiv.org/abs/1910.02054, section 3. Activations of a block, ``s b h (34 + 5 a s / h)``
bytes, and what of them tensor parallelism divides: https://arxiv.org/abs/2205.05198, section 4.
Micro-batches under way in a stage of the schedule 1F1B: https://arxiv.org/abs/2104.04473, section
2.2. What these leave out was found by measuring language_model.py, ``make bench``.
"""

from dataclasses import dataclass, replace

from trireme.strategy.model import Transformer

STATES = {"sgd": 0, "momentum": 1, "adam": 2, "adamw": 2}
"""Numbers that an optimizer keeps of each parameter."""


@dataclass(frozen=True)
class Recipe:
    """How numbers are kept: bytes of each.

    Attributes:
        weights: Of a parameter that the optimizer changes.
        gradients: Of a parameter's gradient.
        optimizer: Of all that the optimizer keeps of a parameter.
        compute: Of a number in what is computed; below ``weights``, there are copies of these.
    """

    weights: int
    gradients: int
    optimizer: int
    compute: int

    @property
    def copies(self) -> int:
        """Bytes of a parameter's copy, as torch.autocast makes it."""
        return self.compute if self.compute < self.weights else 0

    def casts(self, mesh: "Mesh") -> bool:
        """Whether each layer casts what it gets; sharded ones get it as it is computed with."""
        return bool(self.copies) and not mesh.sharded

    def residual(self, mesh: "Mesh") -> int:
        """Bytes of a number that blocks are added to."""
        return self.weights if self.casts(mesh) else self.compute


def recipe(precision: str, optimizer: str, has_master: bool) -> Recipe:
    """Returns what ``fp32`` or ``bf16`` stands for, with or without master weights in float32."""
    compute = 4 if precision == "fp32" else 2
    size = 4 if has_master else compute
    return Recipe(size, size, size * STATES[optimizer], compute)


@dataclass(frozen=True)
class Mesh:
    """How processes share the work.

    Attributes:
        pp: Among how many the layers are divided.
        dp: Among how many the batch is divided.
        tp: Among how many each matrix is divided.
        sharded: Whether what is left of parameters, gradients and optimizer is divided by ``dp``.
    """

    pp: int = 1
    dp: int = 1
    tp: int = 1
    sharded: bool = False


@dataclass(frozen=True)
class Memory:
    """What a process holds, in bytes; not all of it at the same time, so ``peak`` is no sum."""

    weights: float
    gradients: float
    optimizer: float
    activations: float
    peak: float


def states(parameters: float, recipe: Recipe, shards: tuple[int, int, int]) -> tuple[float, ...]:
    """Returns the bytes of weights, gradients and optimizer, each divided into so many parts."""
    sizes = (recipe.weights, recipe.gradients, recipe.optimizer)
    return tuple(parameters * size / parts for size, parts in zip(sizes, shards, strict=True))


@dataclass(frozen=True)
class Work:
    """A step of a process.

    Attributes:
        length: Tokens of a sample.
        samples: Of a micro-batch.
        parts: Micro-batches.
        recompute: Whether blocks are computed again in the backward pass (checkpointing).
    """

    length: int
    samples: int
    parts: int = 1
    recompute: bool = False

    @property
    def tokens(self) -> int:
        """Tokens of a micro-batch."""
        return self.length * self.samples

    def recomputed(self) -> "Work":
        """Returns the same step with activation checkpointing."""
        return replace(self, recompute=True)


def block_activations(model: Transformer, recipe: Recipe, mesh: Mesh, length: int) -> float:
    """Returns the bytes that a block keeps of each token for the backward pass.

    They are the inputs of norms and, of LLaMA's, these normalised; the inputs of the linear layers,
    which tensor parallelism gathers; queries, keys, values and what attention makes of them; what
    is between the matrices of the feed-forward layer; the masks of GPT's dropout; and the scores,
    their dropout and its mask where attention is not fused.
    """
    size = recipe.compute
    casts = 1 if not recipe.casts(mesh) else 2.5 if model.gated else 2  # one for each linear layer
    inputs = 2 * casts * model.width * size
    norms = (4 if model.gated else 2) * model.width * recipe.residual(mesh)
    attention = ((3 if model.gated else 2) * model.query_width + 2 * model.kv_width) * size
    feed = (4 if model.gated else 2) * model.hidden * size
    masks = 0 if model.gated else 2 * model.width
    scores = 0 if model.fused else model.heads * length * (2 * size + 1)
    return inputs + (norms + attention + feed + masks + scores) / mesh.tp


@dataclass(frozen=True)
class Part:
    """Parameters of a process: its blocks, each block, a matrix of tokens, and all but blocks."""

    layers: int
    block: float
    table: float
    ends: float

    @property
    def all(self) -> float:
        """All of them."""
        return self.layers * self.block + self.ends


def part_of(model: Transformer, mesh: Mesh, stage: int) -> Part:
    """Returns the parameters of a stage's process, before data parallelism divides them."""
    is_first, is_last = stage == 0, stage == mesh.pp - 1
    table = model.embedding / mesh.tp
    tables = is_first + is_last - (model.tied and is_first and is_last)
    return Part(
        layers=(stage + 1) * model.layers // mesh.pp - stage * model.layers // mesh.pp,
        block=model.matrices / mesh.tp + model.vectors,
        table=table,
        ends=tables * table + is_first * model.positions * model.width + is_last * model.norm,
    )


def of_stage(model: Transformer, recipe: Recipe, mesh: Mesh, work: Work, stage: int) -> Memory:
    """Returns what a process of a pipeline stage holds."""
    part, shards = part_of(model, mesh, stage), mesh.dp if mesh.sharded else 1
    weights, gradients, optimizer = states(part.all, recipe, (shards,) * 3)
    buckets = gradients if mesh.dp > 1 and not mesh.sharded else 0  # DDP's

    activations = block_activations(model, recipe, mesh, work.length) * work.tokens
    between = model.width * recipe.residual(mesh) / mesh.tp * work.tokens
    stored = part.layers * (between if work.recompute else activations)
    if stage == mesh.pp - 1:
        stored += 3 * model.width * recipe.compute * work.tokens  # of the last norm
    flight = min(mesh.pp - stage, work.parts)
    return Memory(
        weights,
        gradients + buckets,
        optimizer,
        stored * flight + (activations if work.recompute else 0),
        weights
        + optimizer
        + buckets
        + _beside(model, recipe, mesh, work, stage, stored, activations),
    )


def _beside(
    model: Transformer,
    recipe: Recipe,
    mesh: Mesh,
    work: Work,
    stage: int,
    stored: float,
    activations: float,
) -> float:
    """Returns the most that comes to weights, optimizer and buckets in the course of a step.

    That is in the first backward pass, in later ones, when there are gradients already, or at the
    end, when all gradients are there and nothing else.
    """
    is_first, is_last, part = stage == 0, stage == mesh.pp - 1, part_of(model, mesh, stage)
    # Logits, their softmax, and the gradients of both. Divided ones take a step more, and a
    # pipeline holds on to what its stages return.
    logits = is_last * 4 * work.tokens * model.vocabulary / mesh.tp
    logits *= 3 + (mesh.tp > 1) + (mesh.pp > 1)
    # Gradients of what is between a block's matrices, and of one of these.
    working = 2 * model.hidden / mesh.tp * recipe.compute * work.tokens
    working += (activations if work.recompute else 0) + is_last * recipe.gradients * part.table
    matrix = recipe.gradients * model.width * model.hidden / mesh.tp
    # Those of tokens coming in are not divided yet; of a shared matrix there are two.
    is_shared = is_first and is_last and model.tied
    tables = recipe.gradients * (is_first * model.embedding + is_shared * part.table)

    copies, resident, shards = part.all * recipe.copies, recipe.gradients * part.all, 1
    first = later = max(logits, working + matrix)
    if mesh.sharded:
        # Whole are the ends, and two blocks at a time, whose gradients are copied to be added up.
        shards, copies, tables = mesh.dp, part.ends * recipe.compute, tables * 2
        blocks = 2 * part.block * recipe.compute
        reduced = part.block * (recipe.compute + recipe.gradients)
        first = later = blocks + max(logits, working + reduced)
        if mesh.pp > 1:  # after the first micro-batch all are whole, and gradients until the last
            later = part.layers * part.block * recipe.compute + max(logits, working + matrix)
        else:
            resident /= shards
    flight = min(mesh.pp - stage, work.parts)
    # Gradients of blocks grow while what these have kept is given up.
    growing = (part.layers - 1) * (recipe.gradients * part.block / shards - stored / part.layers)
    most = [stored * flight + first + max(0, growing), resident + tables]
    if work.parts > 1:
        most.append(resident + stored * (flight - (work.parts == flight)) + later)
    return copies + max(most)


def of_most(model: Transformer, recipe: Recipe, mesh: Mesh, work: Work) -> Memory:
    """Returns what a process of the stage that needs most holds."""
    # Of stages in the middle it is the first one that has a layer more than others.
    more = model.layers % mesh.pp
    stages = {0, -(-mesh.pp // more) - 1 if more else 0, mesh.pp - 1}
    memories = (of_stage(model, recipe, mesh, work, stage) for stage in sorted(stages))
    return max(memories, key=lambda memory: memory.peak)
