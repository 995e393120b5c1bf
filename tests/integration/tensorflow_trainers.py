"""The reference trainer of TensorFlow as processes that share what takes seconds to import.

They are forked from one server, in which TensorFlow is imported and nothing has run.
"""

import contextlib
import json
import os
import re
import signal
import socket
import subprocess
import sys
import time
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

FOLDER = Path(__file__).resolve().parents[2] / "trainers"
LIMIT = 120  # seconds that any one training may take
VARIABLES = {
    "CUDA_VISIBLE_DEVICES": "-1",
    "TF_CPP_MIN_LOG_LEVEL": "3",
    "TF_NUM_INTRAOP_THREADS": "1",
    "TF_NUM_INTEROP_THREADS": "1",
}


class Server:
    """Starts replicas, and knows how they have ended."""

    def __init__(self) -> None:
        kept = {key: value for key, value in os.environ.items() if not key.startswith("MLFLOW_")}
        self.process = subprocess.Popen(
            [sys.executable, __file__],
            env=kept | VARIABLES,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )

    def ask(self, *request):
        """Returns the answer to a request: its name, and what it takes."""
        print(json.dumps(request), file=self.process.stdin, flush=True)
        return json.loads(self.process.stdout.readline())

    def close(self):
        """Ends the server."""
        self.process.communicate()


@dataclass
class Replica:
    """A process of a training."""

    server: Server
    pid: int
    log: Path
    status: int | None = None

    @property
    def is_alive(self):
        """Whether it has not ended."""
        if self.status is None:
            self.status = self.server.ask("poll", self.pid)
        return self.status is None

    def signal(self, number=signal.SIGKILL):
        """Sends it a signal, if it is still there."""
        if self.is_alive:
            os.kill(self.pid, number)

    def end(self):
        """Waits for it; returns its exit status, which is negative after a signal."""
        limit = time.monotonic() + LIMIT
        while self.is_alive and time.monotonic() < limit:
            time.sleep(0.01)
        assert self.status is not None, self.log.read_text()
        return self.status

    def reach(self, text):
        """Waits until it has printed something."""
        limit = time.monotonic() + LIMIT
        while text not in self.log.read_text():
            assert time.monotonic() < limit and self.is_alive, self.log.read_text()
            time.sleep(0.005)


@dataclass
class Training:
    """A training in a folder of its own.

    Attributes:
        server: What its replicas are forked from.
        directory: What they write to.
        data: The folder of the dataset.
        roles: How many replicas there are of each role; none: TF_CONFIG is not set.
        cpus: How many devices a replica's CPU is divided into.
    """

    server: Server
    directory: Path
    data: Path
    roles: dict[str, int]
    cpus: int = 1
    replicas: list[Replica] = field(default_factory=list)

    def __post_init__(self) -> None:
        (self.directory / "tmp").mkdir(parents=True, exist_ok=True)

    def start(self, *arguments, **variables):
        """Starts all replicas, with new addresses."""
        self.cluster = free_addresses(self.roles)
        places = [(role, index) for role, count in self.roles.items() for index in range(count)]
        self.replicas = [
            self.start_one(*place, *arguments, **variables) for place in places or [("worker", 0)]
        ]
        return self

    def start_one(self, role, index, *arguments, **variables):
        """Starts one replica, at its address."""
        environment = {
            "DATA_DIR": str(self.data),
            "CHECKPOINT_DIR": str(self.directory / "checkpoints"),
            "MODEL_DIR": str(self.directory / "model"),
            "TMPDIR": str(self.directory / "tmp"),
        } | variables
        if self.cluster:
            task = {"type": role, "index": index}
            config = {"cluster": self.cluster, "task": task, "environment": "cloud"}
            environment["TF_CONFIG"] = json.dumps(config)
        log = self.directory / f"{role}-{index}.log"
        log.touch()
        pid = self.server.ask("fork", arguments, environment, str(log), self.cpus)
        return Replica(self.server, pid, log)

    def end(self):
        """Waits for all replicas; returns their exit statuses."""
        return [replica.end() for replica in self.replicas]

    def output(self, index=0):
        """Returns what a replica has printed, over all its lives."""
        return self.replicas[index].log.read_text()

    def losses(self, index=0):
        """Returns what a replica has printed as the loss of each epoch, by epoch."""
        found = re.findall(r"^epoch (\d+)/\d+ loss (\S+)", self.output(index), re.MULTILINE)
        return {int(epoch): loss for epoch, loss in found}

    def weights(self):
        """Returns the parameters of the trained model."""
        file = self.directory / "weights.npz"
        self.server.ask("weights", str(self.directory / "model" / "model"), str(file))
        with np.load(file) as arrays:
            return list(arrays.values())


def free_addresses(roles):
    """Returns addresses by role on this machine's loopback."""
    with ExitStack() as held:

        def address() -> str:
            bound = held.enter_context(socket.socket())
            bound.bind(("127.0.0.1", 0))
            return f"127.0.0.1:{bound.getsockname()[1]}"

        return {role: [address() for _ in range(count)] for role, count in roles.items()}


def serve() -> None:
    """Answers requests from the standard input, until that ends."""
    sys.path[0] = str(FOLDER)
    import tensorflow as tf
    import tensorflow_classifier as classifier

    tf.keras.layers  # noqa: B018 - it is loaded when it is first used
    pids = []
    for line in sys.stdin:
        name, *given = json.loads(line)
        if name == "poll":
            pid, status = os.waitpid(given[0], os.WNOHANG)
            answer = os.waitstatus_to_exitcode(status) if pid else None
        elif name == "weights":
            answer = keep_weights(tf, *given)
        else:
            answer = os.fork()
            if not answer:
                return run(classifier, *given)
            pids.append(answer)
        print(json.dumps(answer), flush=True)
    for pid in pids:
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
    return None


def keep_weights(tf, model, file):
    """Writes the parameters of a SavedModel to a file."""
    reader = tf.train.load_checkpoint(f"{model}/variables/variables")
    names = sorted(reader.get_variable_to_shape_map())
    np.savez(file, *(reader.get_tensor(name) for name in names if name.startswith("variables/")))


def run(classifier, arguments, environment, log, cpus):
    """Runs the trainer in this process, as if it had been started by itself."""
    import tensorflow as tf

    os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
    output = os.open(log, os.O_APPEND | os.O_WRONLY)
    os.dup2(output, 1)
    os.dup2(output, 2)
    os.environ.update(environment)
    cpu = tf.config.list_physical_devices("CPU")[0]
    devices = [tf.config.LogicalDeviceConfiguration()] * cpus
    tf.config.set_logical_device_configuration(cpu, devices)
    sys.argv = ["tensorflow_classifier.py", *arguments]
    classifier.main()


if __name__ == "__main__":
    serve()
