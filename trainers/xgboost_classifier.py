"""Train an image classifier with XGBoost on any number of processes.

An ordinary program, which needs XGBoost, NumPy, Pillow for pictures and MLflow to track metrics.
Copy along: {metrics,splits}.py
Run it as it is (``python xgboost_classifier.py``) or as every replica of an XGBoostJob. It reads

    DATA_DIR        train.npz with arrays x, (samples, ...), and y (samples), or another form of
                    images that splits.py knows
    CHECKPOINT_DIR  a checkpoint after every few rounds; training goes on from the last one
    MODEL_DIR       the trained model, model.ubj
    SEED            of what is random, default 0
    MASTER_ADDR, MASTER_PORT, RANK, WORLD_SIZE
                    as the Kubeflow training operator sets them; none: one process
    MLFLOW_TRACKING_URI, MLFLOW_RUN_ID
                    the server and run that rank 0 logs metrics to; no run: a new one; neither:
                    they stay in CHECKPOINT_DIR
    METRICS_PORT    where Prometheus finds those of rank 0; none: nowhere

Rank 0 starts the tracker that connects all of them, and trains itself. All processes have to see
the same folders. Each trains on samples of its own: tree by tree they share what they have counted.
SIGTERM to any of them, as when a machine is reclaimed, makes all end their round, save a
checkpoint and exit with status 143.
"""

import argparse
import contextlib
import os
import signal
import socket
import sys
import time
import traceback
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import splits
import xgboost
from metrics import Metrics, until_sigterm
from xgboost.tracker import RabitTracker

PATIENCE = 300  # seconds that processes wait for each other
# Exit statuses of 128 and more: with the restart policy ExitCode the operator starts it again.
RECLAIMED, LOST = 128 + signal.SIGTERM, 138


def directory(name: str) -> Path:
    """Returns the folder that a variable such as DATA_DIR names; by default ``data`` here."""
    return Path(os.environ.get(name, name.split("_")[0].lower()))


def exit_error(why: str) -> SystemExit:
    """Returns what ends the program with status 2, having said why."""
    print(why, flush=True)
    return SystemExit(2)


def resolve(name: str) -> str:
    """Returns the address of a pod, whose name may not be known yet when it has just started."""
    limit = time.monotonic() + PATIENCE
    while True:
        try:
            return socket.gethostbyname(name)
        except OSError:
            if time.monotonic() > limit:
                raise
            time.sleep(0.5)


def make_tracker(address: str, port: int, world_size: int) -> RabitTracker:
    """Returns a tracker, also where one has just ended: its port is in use for another minute."""
    limit = time.monotonic() + PATIENCE
    while True:
        try:
            return RabitTracker(world_size, address, port, sortby="task", timeout=PATIENCE)
        except xgboost.core.XGBoostError as error:
            if "Address already in use" not in str(error) or time.monotonic() > limit:
                raise
            time.sleep(0.5)


@contextlib.contextmanager
def collective(rank: int, world_size: int) -> Iterator[None]:
    """Connects the processes as long as it lasts; rank 0 has the tracker.

    One that fails ends at once: to take leave of a tracker that is gone it would try for minutes,
    and then take leave of the next one.
    """
    if world_size == 1:
        yield
        return
    address, port = resolve(os.environ["MASTER_ADDR"]), int(os.environ["MASTER_PORT"])
    with contextlib.ExitStack() as stack:
        if rank == 0:
            tracker = make_tracker(address, port, world_size)
            tracker.start()
            stack.callback(tracker.wait_for, PATIENCE)  # until the others have taken leave, too
        with warnings.catch_warnings():  # of each attempt until the tracker is there
            warnings.simplefilter("ignore")
            stack.enter_context(
                xgboost.collective.CommunicatorContext(
                    dmlc_tracker_uri=address,
                    dmlc_tracker_port=port,
                    dmlc_task_id=f"{rank:05}",
                    dmlc_timeout=PATIENCE,
                    dmlc_retry=PATIENCE,
                )
            )
        try:
            yield
        except Exception as error:
            if lost := "/collective/" in str(error):  # a file of XGBoost's
                reason = " ".join(str(error).partition("Stack trace:")[0].split())
                print(f"another process was lost: {reason}", flush=True)
            else:
                traceback.print_exc()
            sys.stdout.flush()
            os._exit(LOST if lost else 1)


class SaveRounds(xgboost.callback.TrainingCallback):
    """Says what each round has come to, on the samples of all processes, and saves checkpoints."""

    def __init__(self, rounds: int, every: int, folder: Path, is_leader: bool) -> None:
        self.rounds, self.every, self.folder = rounds, every, folder
        self.metrics = Metrics(folder, "rounds-*.ubj") if is_leader else None
        self.terminated = until_sigterm()

    def after_iteration(self, model: Any, epoch: int, evals_log: Any) -> bool:
        """Takes in a round; ends training early where any process has to go."""
        done = model.num_boosted_rounds()  # with those of the checkpoint
        stopping = np.array([self.terminated.is_set()], np.int32)
        stop = bool(xgboost.collective.allreduce(stopping, xgboost.collective.Op.MAX)[0])
        if self.metrics:
            scores = {name: values[-1] for name, values in evals_log["train"].items()}
            figures = {"loss": scores["mlogloss"], "accuracy": 1 - scores["merror"]}
            self.metrics.log(done, **figures)
            summary = " ".join(f"{name} {value:.7g}" for name, value in figures.items())
            print(f"round {done}/{self.rounds} {summary}", flush=True)
            if (stop or done % self.every == 0) and done < self.rounds:
                save(model, self.folder / f"rounds-{done:08}.ubj")
        return stop


def save(model: Any, file: Path) -> None:
    """Writes a file that is whole whenever it is there, also after a crash."""
    file.parent.mkdir(parents=True, exist_ok=True)
    partial = file.with_name(f"partial-{file.name}")
    model.save_model(partial)
    with partial.open("rb") as stream:
        os.fsync(stream.fileno())
    partial.replace(file)


def train(arguments: argparse.Namespace, rank: int, world_size: int) -> None:
    """Trains, leaving checkpoints in CHECKPOINT_DIR and the model in MODEL_DIR."""
    x, y = splits.load(directory("DATA_DIR"), "train", exit_error)
    if len(x) != len(y) or y.dtype.kind not in "iu" or y.min() < 0:
        raise exit_error(f"y has to be a class of each sample, from 0; it is {y.dtype} {y.shape}")
    shard = slice(rank, None, world_size)
    samples = xgboost.DMatrix(np.asarray(x[shard]).reshape(len(y[shard]), -1), y[shard])
    parameters = {
        "objective": "multi:softprob",
        "num_class": int(y.max()) + 1,
        "eval_metric": ["mlogloss", "merror"],
        "eta": arguments.learning_rate,
        "max_depth": arguments.depth,
        "seed": int(os.environ.get("SEED", 0)),
        "nthread": int(os.environ.get("OMP_NUM_THREADS", 0)),
    }
    checkpoints = directory("CHECKPOINT_DIR")
    last = max(checkpoints.glob("rounds-*.ubj"), default=None) if rank == 0 else None
    done = int(last.stem.rpartition("-")[2]) if last else 0
    # What others see of the folder may be older, and all have to start from the same round.
    saved = bytearray(last.read_bytes()) if last else None
    done, saved = xgboost.collective.broadcast((done, saved), 0)
    rounds = SaveRounds(arguments.rounds, arguments.save_every, checkpoints, is_leader=rank == 0)
    if rounds.metrics and done:
        print(f"resuming after round {done}", flush=True)
    model = xgboost.train(
        parameters,
        samples,
        arguments.rounds - done,
        evals=[(samples, "train")],
        verbose_eval=False,
        xgb_model=saved,
        callbacks=[rounds],
    )
    done = model.num_boosted_rounds()
    if rounds.metrics:
        if done >= arguments.rounds:
            save(model, directory("MODEL_DIR") / "model.ubj")
        rounds.metrics.close()
    if done < arguments.rounds:
        print(f"stopped after round {done}; training can resume from there", flush=True)
        raise SystemExit(RECLAIMED)


def positive(text: str) -> int:
    """Returns a number of the command line."""
    if int(text) < 1:
        raise ValueError
    return int(text)


def main() -> None:
    """Reads the command line, joins the other processes and trains."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--rounds", type=positive, default=30, help="trees for each class")
    parser.add_argument("--learning-rate", type=float, default=0.3)
    parser.add_argument("--depth", type=positive, default=6, help="of a tree")
    parser.add_argument(
        "--save-every", type=positive, default=10, help="rounds between checkpoints"
    )
    arguments = parser.parse_args()
    rank, world_size = int(os.environ.get("RANK", 0)), int(os.environ.get("WORLD_SIZE", 1))
    with collective(rank, world_size):
        train(arguments, rank, world_size)


if __name__ == "__main__":
    main()
