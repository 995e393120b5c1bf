"""Strategies: how a network is divided among processes, and its gradients computed.

A mesh of processes has three axes. Along ``pp`` processes have different layers, along ``tp``
different parts of each matrix, and along ``dp`` different samples and, but for the strategy ddp,
different parts of what is left.
"""

import argparse
import contextlib
from collections.abc import Callable

import helpers
import torch
import torch.distributed as dist
import torch.nn.functional as F  # noqa: N812 - as everybody calls it
import transformer
from torch import nn
from torch.distributed.checkpoint.state_dict import StateDictOptions, set_model_state_dict
from torch.distributed.device_mesh import DeviceMesh
from torch.distributed.fsdp import MixedPrecisionPolicy, fully_shard
from torch.distributed.pipelining import PipelineStage, Schedule1F1B
from torch.distributed.tensor import DTensor, Replicate, Shard
from torch.distributed.tensor.parallel import (
    ColwiseParallel,
    PrepareModuleInput,
    RowwiseParallel,
    SequenceParallel,
    loss_parallel,
    parallelize_module,
)
from torch.nn.parallel import DistributedDataParallel

AXES = ("pp", "dp", "tp")
TIED = "embedding.weight"  # the matrix that the first and the last stage have in common

Losses = list[torch.Tensor]


def parallelize(network: nn.Module, mesh: DeviceMesh) -> None:
    """Divides each matrix among the processes of a mesh; between them sequences are divided.

    Source: https://arxiv.org/abs/1909.08053, https://arxiv.org/abs/2205.05198
    """
    gathered = PrepareModuleInput(input_layouts=Shard(1), desired_input_layouts=Replicate())
    block = {
        **dict.fromkeys(("attention_norm", "feed_norm"), SequenceParallel()),
        **dict.fromkeys(("attention", "feed"), gathered),
        **{f"attention.{name}": ColwiseParallel() for name in ("query", "key", "value")},
        **{f"feed.{name}": ColwiseParallel() for name in ("gate", "up")},
        "attention.out": RowwiseParallel(output_layouts=Shard(1)),
        "feed.down": RowwiseParallel(output_layouts=Shard(1)),
    }
    plan = {f"blocks.*.{name}": style for name, style in block.items()} | {
        "embedding": RowwiseParallel(input_layouts=Replicate(), output_layouts=Shard(1)),
        "norm": SequenceParallel(),
        "head": PrepareModuleInput(
            input_layouts=(Shard(1), None), desired_input_layouts=(Replicate(), None)
        ),
    }
    names = {name for name, _ in network.named_modules()}  # a stage has some of them
    plan = {
        name: style for name, style in plan.items() if name.startswith("blocks") or name in names
    }
    parallelize_module(network, mesh, plan)


def build(arguments: argparse.Namespace, mesh: DeviceMesh, device: torch.device) -> nn.Module:
    """Returns this process's part of the network, with its initial weights."""
    pp, dp, tp = (mesh[axis] for axis in AXES)
    with torch.device("meta"):  # nothing is allocated before it is divided
        network = transformer.LanguageModel(
            **arguments.shape._asdict(),
            stage=pp.get_local_rank(),
            stages=pp.size(),
            recompute=arguments.recompute,
        )
    if tp.size() > 1:
        parallelize(network, tp)
    if arguments.compile:
        for block in network.blocks.values():
            block.compile(dynamic=False)
    if arguments.strategy in ("fsdp", "hybrid") and dp.size() > 1:
        kind = torch.bfloat16 if arguments.bf16 else None
        precision = MixedPrecisionPolicy(param_dtype=kind, reduce_dtype=torch.float32)
        for part in (*network.blocks.values(), network):
            fully_shard(part, mesh=dp, mp_policy=precision)
    network.to_empty(device=device)
    set_weights(network, arguments.shape)
    if arguments.strategy == "ddp":
        return helpers.data_parallel(network, torch.zeros(1, 1, dtype=torch.int64, device=device))
    return network


def set_weights(network: nn.Module, shape: transformer.Shape) -> None:
    """Gives a network, or a part of one, the weights that training starts from."""
    weights = helpers.start_weights(shape._asdict(), network)
    layers, seed = shape.layers, helpers.seed()
    options = StateDictOptions(full_state_dict=True)
    # One after the other, for they may be large; of its own module, for the network has many.
    for prefix, module in network.named_modules():
        for name, value in module.named_parameters(recurse=False):
            called = f"{prefix}.{name}"
            values = (
                weights[called]
                if weights
                else transformer.initial(called, value.shape, layers, seed)
            )
            set_model_state_dict(module, {name: values}, options=options)


def loss_of(logits: torch.Tensor, targets: torch.Tensor, scale: float) -> torch.Tensor:
    """Returns the sum of the losses of all tokens, scaled."""
    logits = logits.flatten(0, 1).float()
    return (
        F.cross_entropy(logits, targets.flatten(), reduction="sum", ignore_index=helpers.NONE)
        * scale
    )


def accumulate(model: nn.Module, size: int) -> Callable[..., Losses]:
    """Returns what computes the gradients of a batch, so many samples at a time."""

    def compute(inputs: torch.Tensor, targets: torch.Tensor, scale: float) -> Losses:
        losses: Losses = []
        parts = list(zip(inputs.split(size), targets.split(size), strict=True))
        for number, (x, y) in enumerate(parts, 1):
            if isinstance(model, DistributedDataParallel):
                model.require_backward_grad_sync = number == len(parts)
            loss = loss_of(model(x), y, scale)
            loss.backward()
            losses.append(loss.detach())
        return losses

    return compute


def pipeline(
    network: nn.Module, mesh: DeviceMesh, device: torch.device, parts: int
) -> Callable[..., Losses]:
    """Returns what computes the gradients of a batch, in so many parts, through all stages."""
    rank, stages, group = mesh.get_local_rank(), mesh.size(), mesh.get_group()
    stage = PipelineStage(network, rank, stages, device, group=group)
    schedule = Schedule1F1B(stage, parts, loss_of, scale_grads=False)

    def compute(inputs: torch.Tensor, targets: torch.Tensor, scale: float) -> Losses:
        losses: Losses = []
        schedule.step(
            *([inputs] if stage.is_first else []),
            target=targets if stage.is_last else None,
            losses=losses,
            return_outputs=False,
            loss_kwargs={"scale": scale},
        )
        return losses

    return compute


def gradients(
    model: nn.Module, arguments: argparse.Namespace, mesh: DeviceMesh, device: torch.device
) -> Callable[[helpers.Batch], torch.Tensor]:
    """Returns what computes the gradients of a batch, and returns this process's share of its loss.

    The shares of all processes add up to the mean of all tokens of the batch.
    """
    pp, dp, tp = (mesh[axis] for axis in AXES)
    tied = None
    if pp.size() > 1:
        parts = arguments.batch_size // dp.size() // arguments.micro_batch
        compute = pipeline(model, pp, device, parts)
        ends = mesh.mesh[[0, -1]].flatten(1).T.tolist()
        tied, _ = dist.new_subgroups_by_enumeration(ends)
    else:
        compute = accumulate(model, arguments.micro_batch)
    divided = loss_parallel if tp.size() > 1 else contextlib.nullcontext

    def of_batch(batch: helpers.Batch) -> torch.Tensor:
        inputs, targets = batch.inputs.to(device), batch.targets.to(device)
        with torch.autocast(device.type, torch.bfloat16, enabled=arguments.bf16), divided():
            # Data parallelism takes the mean of what processes compute, for the sum of a batch.
            losses = compute(inputs, targets, dp.size() / batch.counted)
        if tied:
            sum_over_stages(model.get_parameter(TIED), tied)
        loss = sum(map(full_tensor, losses), torch.zeros((), device=device))
        return loss / (dp.size() * tp.size())

    return of_batch


def sum_over_stages(value: nn.Parameter, group: dist.ProcessGroup) -> None:
    """Adds up the gradients of a parameter that several stages have."""
    if isinstance(value.grad, DTensor):
        # It may be divided in another way than the parameter, and than in the other stage.
        value.grad = value.grad.redistribute(placements=value.placements)  # type: ignore[attr-defined]
        dist.all_reduce(value.grad.to_local(), group=group)
    elif value.grad is not None:
        dist.all_reduce(value.grad, group=group)


def full_tensor(value: torch.Tensor) -> torch.Tensor:
    """Returns all of a tensor that processes have parts of."""
    return value.full_tensor() if isinstance(value, DTensor) else value


def clip(model: nn.Module, limit: float, pp: DeviceMesh) -> None:
    """Scales all gradients, so that their norm over all processes is at most the limit."""
    counted = [
        value.grad
        for name, value in model.named_parameters()
        if value.grad is not None
        and (pp.get_local_rank() == 0 or name != TIED)  # the last stage's is the first one's
    ]
    norm = full_tensor(nn.utils.get_total_norm(counted))
    if pp.size() > 1:
        squares = norm**2
        dist.all_reduce(squares, group=pp.get_group())
        norm = squares.sqrt()
    nn.utils.clip_grads_with_norm_(model.parameters(), limit, norm)
