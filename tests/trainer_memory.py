"""What the language model's trainer needs at most, in each process of a training, and predicted.

``measure`` starts this file with torchrun. The steps are the trainer's own, but for checkpoints,
which are copied to the memory of the machine, not of the device. On a GPU it is what PyTorch's
allocator has given to tensors, and reserved for them. On CPUs what is resident is what tensors
have, as malloc takes each from the kernel and gives it back at once: PyTorch's profiler misses what
is freed by the threads of gloo.
"""

import json
import os
import subprocess
import sys
from argparse import Namespace
from pathlib import Path
from typing import Any, NamedTuple

from trireme.strategy.memory import Mesh, Work, of_stage, recipe
from trireme.strategy.model import llama

TRAINER = Path(__file__).resolve().parents[1] / "trainers"
SMALL = "--layers 4 --width 64 --heads 4 --vocabulary 64"
KNOWN = ("strategy", "mesh", "shape", "batch_size", "micro_batch", "bf16", "recompute")


class Stage(NamedTuple):
    """The process of a pipeline stage that needs most: bytes, and those predicted.

    Attributes:
        measured: 0 where a GPU has less than is needed.
        reserved: What the allocator of a GPU had at most, with what it could not use.
    """

    case: str
    measured: int
    predicted: float
    reserved: int


def measure(processes: int, length: int, model: str, cases: list[str]) -> list[Stage]:
    """Returns what each stage needs in each case.

    Args:
        processes: How many there are.
        length: Tokens of a sample.
        model: Arguments of the trainer.
        cases: Further ones, each for a training of its own.
    """
    command = [sys.executable, "-m", "torch.distributed.run", "--standalone"]
    command += [f"--nproc-per-node={processes}", __file__, str(length), model, *cases]
    variables = {"OMP_NUM_THREADS": "1", "MALLOC_MMAP_THRESHOLD_": str(2**16)}
    done = subprocess.run(command, env=os.environ | variables, capture_output=True, text=True)
    if done.returncode:
        raise RuntimeError(done.stderr[-4000:])
    found = json.loads(done.stdout.strip().splitlines()[-1])
    return [
        Stage(case, max(each)[0], predicted(given, length, stage), max(each)[1])
        for case, (given, *taken) in zip(cases, found, strict=True)
        for stage, each in enumerate(by_stage(taken, given["mesh"][0]))
    ]


def by_stage(taken: list[list[int]], stages: int) -> list[list[list[int]]]:
    """Returns what processes have taken, of each stage together."""
    each = len(taken) // stages
    return [taken[start : start + each] for start in range(0, len(taken), each)]


def predicted(given: dict[str, Any], length: int, stage: int) -> float:
    """Returns what a stage needs with these arguments of the trainer."""
    pp, dp, tp = given["mesh"]
    mesh = Mesh(pp, dp, tp, sharded=given["strategy"] in ("fsdp", "hybrid") and dp > 1)
    samples = given["micro_batch"]
    work = Work(length, samples, given["batch_size"] // dp // samples, given["recompute"])
    kept = recipe("bf16" if given["bf16"] else "fp32", "adamw", has_master=True)
    return of_stage(llama(*given["shape"]), kept, mesh, work, stage).peak


def take_steps(arguments: Namespace, length: int, device: Any) -> None:
    """Takes two steps, the second of which finds the optimizer's state there."""
    import helpers
    import language_model
    import strategies
    import torch
    from torch.distributed.device_mesh import init_device_mesh

    mesh = init_device_mesh(device.type, arguments.mesh, mesh_dim_names=strategies.AXES)
    model = strategies.build(arguments, mesh, device)
    compute = strategies.gradients(model, arguments, mesh, device)
    optimizer = language_model.make_optimizer(model)
    shape = arguments.batch_size // mesh["dp"].size(), length
    for _ in range(2):
        tokens = torch.randint(arguments.shape.vocabulary, shape)
        compute(helpers.Batch(tokens, tokens, arguments.batch_size, arguments.batch_size * length))
        strategies.clip(model, arguments.clip, mesh["pp"])
        optimizer.step()
        optimizer.zero_grad()


def most(case: str, length: int, device: Any) -> tuple[dict[str, Any], tuple[int, int]]:
    """Returns the trainer's arguments, and how many bytes more it had and reserved than before.

    Of what does not fit on a GPU it had none.
    """
    import gc

    import options
    import torch.distributed as dist
    from torch import cuda

    gc.collect()
    sys.argv = ["language_model.py", *case.split()]
    arguments = options.parse("Train.")
    given = {name: getattr(arguments, name) for name in KNOWN}
    dist.barrier()
    if device.type == "cuda":
        cuda.empty_cache()
        cuda.reset_peak_memory_stats()
        before = cuda.memory_allocated(), cuda.memory_reserved()
        try:
            take_steps(arguments, length, device)
        except cuda.OutOfMemoryError:
            return given, (0, 0)
        after = cuda.max_memory_allocated(), cuda.max_memory_reserved()
        return given, (after[0] - before[0], after[1] - before[1])
    Path("/proc/self/clear_refs").write_text("5")  # the most starts anew from what is there
    resident_before = resident("VmRSS")
    take_steps(arguments, length, device)
    return given, (resident("VmHWM") - resident_before, 0)


def resident(which: str) -> int:
    """Returns the bytes of this process that are resident, or the most that were."""
    lines = Path("/proc/self/status").read_text().splitlines()
    (line,) = (each for each in lines if each.startswith(f"{which}:"))
    return int(line.split()[1]) * 1024


def main() -> None:
    """Measures in one of the processes; the first one prints what all have measured."""
    sys.path.insert(0, str(TRAINER))
    import helpers
    import torch.distributed as dist

    length, model, *cases = sys.argv[1:]
    device = helpers.join()
    for case in cases:  # loads what is loaded on first use
        most(f"{case} {model} {SMALL}", 8, device)
    found = [most(f"{case} {model}", int(length), device) for case in cases]
    everywhere: list[Any] = [None] * dist.get_world_size()
    dist.all_gather_object(everywhere, [taken for _, taken in found])
    if dist.get_rank() == 0:
        taken = zip(*everywhere, strict=True)
        print(json.dumps([[given, *all_] for (given, _), all_ in zip(found, taken, strict=True)]))
        sys.stdout.flush()
    dist.barrier()
    os._exit(0)  # gloo may hang while it is destroyed, see helpers.leave


if __name__ == "__main__":
    main()
