"""An all-reduce of several sizes by the job's own library, in a process of its own.

It prints a line of JSON when it has loaded the library, waits for one on its standard input until
all replicas have, and prints another when it has joined the others and after each size. Then it
waits to be killed.
"""

from __future__ import annotations

import json
import os
import sys
import time
from typing import Any, Callable, Mapping

Run = Callable[[int], Callable[[], Any]]
"""Returns what reduces so many numbers once."""

SOURCE = ""
"""The text of this module, where it is known."""


def main(job: Mapping[str, Any]) -> None:
    """Takes part as one of the replicas."""
    load = {"torch": _torch, "tensorflow": _tensorflow, "mpi4py": _mpi}[job["library"]]
    versions, join = load(job)
    _tell({"versions": versions})
    plan = json.loads(sys.stdin.readline())
    run = join()
    _tell({"joined": True})
    for size, times in plan["sizes"]:
        reduce = run(size // 4)
        reduce()  # what is only done once is not measured
        began = time.perf_counter()
        for _ in range(times):
            reduce()
        _tell({"size": size, "seconds": (time.perf_counter() - began) / times})
    sys.stdin.readline()  # ends with whoever started this: another may still be receiving
    os._exit(0)  # what libraries do at their end takes time, and may hang


def _tell(content: Mapping[str, Any]) -> None:
    print(json.dumps(content), flush=True)


def _torch(job: Mapping[str, Any]) -> tuple[dict[str, str], Callable[[], Run]]:
    import torch
    import torch.distributed as distributed

    has_gpu = torch.cuda.is_available()
    versions = {}
    if has_gpu:
        nccl = torch.cuda.nccl.version()
        versions["NCCL"] = ".".join(map(str, nccl if isinstance(nccl, tuple) else (nccl,)))
        versions["CUDA"] = str(torch.version.cuda)
        versions["GPUs"] = f"{torch.cuda.device_count()} {torch.cuda.get_device_name()}"

    def join() -> Run:
        distributed.init_process_group(
            "nccl" if has_gpu else "gloo",
            init_method=f"tcp://{job['address']}:{job['port']}",
            rank=job["rank"],
            world_size=job["size"],
        )

        def of(count: int) -> Callable[[], Any]:
            tensor = torch.ones(count, device="cuda" if has_gpu else "cpu")

            def reduce() -> None:
                distributed.all_reduce(tensor)
                if has_gpu:
                    torch.cuda.synchronize()

            return reduce

        return of

    return versions, join


def _tensorflow(job: Mapping[str, Any]) -> tuple[dict[str, str], Callable[[], Run]]:
    import tensorflow as tf

    def join() -> Run:
        options = tf.distribute.experimental
        ring = options.CommunicationOptions(implementation=options.CommunicationImplementation.RING)
        strategy = tf.distribute.MultiWorkerMirroredStrategy(communication_options=ring)

        def of(count: int) -> Callable[[], Any]:
            def summed() -> Any:
                context = tf.distribute.get_replica_context()
                return tf.reduce_sum(context.all_reduce("SUM", tf.ones(count)))

            return tf.function(lambda: strategy.run(summed))

        return of

    return {}, join


def _mpi(job: Mapping[str, Any]) -> tuple[dict[str, str], Callable[[], Run]]:
    from mpi4py import MPI

    versions = {"MPI": MPI.Get_library_version().split(",")[0].strip("\0 \n")}

    def join() -> Run:
        def of(count: int) -> Callable[[], Any]:
            sent, summed = bytearray(4 * count), bytearray(4 * count)
            return lambda: MPI.COMM_WORLD.Allreduce([sent, MPI.FLOAT], [summed, MPI.FLOAT])

        return of

    return versions, join


if __name__ == "__main__":
    main(json.loads(sys.argv[1]))
