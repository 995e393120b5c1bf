"""Train an image classifier with TensorFlow on any number of processes.

An ordinary program: it needs TensorFlow, NumPy and, to track metrics, MLflow. Run it as it is
(``python classifier.py``) or as every replica of a TFJob. It reads

    DATA_DIR        train.npz with arrays x (samples, channels, height, width) and y (samples)
    CHECKPOINT_DIR  a checkpoint after every epoch; training goes on from the last one
    MODEL_DIR       the trained model, a SavedModel in the folder model
    SEED            of weights and sample order, default 0
    WARM_START_DIR  where it is set: the model to start from, as left in MODEL_DIR
    TF_CONFIG       as the Kubeflow training operator sets it; none: one process
    MLFLOW_TRACKING_URI, MLFLOW_RUN_ID
                    the run that the chief logs metrics to; none: metrics are only printed

The three folders have to be the same for all replicas, parameter servers included.
"""

import argparse
import json
import math
import os
import shutil
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import tensorflow as tf

STRATEGIES = ("parameter_server", "multi_worker", "mirrored", "single")
COMMUNICATION = tf.distribute.experimental.CommunicationImplementation
CROSS_DEVICE_OPS = {
    "nccl": tf.distribute.NcclAllReduce,
    "hierarchical_copy": tf.distribute.HierarchicalCopyAllReduce,
    "reduction_to_one_device": tf.distribute.ReductionToOneDevice,
}


class Metrics:
    """Sends metrics to the MLflow run of the environment, from a thread: training never waits.

    What the server does not take is sent again, at the end too for ``patience`` seconds; what is
    still left then is written to a file.
    """

    def __init__(self, unsent: Path, patience: float = 120.0) -> None:
        self.unsent, self.patience, self.give_up = unsent, patience, float("inf")
        self.waiting: list[tuple[str, float, int, int]] = []
        self.closed = threading.Event()
        self.thread = threading.Thread(target=self._send, daemon=True)
        if os.environ.get("MLFLOW_RUN_ID"):
            self.thread.start()

    def log(self, step: int, **values: float) -> None:
        """Takes the values of one step; returns at once."""
        now = int(time.time() * 1000)
        self.waiting += [(name, value, now, step) for name, value in values.items()]

    def close(self) -> None:
        """Waits until everything is sent, or kept in the file."""
        self.give_up = time.monotonic() + self.patience
        self.closed.set()
        if self.thread.ident:
            self.thread.join()

    def _send(self) -> None:
        # Our own loop tries again; MLflow's retries would hold up the end of a cancelled run.
        os.environ.setdefault("MLFLOW_HTTP_REQUEST_MAX_RETRIES", "1")
        from mlflow import MlflowClient
        from mlflow.entities import Metric

        away = False
        while not self.closed.wait(0 if self.waiting else 1) or self.waiting:
            batch = [Metric(*values) for values in self.waiting[:1000]]
            try:
                if batch:
                    MlflowClient().log_batch(os.environ["MLFLOW_RUN_ID"], metrics=batch)
                del self.waiting[: len(batch)]
                away = False
            except Exception as error:
                if not away:  # without the message, which can hold a password of the server's URL
                    print(f"metrics wait for MLflow: {type(error).__name__}", flush=True)
                away = True
                if time.monotonic() > self.give_up:
                    self.unsent.write_text(json.dumps(self.waiting))
                    print(f"metrics that MLflow never took are in {self.unsent}", flush=True)
                    return
                time.sleep(5)


def build(shape: tuple[int, ...], classes: int, width: int) -> tf.keras.Model:
    """Returns a small network that maps images (channels, height, width) to logits."""
    layers = tf.keras.layers
    return tf.keras.Sequential(
        [
            tf.keras.Input(shape),
            layers.Permute((2, 3, 1)),  # convolutions on CPUs want the channels last
            layers.Conv2D(width, 3, padding="same", activation="relu"),
            layers.Conv2D(2 * width, 3, padding="same", activation="relu"),
            layers.MaxPooling2D(2),
            layers.Flatten(),
            layers.Dense(classes),
        ]
    )


def batches(
    images: np.ndarray, labels: np.ndarray, size: int, seed: list[int]
) -> Iterator[tuple[np.ndarray, ...]]:
    """Yields images, labels and the samples' weights in the loss; every sample comes once.

    The last batch is filled up to the same size with samples of no weight.
    """
    order = np.random.default_rng(seed).permutation(len(images))
    for start in range(0, len(order), size):
        taken = order[start : start + size]
        weights = np.zeros(size, np.float32)
        weights[: len(taken)] = 1 / len(taken)
        index = np.resize(taken, size)
        yield images[index], labels[index], weights


def choose(name: str | None, cluster: dict[str, list[str]]) -> str:
    """Returns the strategy that was asked for, or what suits the cluster of TF_CONFIG."""
    workers = len(cluster.get("chief", []) + cluster.get("worker", []))
    name = name or ("parameter_server" if "ps" in cluster else "multi_worker")
    if name == "parameter_server" and not {"chief", "ps", "worker"} <= set(cluster):
        raise SystemExit(
            "parameter_server needs a chief, which drives the training, a ps and a worker; "
            f"TF_CONFIG has {', '.join(cluster) or 'none of them'}"
        )
    if name != "parameter_server" and "ps" in cluster:
        raise SystemExit(f"{name} has no use for the ps in TF_CONFIG; it is for parameter_server")
    if name in ("mirrored", "single") and workers > 1:
        raise SystemExit(f"{name}: each of the {workers} replicas in TF_CONFIG would train alone")
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
        operations = CROSS_DEVICE_OPS[reduction]() if reduction else None
        return tf.distribute.MirroredStrategy(devices, operations)
    return tf.distribute.OneDeviceStrategy("GPU:0" if gpu else "CPU:0")


def make_step(
    strategy: tf.distribute.Strategy, network: tf.keras.Model, optimizer: tf.keras.Optimizer
) -> Callable[..., tf.Tensor]:
    """Returns a function that trains on a batch, each replica on its share of it.

    It returns the sum of the losses, the samples classified right, and all samples.
    """

    def replica_step(*batch: tf.Tensor) -> tf.Tensor:
        replica = tf.distribute.get_replica_context()
        share = batch[0].shape[0] // replica.num_replicas_in_sync
        first = replica.replica_id_in_sync_group * share
        with tf.device("CPU:0"):  # so that only the share goes to a GPU
            images, labels, weights = (values[first : first + share] for values in batch)
        with tf.GradientTape() as tape:
            logits = network(images, training=True)
            losses = tf.nn.sparse_softmax_cross_entropy_with_logits(labels, logits)
            # Gradients are summed over the replicas; the weights make that the batch's mean.
            loss = tf.reduce_sum(weights * losses)
        gradients = tape.gradient(loss, network.trainable_variables)
        optimizer.apply_gradients(zip(gradients, network.trainable_variables, strict=True))
        counted = tf.sign(weights)
        hits = tf.cast(tf.argmax(logits, 1) == labels, tf.float32)
        return tf.stack([tf.reduce_sum(counted * value) for value in (losses, hits, counted)])

    @tf.function
    def step(*batch: tf.Tensor) -> tf.Tensor:
        return strategy.reduce("SUM", strategy.run(replica_step, args=batch), axis=None)

    return step


def train(arguments: argparse.Namespace, strategy: tf.distribute.Strategy, chief: bool) -> None:
    """Trains, leaving a checkpoint per epoch in CHECKPOINT_DIR and the model in MODEL_DIR."""
    seed = int(os.environ.get("SEED", 0))
    data, checkpoints, models = (
        Path(os.environ.get(name, name.split("_")[0].lower()))
        for name in ("DATA_DIR", "CHECKPOINT_DIR", "MODEL_DIR")
    )
    with np.load(data / "train.npz") as arrays:
        images, labels = arrays["x"], arrays["y"]
    shape = images.shape[1:], int(labels.max()) + 1, arguments.width
    size = arguments.batch_size * strategy.num_replicas_in_sync

    tf.keras.utils.set_random_seed(seed)
    with strategy.scope():
        network = build(*shape)
        if "WARM_START_DIR" in os.environ:
            start = tf.saved_model.load(Path(os.environ["WARM_START_DIR"], "model"))
            network.set_weights([variable.numpy() for variable in start.variables])
        optimizer = tf.keras.optimizers.AdamW(arguments.learning_rate, weight_decay=0.01)
        optimizer.build(network.trainable_variables)
    step = make_step(strategy, network, optimizer)
    coordinator = None
    if isinstance(strategy, tf.distribute.ParameterServerStrategy):
        coordinator = tf.distribute.coordinator.ClusterCoordinator(strategy)

    done = tf.Variable(0, dtype=tf.int64)
    state = tf.train.Checkpoint(network=network, optimizer=optimizer, done=done)
    # All workers have to take part in writing a checkpoint; only the chief's is kept.
    scratch = tempfile.TemporaryDirectory()
    directory = str(checkpoints) if chief else scratch.name
    manager = tf.train.CheckpointManager(state, directory, max_to_keep=2)
    last = tf.train.latest_checkpoint(str(checkpoints))
    if last:
        state.restore(last).assert_consumed()
        if chief:
            print(f"going on after epoch {done.numpy()}", flush=True)

    metrics = Metrics(checkpoints / "metrics-unsent.json") if chief else None
    for epoch in range(done.numpy(), arguments.epochs):
        started = time.monotonic()
        # By epochs and not by steps: training may go on with another number of replicas.
        decay = (1 + math.cos(math.pi * epoch / arguments.epochs)) / 2
        optimizer.learning_rate = arguments.learning_rate * decay
        order = batches(images, labels, size, [seed, epoch])  # another one every epoch
        if coordinator:
            # Whatever worker is free takes the next batch; a lost worker's goes to another.
            totals = [coordinator.schedule(step, args=batch) for batch in order]
            coordinator.join()
            totals = coordinator.fetch(totals)
        else:
            totals = [step(*batch) for batch in order]
        loss, hits, samples = np.sum(totals, axis=0)
        rate = samples / (time.monotonic() - started)
        done.assign(epoch + 1)
        manager.save()
        if metrics:
            loss, accuracy = float(loss / samples), float(hits / samples)
            metrics.log(epoch + 1, loss=loss, accuracy=accuracy, samples_per_second=float(rate))
            line = f"epoch {epoch + 1}/{arguments.epochs} loss {loss:.4f} accuracy {accuracy:.4f}"
            print(f"{line} samples/s {rate:.0f}", flush=True)

    weights = network.get_weights()
    if metrics:
        # A network of its own, so that nothing of the strategy gets into the file.
        result = build(*shape)
        result.set_weights(weights)
        partial = models / "model.partial"
        result.export(partial, verbose=False)
        shutil.rmtree(models / "model", ignore_errors=True)
        partial.rename(models / "model")
        metrics.close()


def main() -> None:
    """Reads the command line and trains, or serves the chief that does."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--epochs", type=int, default=15)
    parser.add_argument("--batch-size", type=int, default=32, help="samples per replica")
    parser.add_argument("--learning-rate", type=float, default=2e-3)
    parser.add_argument("--width", type=int, default=32, help="channels of the first layer")
    parser.add_argument("--strategy", choices=STRATEGIES, help="default: what suits TF_CONFIG")
    parser.add_argument("--communication", choices=["auto", "ring", "nccl"], default="auto")
    parser.add_argument("--cross-device-ops", choices=CROSS_DEVICE_OPS, help="of mirrored")
    parser.add_argument("--devices", nargs="+", help="of mirrored, as GPU:0; default: all")
    arguments = parser.parse_args()

    config = json.loads(os.environ.get("TF_CONFIG") or "{}")
    cluster, task = config.get("cluster", {}), config.get("task", {})
    role, index = task.get("type", "chief"), int(task.get("index", 0))
    if role == "evaluator":
        raise SystemExit("this program has no part for an evaluator; leave that role out")
    name = choose(arguments.strategy, cluster)
    if name == "parameter_server":
        # With fewer threads a server can wait for itself for ever, see
        # https://www.tensorflow.org/tutorials/distribute/parameter_server_training
        least = len(cluster["worker"]) + 1
        threads = int(os.environ.get("TF_NUM_INTEROP_THREADS") or os.cpu_count() or 1)
        os.environ["TF_NUM_INTEROP_THREADS"] = str(max(threads, least))
    if name == "parameter_server" and role != "chief":
        os.environ["GRPC_FAIL_FAST"] = "use_caller"  # a lost worker is an error, not a wait
        tf.distribute.Server(cluster, role, index, protocol="grpc").join()
    chief = role == "chief" or ("chief" not in cluster and index == 0)
    tf.get_logger().setLevel("ERROR")  # CheckpointManager warns of its own retracing
    try:
        train(arguments, make_strategy(name, arguments), chief)
    except (tf.errors.UnavailableError, tf.errors.AbortedError) as error:
        # With the restart policy ExitCode the operator starts it again on 128 and more.
        reason = " ".join(error.message.split())
        print(f"another replica was lost: {reason[-400:]}", flush=True)
        raise SystemExit(138) from None


if __name__ == "__main__":
    main()
