"""The reference trainers of PyTorch as processes that share what takes seconds to import."""

import faulthandler
import os
import re
import signal
import sys
import time
from dataclasses import dataclass
from multiprocessing.process import BaseProcess
from pathlib import Path

import forking

FOLDER = forking.TRAINERS
LIMIT = 120  # seconds that any one training may take


def run(program, environment, arguments, output):
    """Runs a program in this process, as if it had been started by itself."""
    log = os.open(output, os.O_CREAT | os.O_TRUNC | os.O_WRONLY)
    os.dup2(log, 1)
    os.dup2(log, 2)
    for name in [name for name in os.environ if name.startswith("MLFLOW_")]:
        del os.environ[name]
    os.environ.update(environment)
    faulthandler.enable()
    sys.path.insert(0, str(FOLDER))
    sys.argv = [program, *arguments]
    __import__(program).main()


@dataclass
class Training:
    """Processes that train together.

    Attributes:
        directory: What they write to.
        processes: By rank.
    """

    directory: Path
    processes: list[BaseProcess]

    def output(self, rank=0):
        """Returns what a process has printed."""
        file = self.directory / f"output-{rank}.log"
        return file.read_text() if file.exists() else ""

    def losses(self):
        """Returns what has been printed as the loss of each step or epoch, by its number."""
        said = re.findall(r"^(?:step|epoch) (\d+)/\d+ loss (\S+)", self.output(), re.MULTILINE)
        return {int(number): loss for number, loss in said}

    def reach(self, step):
        """Waits until a step is done."""
        limit = time.monotonic() + LIMIT
        while step not in self.losses():
            assert time.monotonic() < limit and self.processes[0].is_alive(), self.output()
            time.sleep(0.005)

    def signal(self, rank, number=signal.SIGKILL):
        """Sends a signal to one process."""
        os.kill(self.processes[rank].pid, number)

    def end(self):
        """Waits for all processes; returns their exit statuses."""
        limit = time.monotonic() + LIMIT
        for process in self.processes:
            process.join(max(0.0, limit - time.monotonic()))
            process.kill()
            process.join()
        return [process.exitcode for process in self.processes]


def start(program, directory, port, world_size, *arguments, **environment):
    """Starts a training; with a world size of 0 as one process that knows of no others."""
    directory.mkdir(exist_ok=True)
    common = {
        "CHECKPOINT_DIR": str(directory / "checkpoints"),
        "MODEL_DIR": str(directory / "model"),
        "OMP_NUM_THREADS": "1",
        **environment,
    }
    context, processes = forking.context(), []
    for rank in range(world_size or 1):
        place = {
            "RANK": str(rank),
            "LOCAL_RANK": str(rank),
            "WORLD_SIZE": str(world_size),
            "MASTER_ADDR": "127.0.0.1",
            "MASTER_PORT": str(port),
        }
        variables = common | (place if world_size else {})
        output = str(directory / f"output-{rank}.log")
        processes.append(context.Process(target=run, args=(program, variables, arguments, output)))
    for process in processes:
        process.start()
    return Training(directory, processes)
