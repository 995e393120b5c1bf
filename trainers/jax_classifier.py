"""Train an image classifier with JAX on any number of processes.

An ordinary program, which needs JAX, NumPy, Pillow for pictures and MLflow to track metrics.
Copy along: {metrics,splits}.py
Run it as it is (``python jax_classifier.py``) or as every replica of a JAXJob. It reads

    DATA_DIR        train.npz with arrays x, float32 (samples, channels, height, width), and y
                    (samples), or another form of images that splits.py knows
    CHECKPOINT_DIR  a checkpoint after every epoch; training goes on from the last one
    MODEL_DIR       the trained model, the arrays of model.npz
    SEED            of weights and sample order, default 0
    COORDINATOR_ADDRESS, COORDINATOR_PORT, NUM_PROCESSES, PROCESS_ID
                    as the Kubeflow training operator sets them; none: one process
    MLFLOW_TRACKING_URI, MLFLOW_RUN_ID
                    the server and run that process 0 logs metrics to; no run: a new one; neither:
                    they stay in CHECKPOINT_DIR
    METRICS_PORT    where Prometheus finds those of process 0; none: nowhere

SIGTERM, as when a machine is reclaimed, makes it end its epoch, save a checkpoint and exit with
status 143. All processes have to see the same folders.
"""

import argparse
import os
import signal
import time
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import splits
from jax.experimental.multihost_utils import broadcast_one_to_all
from jax.sharding import Mesh, NamedSharding, PartitionSpec
from metrics import Metrics, until_sigterm

RECLAIMED = 128 + signal.SIGTERM  # exit status that the training operator takes for "try again"
Arrays = dict[str, Any]


def directory(name: str) -> Path:
    """Returns the folder that a variable such as DATA_DIR names; by default ``data`` here."""
    return Path(os.environ.get(name, name.split("_")[0].lower()))


def exit_error(why: str) -> SystemExit:
    """Returns what ends the program with status 2, having said why."""
    print(why, flush=True)
    return SystemExit(2)


def make_network(shape: tuple[int, ...], classes: int, width: int, seed: int) -> Arrays:
    """Returns the weights of a small convolutional network, for images of this shape."""
    channels, height, breadth = shape
    flat = 2 * width * (height // 2) * (breadth // 2)
    sizes = {
        "first": (width, channels, 3, 3),
        "second": (2 * width, width, 3, 3),
        "head": (flat, classes),
    }
    draw = np.random.default_rng(seed)
    weights: Arrays = {}
    for name, size in sizes.items():
        inputs = size[0] if name == "head" else int(np.prod(size[1:]))
        weights[name] = (draw.standard_normal(size) * (2 / inputs) ** 0.5).astype(np.float32)
        weights[f"{name}_bias"] = np.zeros(size[1] if name == "head" else size[0], np.float32)
    return weights


def apply(weights: Arrays, images: jax.Array) -> jax.Array:
    """Returns logits, (samples, classes), for images, (samples, channels, height, width)."""
    for name in ("first", "second"):
        images = jax.lax.conv(images, weights[name], (1, 1), "SAME")
        images = jax.nn.relu(images + weights[f"{name}_bias"][:, None, None])
    pooled = jax.lax.reduce_window(
        images, -jnp.inf, jax.lax.max, (1, 1, 2, 2), (1, 1, 2, 2), "VALID"
    )
    return pooled.reshape(len(images), -1) @ weights["head"] + weights["head_bias"]


def sums_of(weights: Arrays, images: jax.Array, labels: jax.Array) -> tuple[jax.Array, jax.Array]:
    """Returns the mean loss of a batch, and its sums: losses, hits, samples; -1 is no label."""
    logits, counted = apply(weights, images), labels >= 0
    losses = -jnp.take_along_axis(jax.nn.log_softmax(logits), labels[:, None], 1)[:, 0]
    hits = logits.argmax(1) == labels
    sums = jnp.stack([jnp.where(counted, values, 0).sum() for values in (losses, hits, counted)])
    return sums[0] / sums[2], sums


@jax.jit
def step(state: Arrays, images: jax.Array, labels: jax.Array, rate: jax.Array) -> Any:
    """Returns the state after a step of AdamW, https://arxiv.org/abs/1711.05101, and its sums."""
    gradients, sums = jax.grad(sums_of, has_aux=True)(state["weights"], images, labels)
    count = state["count"] + 1

    def mean(now: jax.Array, before: jax.Array, share: float) -> jax.Array:
        return share * before + (1 - share) * now

    first = jax.tree.map(lambda g, m: mean(g, m, 0.9), gradients, state["first"])
    second = jax.tree.map(lambda g, v: mean(g * g, v, 0.999), gradients, state["second"])

    def learned(weight: jax.Array, m: jax.Array, v: jax.Array) -> jax.Array:
        change = (m / (1 - 0.9**count)) / (jnp.sqrt(v / (1 - 0.999**count)) + 1e-8)
        return weight - rate * (change + 0.01 * weight)

    weights = jax.tree.map(learned, state["weights"], first, second)
    return {"weights": weights, "first": first, "second": second, "count": count}, sums


def save(arrays: Arrays, file: Path) -> None:
    """Writes a file that is whole whenever it is there, also after a crash."""
    file.parent.mkdir(parents=True, exist_ok=True)
    partial = file.with_name(f"partial-{file.name}")
    with partial.open("wb") as stream:
        np.savez(stream, **arrays)
        stream.flush()
        os.fsync(stream.fileno())
    partial.replace(file)


def flat(state: Arrays) -> Arrays:
    """Returns the arrays of a state by their paths."""
    leaves = jax.tree_util.tree_leaves_with_path(state)
    return {jax.tree_util.keystr(path): np.asarray(leaf) for path, leaf in leaves}


def train(arguments: argparse.Namespace) -> None:
    """Trains, leaving a checkpoint per epoch in CHECKPOINT_DIR and the model in MODEL_DIR."""
    rank, processes = jax.process_index(), jax.process_count()
    seed, checkpoint = int(os.environ.get("SEED", 0)), directory("CHECKPOINT_DIR") / "last.npz"
    x, y = splits.load(directory("DATA_DIR"), "train", exit_error)
    if why := splits.image_problem(x, y):
        raise exit_error(why)
    weights = make_network(x.shape[1:], int(y.max()) + 1, arguments.width, seed)
    zeros = jax.tree.map(np.zeros_like, weights)
    state = {"weights": weights, "first": zeros, "second": zeros, "count": np.zeros((), np.int32)}
    done = 0
    if rank == 0 and checkpoint.exists():
        with np.load(checkpoint) as saved:
            paths, form = jax.tree_util.tree_flatten_with_path(state)
            leaves = [saved[jax.tree_util.keystr(path)] for path, _ in paths]
            state, done = jax.tree_util.tree_unflatten(form, leaves), int(saved["done"])
    # What others see of the folder may be older, and all have to start from the same epoch.
    state, done = broadcast_one_to_all((state, done))
    done = int(done)
    metrics = Metrics(checkpoint.parent, checkpoint.name) if rank == 0 else None
    terminated = until_sigterm()
    if metrics and done:
        print(f"resuming after epoch {done}", flush=True)

    mesh = Mesh(np.array(jax.devices()), ("data",))
    parts, replicated = (
        NamedSharding(mesh, PartitionSpec("data")),
        NamedSharding(mesh, PartitionSpec()),
    )
    total = jax.jit(lambda values: values.sum(0), out_shardings=replicated)
    state = jax.device_put(state, replicated)
    # Each device of a process takes as many samples.
    size = arguments.batch_size * len(jax.local_devices())
    stop = False
    while done < arguments.epochs and not stop:
        started, sums = time.monotonic(), np.zeros(3)
        rate = arguments.learning_rate * (1 + np.cos(np.pi * done / arguments.epochs)) / 2
        order = np.random.default_rng([seed, done]).permutation(len(x))
        for start in range(0, len(x), size * processes):
            chosen = order[start + rank * size : min(start + (rank + 1) * size, len(x))]
            images, labels = np.zeros((size, *x.shape[1:]), np.float32), np.full(size, -1)
            images[: len(chosen)], labels[: len(chosen)] = x[chosen], y[chosen]
            batch = (
                jax.make_array_from_process_local_data(parts, array) for array in (images, labels)
            )
            state, counted = step(state, *batch, rate)
            sums += np.asarray(counted)
        done += 1
        flag = np.full((len(jax.local_devices()), 1), terminated.is_set())
        stop = bool(total(jax.make_array_from_process_local_data(parts, flag))[0])
        if metrics:
            figures = {"loss": sums[0] / sums[2], "accuracy": sums[1] / sums[2]}
            speed = len(x) / (time.monotonic() - started)
            metrics.log(done, **figures, samples_per_second=speed)
            summary = " ".join(f"{name} {value:.7g}" for name, value in figures.items())
            print(f"epoch {done}/{arguments.epochs} {summary} samples/s {speed:.0f}", flush=True)
            save(flat(state) | {"done": np.array(done)}, checkpoint)
    if metrics and done >= arguments.epochs:
        save(
            {name: np.asarray(array) for name, array in state["weights"].items()},
            directory("MODEL_DIR") / "model.npz",
        )
    if metrics:
        metrics.close()
    if done < arguments.epochs:
        print(f"stopped after epoch {done}; training can resume from there", flush=True)
        raise SystemExit(RECLAIMED)


def positive(text: str) -> int:
    """Returns a number of the command line."""
    if int(text) < 1:
        raise ValueError
    return int(text)


def main() -> None:
    """Reads the command line, joins the other processes and trains."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--epochs", type=positive, default=15)
    parser.add_argument("--batch-size", type=positive, default=32, help="samples per device")
    parser.add_argument("--learning-rate", type=float, default=2e-3)
    parser.add_argument("--width", type=positive, default=32, help="channels of the first layer")
    arguments = parser.parse_args()
    if int(os.environ.get("NUM_PROCESSES", 1)) > 1:
        jax.distributed.initialize(
            f"{os.environ['COORDINATOR_ADDRESS']}:{os.environ['COORDINATOR_PORT']}",
            int(os.environ["NUM_PROCESSES"]),
            int(os.environ["PROCESS_ID"]),
        )
    train(arguments)


if __name__ == "__main__":
    main()
