"""Train an image classifier with TensorFlow on any number of processes.

An ordinary program, which needs TensorFlow, NumPy, Pillow for pictures and MLflow to track metrics.
Copy along: {distribution,metrics,splits}.py
Run it as it is (``python tensorflow_classifier.py``) or as every replica of a TFJob. It reads

    DATA_DIR        train.npz with arrays x, float32 (samples, channels, height, width), and y
                    (samples), or another form of images that splits.py knows
    CHECKPOINT_DIR  a checkpoint after every epoch; training goes on from the last one
    MODEL_DIR       the trained model, a SavedModel in the folder model
    SEED            of weights and sample order, default 0
    WARM_START_DIR  where it is set: the model to start from, as left in MODEL_DIR
    TF_CONFIG       as the Kubeflow training operator sets it; none: one process
    MLFLOW_TRACKING_URI, MLFLOW_RUN_ID
                    the server and run that the chief logs metrics to; no run: a new one; neither:
                    they stay in CHECKPOINT_DIR
    METRICS_PORT    where Prometheus finds those of the chief; none: nowhere

The three folders have to be the same for all replicas, parameter servers included. The strategies:

    parameter_server  each worker on a batch of its own, with variables that servers have
    multi_worker      all workers on each batch, with the same variables (AllReduce)
    mirrored          all GPUs of one machine on each batch, likewise
    single            one device

SIGTERM, as when a machine is reclaimed, makes it save a checkpoint and exit with status 143.
"""

import argparse
import math
import os
import shutil
import signal
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import distribution
import numpy as np
import tensorflow as tf
from metrics import Metrics, until_sigterm

# Exit statuses of 128 and more: with the restart policy ExitCode the operator starts it again.
RECLAIMED, LOST = 128 + signal.SIGTERM, 138


def directory(name: str) -> Path:
    """Returns the folder that a variable such as DATA_DIR names; by default ``data`` here."""
    return Path(os.environ.get(name, name.split("_")[0].lower()))


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


def make_step(
    strategy: tf.distribute.Strategy, network: tf.keras.Model, optimizer: tf.keras.Optimizer
) -> Callable[..., tf.Tensor]:
    """Returns a function that trains on a batch, each replica on its share of it.

    It returns the sum of the losses, the samples classified right, all samples, and how many
    replicas have said that they are to leave.
    """

    def replica_step(*batch: tf.Tensor) -> tf.Tensor:
        *samples, leaving = batch
        replica = tf.distribute.get_replica_context()
        share = samples[0].shape[0] // replica.num_replicas_in_sync
        first = replica.replica_id_in_sync_group * share
        with tf.device("CPU:0"):  # so that only the share goes to a GPU
            images, labels, weights = (values[first : first + share] for values in samples)
        with tf.GradientTape() as tape:
            logits = network(images, training=True)
            losses = tf.nn.sparse_softmax_cross_entropy_with_logits(labels, logits)
            # Gradients are summed over the replicas; the weights make that the batch's mean.
            loss = tf.reduce_sum(weights * losses)
        gradients = tape.gradient(loss, network.trainable_variables)
        optimizer.apply_gradients(zip(gradients, network.trainable_variables, strict=True))
        counted = tf.sign(weights)
        hits = tf.cast(tf.argmax(logits, 1) == labels, tf.float32)
        sums = [tf.reduce_sum(counted * value) for value in (losses, hits, counted)]
        return tf.stack([*sums, leaving])

    @tf.function(autograph=False)
    def step(*batch: tf.Tensor) -> tf.Tensor:
        return strategy.reduce("SUM", strategy.run(replica_step, args=batch), axis=None)

    return step


def train(
    arguments: argparse.Namespace, strategy: tf.distribute.Strategy, metrics: Metrics | None
) -> None:
    """Trains, leaving a checkpoint per epoch in CHECKPOINT_DIR and the model in MODEL_DIR."""
    terminated = until_sigterm()
    seed = int(os.environ.get("SEED", 0))
    images, labels = distribution.load(directory("DATA_DIR"))
    shape = images.shape[1:], int(labels.max()) + 1, arguments.width
    size = arguments.batch_size * strategy.num_replicas_in_sync

    tf.keras.utils.set_random_seed(seed)
    with strategy.scope():
        network = build(*shape)
        if "WARM_START_DIR" in os.environ:
            start = Path(os.environ["WARM_START_DIR"], "model")
            try:
                variables = tf.saved_model.load(start).variables
                network.set_weights([variable.numpy() for variable in variables])
            except (OSError, ValueError) as error:
                why = str(error).partition("\n")[0]
                raise distribution.InvalidRequest(
                    f"training cannot start from {start}: {why}"
                ) from None
        optimizer = tf.keras.optimizers.AdamW(arguments.learning_rate, weight_decay=0.01)
        optimizer.build(network.trainable_variables)
    step = make_step(strategy, network, optimizer)

    # How far training is: the epochs that are done, and loss, hits and samples of the next one.
    done, sums = tf.Variable(0, dtype=tf.int64), tf.Variable(np.zeros(3))
    state = tf.train.Checkpoint(network=network, optimizer=optimizer, done=done, sums=sums)
    # All workers have to take part in writing a checkpoint; only that of one is kept.
    scratch, checkpoints = tempfile.TemporaryDirectory(), str(directory("CHECKPOINT_DIR"))
    manager = tf.train.CheckpointManager(state, checkpoints if metrics else scratch.name, 2)
    last = tf.train.latest_checkpoint(checkpoints)
    # What others see of the folder may be older, and all have to start from the same checkpoint.
    with strategy.scope():  # where a variable begins with the value of the first worker
        chosen = tf.Variable(int(last.rpartition("-")[2]) if last else 0, dtype=tf.int64)
    if number := int(chosen.numpy()):
        state.restore(f"{checkpoints}/ckpt-{number}").assert_consumed()
    if metrics and number:
        print(f"resuming after epoch {done.numpy()} and {sums.numpy()[2]:.0f} samples", flush=True)

    stop = False
    while done.numpy() < arguments.epochs and not stop:
        epoch, seen, started = int(done.numpy()), int(sums.numpy()[2]), time.monotonic()
        # By epochs and not by steps: training may go on with another number of replicas.
        decay = (1 + math.cos(math.pi * epoch / arguments.epochs)) / 2
        optimizer.learning_rate = arguments.learning_rate * decay
        # Another one every epoch.
        order = distribution.batches(images, labels, size, [seed, epoch], seen)
        for result in distribution.results(strategy, step, order, terminated):
            sums.assign_add(result[:3])
            stop = stop or result[3] > 0
        loss, hits, samples = sums.numpy()
        if samples >= len(images):
            done.assign_add(1)
            sums.assign(np.zeros(3))
            if metrics:
                figures = {"loss": loss / samples, "accuracy": hits / samples}
                rate = (samples - seen) / (time.monotonic() - started)
                metrics.log(epoch + 1, **figures, samples_per_second=rate)
                summary = " ".join(f"{name} {value:.7g}" for name, value in figures.items())
                print(
                    f"epoch {epoch + 1}/{arguments.epochs} {summary} samples/s {rate:.0f}",
                    flush=True,
                )
        manager.save()

    if done.numpy() < arguments.epochs:
        print("stopped; training can resume from the checkpoint", flush=True)
        raise SystemExit(RECLAIMED)
    weights = network.get_weights()
    if metrics:
        # A network of its own, so that nothing of the strategy gets into the file.
        result = build(*shape)
        result.set_weights(weights)
        models = directory("MODEL_DIR")
        result.export(models / "model.partial", verbose=False)
        shutil.rmtree(models / "model", ignore_errors=True)
        (models / "model.partial").rename(models / "model")


def positive(text: str) -> int:
    """Returns a number of the command line."""
    if int(text) < 1:
        raise ValueError
    return int(text)


def main() -> None:
    """Reads the command line and takes part in training; what is asked in vain is a sentence."""
    try:
        run_replica(parse())
    except distribution.InvalidRequest as refused:
        print(refused, flush=True)
        raise SystemExit(2) from None


def parse() -> argparse.Namespace:
    """Reads the command line."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--epochs", type=positive, default=15)
    parser.add_argument("--batch-size", type=positive, default=32, help="samples per replica")
    parser.add_argument("--learning-rate", type=float, default=2e-3)
    parser.add_argument("--width", type=positive, default=32, help="channels of the first layer")
    distribution.add_options(parser)
    return parser.parse_args()


def run_replica(arguments: argparse.Namespace) -> None:
    """Trains, or serves the chief that does."""
    place = distribution.Place.of_environment()
    if place.role == "evaluator":
        raise distribution.InvalidRequest("an evaluator has nothing to do; leave that role out")
    name = distribution.choose(arguments.strategy, place.cluster)
    if name == "parameter_server":
        distribution.set_threads(len(place.cluster["worker"]))
        if place.role != "chief":
            distribution.serve(place)
    tf.get_logger().setLevel("ERROR")  # CheckpointManager warns of its own retracing
    tf.get_logger().addFilter(distribution.without_batch)
    metrics = None
    if place.is_leader:
        metrics = Metrics(directory("CHECKPOINT_DIR"), "checkpoint")
    try:
        train(arguments, distribution.make_strategy(name, arguments), metrics)
    except (tf.errors.UnavailableError, tf.errors.AbortedError) as error:
        reason = " ".join(error.message.split())
        print(f"another replica was lost: {reason[-400:]}", flush=True)
        raise SystemExit(LOST) from None
    finally:
        if metrics:
            metrics.close()


if __name__ == "__main__":
    main()
