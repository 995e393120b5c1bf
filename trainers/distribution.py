"""The distribution of a training: devices, samples and peers; to be copied along."""

import argparse
import json
import logging
import os
import threading
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NoReturn

import numpy as np
import splits
import tensorflow as tf

STRATEGIES = ("parameter_server", "multi_worker", "mirrored", "single")
COMMUNICATION = tf.distribute.experimental.CommunicationImplementation
CROSS_DEVICE_OPS = {
    "nccl": tf.distribute.NcclAllReduce,
    "hierarchical_copy": tf.distribute.HierarchicalCopyAllReduce,
    "reduction_to_one_device": tf.distribute.ReductionToOneDevice,
}
AHEAD = 4  # batches that are under way for each worker of a parameter server


class InvalidRequest(Exception):
    """What the program is asked to do cannot be done; one sentence says why."""


@dataclass(frozen=True)
class Place:
    """This replica's role and index in the cluster of a job; alone it is the chief."""

    cluster: dict[str, list[str]]
    role: str
    index: int

    @classmethod
    def of_environment(cls) -> "Place":
        """Returns what TF_CONFIG says."""
        config = json.loads(os.environ.get("TF_CONFIG") or "{}")
        task = config.get("task", {})
        return cls(config.get("cluster", {}), task.get("type", "chief"), int(task.get("index", 0)))

    @property
    def is_leader(self) -> bool:
        """Whether it is the one that speaks for all."""
        return self.role == "chief" or ("chief" not in self.cluster and self.index == 0)


def add_options(parser: argparse.ArgumentParser) -> None:
    """Adds what ``choose`` and ``make_strategy`` go by to a command line."""
    parser.add_argument("--strategy", choices=STRATEGIES, help="default: what suits TF_CONFIG")
    parser.add_argument("--communication", choices=["auto", "ring", "nccl"], default="auto")
    parser.add_argument("--cross-device-ops", choices=CROSS_DEVICE_OPS, help="of mirrored")
    parser.add_argument("--devices", nargs="+", help="of mirrored, as GPU:0; default: all")


def choose(name: str | None, cluster: dict[str, list[str]]) -> str:
    """Returns the strategy that was asked for, or what suits the cluster of TF_CONFIG."""
    workers = len(cluster.get("chief", []) + cluster.get("worker", []))
    name = name or ("parameter_server" if "ps" in cluster else "multi_worker")
    if name == "parameter_server" and not {"chief", "ps", "worker"} <= set(cluster):
        raise InvalidRequest(
            "parameter_server needs a chief, which drives the training, a ps and a worker; "
            f"TF_CONFIG has {', '.join(cluster) or 'none of them'}"
        )
    if name != "parameter_server" and "ps" in cluster:
        raise InvalidRequest(f"{name} does not use the ps in TF_CONFIG; parameter_server does")
    if name in ("mirrored", "single") and workers > 1:
        raise InvalidRequest(
            f"{name}: each of the {workers} replicas in TF_CONFIG would train alone"
        )
    return "mirrored" if name == "multi_worker" and workers < 2 else name


def make_strategy(name: str, arguments: argparse.Namespace) -> tf.distribute.Strategy:
    """Returns a strategy on the devices that there are; what needs a GPU falls back to the CPU."""
    gpu = bool(tf.config.list_physical_devices("GPU"))
    communication, reduction = arguments.communication, arguments.cross_device_ops
    devices = arguments.devices
    if not gpu and "nccl" in (communication, reduction):
        communication, reduction = "ring", "reduction_to_one_device"
        print(f"no GPU: {communication} and {reduction} instead of nccl", flush=True)
    if not gpu and any("GPU" in device.upper() for device in devices or []):
        print(f"no GPU: the CPU instead of {', '.join(devices)}", flush=True)
        devices = None
    if name == "parameter_server":
        resolver = tf.distribute.cluster_resolver.TFConfigClusterResolver()
        return tf.distribute.ParameterServerStrategy(resolver)
    if name == "multi_worker":
        implementation = COMMUNICATION[communication.upper()]
        options = tf.distribute.experimental.CommunicationOptions(implementation=implementation)
        return tf.distribute.MultiWorkerMirroredStrategy(communication_options=options)
    if name == "mirrored":
        names = [device.name.split(":", 1)[1] for device in tf.config.list_logical_devices()]
        for device in devices or []:
            kind, _, number = device.upper().rpartition("DEVICE:")[2].strip("/").partition(":")
            if f"{kind}:{number or 0}" not in names:
                raise InvalidRequest(f"there is no device {device}; there are {', '.join(names)}")
        operations = CROSS_DEVICE_OPS[reduction]() if reduction else None
        return tf.distribute.MirroredStrategy(devices, operations)
    return tf.distribute.OneDeviceStrategy("GPU:0" if gpu else "CPU:0")


def set_threads(workers: int) -> None:
    """Gives a replica of a parameter-server job enough threads."""
    # With fewer a server can wait for itself for ever:
    # https://www.tensorflow.org/tutorials/distribute/parameter_server_training
    threads = int(os.environ.get("TF_NUM_INTEROP_THREADS") or os.cpu_count() or 1)
    os.environ["TF_NUM_INTEROP_THREADS"] = str(max(threads, workers + 1))


def without_batch(record: logging.LogRecord) -> bool:
    """Takes off what TensorFlow logs of a lost worker the whole batch that it was to work on."""
    record.msg, record.args = record.getMessage().partition(" Received args: ")[0], None
    return True


def serve(place: Place) -> NoReturn:
    """Serves the chief, as a worker or a parameter server, until it is stopped."""
    os.environ["GRPC_FAIL_FAST"] = "use_caller"  # a lost worker is an error, not a wait
    tf.distribute.Server(place.cluster, place.role, place.index, protocol="grpc").join()
    raise AssertionError("a server ends by a signal only")


def load(data: Path) -> tuple[Any, np.ndarray]:
    """Returns the images and labels to train on."""
    images, labels = splits.load(data, "train", InvalidRequest)
    if why := splits.image_problem(images, labels):
        raise InvalidRequest(why)
    return images, labels.astype(np.int64)


def batches(
    images: Any, labels: np.ndarray, size: int, seed: list[int], seen: int = 0
) -> Iterator[tuple[np.ndarray, ...]]:
    """Yields images, labels and the samples' weights in the loss; every sample comes once.

    The last batch is filled up to the same size with samples of no weight.

    Args:
        images: Of all samples.
        labels: Of all samples.
        size: Samples in a batch, of all replicas.
        seed: Of the order.
        seen: How many samples of this order have been trained on already.
    """
    order = np.random.default_rng(seed).permutation(len(images))
    for start in range(seen, len(order), size):
        chosen = order[start : start + size]
        weights = np.zeros(size, np.float32)
        weights[: len(chosen)] = 1 / len(chosen)
        index = np.resize(chosen, size)
        yield images[index], labels[index], weights


def results(
    strategy: tf.distribute.Strategy,
    step: Callable[..., tf.Tensor],
    order: Iterable[tuple[np.ndarray, ...]],
    leaving: threading.Event,
) -> Iterator[np.ndarray]:
    """Yields what a step returns, batch by batch, until one of the replicas is to leave.

    With parameter servers whatever worker is free takes the next batch, and a lost worker's goes to
    another.

    Args:
        strategy: The strategy.
        step: Takes the arrays of a batch, and 1 where this replica is to leave, else 0; the last
            that it returns is the sum of these.
        order: The batches of an epoch.
        leaving: Whether this replica is to leave.
    """
    start, fetch, limit = step, np.asarray, 0
    if isinstance(strategy, tf.distribute.ParameterServerStrategy):
        coordinator = tf.distribute.coordinator.ClusterCoordinator(strategy)
        start, fetch = lambda *batch: coordinator.schedule(step, args=batch), coordinator.fetch
        limit = AHEAD * len(Place.of_environment().cluster["worker"])
    under_way: deque[Any] = deque()
    for batch in order:
        under_way.append(start(*batch, np.array(leaving.is_set(), np.float32)))
        if len(under_way) > limit:
            result = fetch(under_way.popleft())
            yield result
            if result[-1] > 0:
                break
    yield from map(fetch, under_way)
