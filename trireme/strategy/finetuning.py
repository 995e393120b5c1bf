"""The memory that fine-tuning a language model needs on each device.

An adapter of LoRA has two matrices for each that it adapts, ``rank`` times as long as that is wide
and high: https://arxiv.org/abs/2106.09685. Nothing but these has gradients and optimizer states.
Of QLoRA a weight takes 4 bits, with a number of 32 bits for each 64 of them, and one matrix at a
time is there in 16: https://arxiv.org/abs/2305.14314, section 3; without double quantization. Its
adapter is in bfloat16, as TRL has it, any other in float32; so are its gradients, and AdamW's two
numbers of each.
"""

from dataclasses import dataclass, replace

from trireme.strategy.memory import Memory, Mesh, Recipe, Work, of_most, recipe
from trireme.strategy.model import Transformer

IN_4_BITS = 0.5 + 4 / 64
"""Bytes of a weight of QLoRA."""


@dataclass(frozen=True)
class FineTuning:
    """How a language model is fine-tuned.

    Attributes:
        adapter: lora, qlora or none.
        rank: Of the adapter's matrices.
        precision: bf16, or fp32 without a GPU.
        base: Bytes of a weight of the base model, as it is kept and loaded; 2 or 4.
        has_reference: Whether that is there once more, to stay near to; with an adapter it is the
            model without that.
    """

    adapter: str
    rank: int
    precision: str
    base: int = 2
    has_reference: bool = False


def adapter_parameters(model: Transformer, rank: int) -> int:
    """Returns the parameters of an adapter of all matrices in the blocks."""
    query, keys = model.width + model.query_width, model.width + model.kv_width
    feed = (3 if model.gated else 2) * (model.width + model.hidden)
    return model.layers * rank * (2 * query + 2 * keys + feed)


def memory(model: Transformer, how: FineTuning, mesh: Mesh, work: Work) -> Memory:
    """Returns what each process holds; activations are recomputed on GPUs."""
    work = work.recomputed() if how.precision == "bf16" else work
    if how.adapter == "none":
        trained_all = of_most(model, recipe(how.precision, "adamw", has_master=True), mesh, work)
        reference = 4 * model.parameters if how.has_reference else 0  # in float32, too
        return replace(
            trained_all,
            weights=trained_all.weights + reference,
            peak=trained_all.peak + reference,
        )
    size = 2 if how.precision == "bf16" else 4
    frozen = of_most(model, Recipe(size, 0, 0, size), mesh, work)
    parts = mesh.dp if mesh.sharded else 1
    trained = adapter_parameters(model, how.rank) / parts
    saved = 0.0
    if how.adapter == "qlora":
        matrix = model.width * model.hidden  # the largest, in 16 bits while it computes
        saved = model.layers * model.matrices * (size - IN_4_BITS) - matrix * size
    kept = model.parameters - (model.layers * model.matrices if how.adapter == "qlora" else 0)
    more = max(0, how.base - size) * kept / parts  # autocast keeps no copies of what is frozen
    number = 2 if how.adapter == "qlora" else 4
    buckets = number * trained if mesh.dp > 1 and not mesh.sharded else 0  # DDP's
    return replace(
        frozen,
        weights=frozen.weights - saved + more + number * trained,
        gradients=number * trained + buckets,
        optimizer=2 * number * trained,
        peak=frozen.peak - saved + more + 4 * number * trained + buckets,
    )
