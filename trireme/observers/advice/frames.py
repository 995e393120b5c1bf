"""Kinds of work of a training's process, told by the functions that its main thread is in.

The rules are ``RULES``, one a line: the first that fits any function of a stack decides.
"""

import re
from collections.abc import Iterable, Sequence
from typing import NamedTuple

DATA, COMPUTE, COMMUNICATION, REST = KINDS = ("data", "compute", "communication", "rest")
"""What the time of a training goes to. Rest is all that no rule knows: most often lines of the
program itself, such as its logging, and what is waited for in them."""

STARTING = "starting"
"""Importing, tracing and compiling, which come before the steps that are measured."""

LOADER, LOADER_WAITS = "loader", "loader waits"
"""A process that loads data for another, and one that has nothing to load."""

NONE = "none"
"""A process that is no part of the training, such as a launcher."""


class Frame(NamedTuple):
    """A function, as py-spy names it, and its file."""

    function: str
    file: str


class _Rule(NamedTuple):
    kind: str
    file: str
    function: str = ".*"


RULES = (
    # What loads for others: a waiting one stands in the queue that tells it what to load.
    _Rule(LOADER, r"torch/utils/data/_utils/worker\.py", r"_worker_loop"),
    _Rule(NONE, r"multiprocessing/(resource_tracker|forkserver)\.py"),
    _Rule(NONE, r"torch/distributed/(run|launcher|elastic)"),
    _Rule(NONE, r"horovod/runner/"),
    # What happens once, though it may be called from a step: it would look like computing.
    _Rule(STARTING, r"importlib\._bootstrap"),
    _Rule(STARTING, r"torch/(nn|optim)/|keras/src/", r"(.*\.)?(__init__|reset_parameters|build)"),
    _Rule(STARTING, r"torch/_(dynamo|inductor|functorch)/", r".*(compile|convert_frame).*"),
    _Rule(STARTING, r"polymorphic_function/", r".*(trace|tracing|_initialize|maybe_define).*"),
    _Rule(STARTING, r"jax/_src/(interpreters/pxla|compiler|pjit)", r".*(compile|lower|trace).*"),
    _Rule(STARTING, r"torch/distributed/", r".*(init_process_group|init_device_mesh|rendezvous).*"),
    # Loaders of frameworks.
    _Rule(DATA, r"torch/utils/data/|torchdata/|torchvision/(datasets|io|transforms)/"),
    _Rule(DATA, r"tensorflow/python/data/|tensorflow_datasets/"),
    _Rule(DATA, r"keras/src/(trainers/data_adapters|utils/(image_dataset|py_dataset))"),
    _Rule(DATA, r"(lightning|pytorch_lightning)/.*(fetchers|combined_loader)"),
    _Rule(DATA, r"(webdataset|streaming/base|nvidia/dali|ffcv|petastorm)/"),
    # What programs load with themselves.
    _Rule(DATA, r"/?(datasets|pyarrow|h5py|fsspec|s3fs|zarr|boto3|botocore|PIL|imageio|cv2)/"),
    _Rule(DATA, r"numpy/lib/_?(npyio|format)|pandas/io/|scipy/io/|/?(zipfile|gzip|tarfile)\.py"),
    _Rule(DATA, r"transformers/(tokenization|image_processing|feature_extraction|data/)"),
    _Rule(DATA, r"helpers\.py", r"Samples\.batch"),  # Trireme's reference programs
    # Communication that is called by itself; that of DDP is inside of backward, see ``kind``.
    _Rule(COMMUNICATION, r"torch/distributed/(distributed_c10d|_functional_collectives|nn/)"),
    _Rule(COMMUNICATION, r"torch/distributed/", r"(.*\.)?(wait|wait_for_unshard|_wait_batch_p2p)"),
    _Rule(COMMUNICATION, r"torch/distributed/fsdp/.*(collectives|_unshard_utils)"),
    _Rule(COMMUNICATION, r"torch/nn/parallel/distributed", r".*(_sync|_broadcast).*"),
    _Rule(COMMUNICATION, r"(horovod/(torch|tensorflow)|deepspeed/comm|mpi4py|ray/util/collective)"),
    _Rule(COMMUNICATION, r"tensorflow/python/distribute/(cross_device|coordinator|collective)"),
    _Rule(COMMUNICATION, r"xgboost/collective|jax/experimental/multihost"),
    # Computing.
    _Rule(COMPUTE, r"torch/(autograd|_tensor|optim|nn|_ops|amp|_compile|utils/checkpoint)"),
    _Rule(COMPUTE, r"tensorflow/python/(eager|ops|keras)|keras/src/(ops|layers|optimizers)"),
    _Rule(COMPUTE, r"jax/_src|flax/|optax/|xgboost/(core|training)"),
)

# A thread in which TensorFlow has a generator of the program run.
_FEEDS = re.compile(r"tensorflow/python/(data/|ops/script_ops)")
# What processes exchange otherwise: histograms of trees, parts of a layer, batches of a pipeline.
_NO_GRADIENTS = re.compile(
    r"(xgboost|lightgbm)/|torch/distributed/(tensor/parallel|pipelining)/|"
    r"megatron/core/(tensor|pipeline)_parallel/"
)
_WAITING = re.compile(
    r"multiprocessing/(queues|connection|synchronize)|/?selectors\.py|/?queue\.py"
)
_COMPILED = tuple((rule.kind, re.compile(rule.file), re.compile(rule.function)) for rule in RULES)

# Threads that carry bytes from and to others, or load, by what they call themselves.
_CARRIES = re.compile(r"(pt_)?(gloo|nccl|tcpstore)|grpc|resolver|event_engine|tf_data|jemalloc|ucx")


class Thread(NamedTuple):
    """A native thread: its name, and whether it runs, or could if there were a processor."""

    number: int
    name: str
    runs: bool


def has_tf_data(stack: Sequence[Frame]) -> bool:
    """Tells whether TensorFlow reads the data of whoever is there."""
    return any("tensorflow/" in frame.file for frame in stack)


def exchanges_no_gradients(stack: Sequence[Frame]) -> bool:
    """Tells whether whoever is there exchanges something else with the other processes."""
    return any(_NO_GRADIENTS.search(frame.file) for frame in stack)


def kind_of(stack: Sequence[Frame]) -> str:
    """Returns what a stack is about, whatever thread it is of; the innermost function comes first.

    Rules are asked in their order, each for the whole stack: data that is loaded with what also
    computes is data.
    """
    for kind, file, function in _COMPILED:
        if any(file.search(frame.file) and function.fullmatch(frame.function) for frame in stack):
            if kind == LOADER and any(_WAITING.search(frame.file) for frame in stack[:4]):
                return LOADER_WAITS
            return kind
    return REST


def kind(
    stack: Sequence[Frame],
    runs: bool,
    others: Iterable[tuple[int, Sequence[Frame]]],
    threads: Iterable[Thread],
    *,
    has_peers: bool,
    has_gpu: bool,
) -> str:
    """Returns what a process does.

    In a step that is native code, such as ``backward`` or a function of TensorFlow, a main thread
    that sleeps while no other thread computes waits for what is not in sight: for the data that is
    being loaded in another thread, else for the other replicas. With a GPU it may wait for that,
    so there it counts as computing.

    Args:
        stack: Of its main thread.
        runs: Whether that runs, or could.
        others: The ids and stacks of its other Python threads.
        threads: Its native threads, the main one left out.
        has_peers: Whether several processes train.
        has_gpu: Whether it uses a GPU.
    """
    activity = kind_of(stack)
    if activity != COMPUTE or runs:
        return activity
    loading = {
        number for number, other in others if any(_FEEDS.search(frame.file) for frame in other)
    }
    computes = any(
        thread.runs and thread.number not in loading and not _CARRIES.match(thread.name)
        for thread in threads
    )
    if computes:
        return COMPUTE
    if loading or any(thread.runs and thread.name.startswith("tf_data") for thread in threads):
        return DATA
    return COMMUNICATION if has_peers and not has_gpu else COMPUTE
