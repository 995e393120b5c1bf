"""How training scales on this machine, and what our launcher costs it.

The language model's trainer, data parallel, in turn: by one process and by two with as many samples
each, where perfect is twice the tokens per second; and by two that ``trireme job submit --local``
has started instead of ``torchrun``. Every process has one thread.

    python benchmarks/scaling.py [ROUNDS]
"""

import json
import os
import re
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from pipeline import BIN

from trireme.data.staging import stage

FOLDER = Path(__file__).resolve().parents[1] / "trainers"
EACH = 8  # samples in a batch, of each process
STEPS, EVERY = 60, 10


class Training:
    """What one training took.

    Attributes:
        seconds: Of the whole command.
        speed: Tokens per second, the median of all that the program has printed but the first,
            in which it warms up.
    """

    def __init__(self, data: str, processes: int, is_launched: bool) -> None:
        with tempfile.TemporaryDirectory() as name:
            directories = {
                "data_dir": data,
                "checkpoint_dir": f"{name}/checkpoints",
                "model_dir": f"{name}/model",
            }
            make = launched if is_launched else bare
            command, variables = make(processes, directories, Path(name))
            environment = os.environ | variables | {"OMP_NUM_THREADS": "1"}
            started = time.monotonic()
            done = subprocess.run(command, env=environment, check=True, capture_output=True)
            self.seconds = time.monotonic() - started
        printed = done.stdout.decode()
        speeds = [float(speed) for speed in re.findall(r"tokens_per_second (\S+)", printed)]
        self.speed = statistics.median(speeds[1:])


def bare(processes: int, directories: dict[str, str], _: Path) -> tuple[list[str], dict[str, str]]:
    """Returns command and variables with which torchrun trains."""
    command = [str(BIN / "torchrun"), "--standalone", f"--nproc-per-node={processes}"]
    variables = {name.upper(): directory for name, directory in directories.items()}
    return [*command, str(FOLDER / "language_model.py"), *arguments(processes)], variables


def launched(
    processes: int, directories: dict[str, str], scratch: Path
) -> tuple[list[str], dict[str, str]]:
    """Returns command and variables with which a job of ours trains."""
    job = directories | {
        "code_dir": str(FOLDER),
        "entrypoint": "language_model.py",
        "args": arguments(processes),
        "workers": 0,
        "processes_per_worker": processes,
    }
    (scratch / "job.yaml").write_text(json.dumps(job))
    command = [str(BIN / "trireme"), "job", "submit", "--local", str(scratch / "job.yaml")]
    return command, {"TRIREME_HOME": str(scratch)}


def arguments(processes: int) -> list[str]:
    """Returns the program's arguments."""
    options = {"batch-size": EACH * processes, "steps": STEPS, "log-every": EVERY}
    return [word for name, value in options.items() for word in (f"--{name}", str(value))]


def say(label: str, ratios: list[float], goal: str) -> None:
    """Prints the median of ratios, and how far apart they are."""
    middle = statistics.median(ratios)
    print(f"{label:<44} {middle:.3f}  ({min(ratios):.3f} to {max(ratios):.3f}), {goal}")


def main() -> None:
    """Measures and prints the figures."""
    rounds = int(sys.argv[1]) if len(sys.argv) > 1 else 5
    alone, by_torchrun, by_us = [], [], []
    with tempfile.TemporaryDirectory() as name:
        data = stage("builtin://python-source", Path(name, "data")).path
        Training(data, 1, is_launched=False)  # fills the disk cache
        for number in range(rounds):
            alone.append(Training(data, 1, is_launched=False))
            # In turn, and each first as often as the other.
            for is_launched in (True, False) if number % 2 else (False, True):
                done = Training(data, 2, is_launched)
                (by_us if is_launched else by_torchrun).append(done)
            print(
                f"round {number + 1}: tokens/s {alone[-1].speed:.0f} by one process, "
                f"{by_torchrun[-1].speed:.0f} by two, {by_us[-1].speed:.0f} by two of a job; "
                f"{by_torchrun[-1].seconds:.1f} s, and {by_us[-1].seconds:.1f} s as a job",
                flush=True,
            )
    pairs = list(zip(by_us, by_torchrun, strict=True))
    print(f"\nmedians of {rounds} rounds")
    scaled = [two.speed / one.speed / 2 for two, one in zip(by_torchrun, alone, strict=True)]
    say("two processes / perfect scaling", scaled, "perfect is 1")
    say("training, torchrun's tokens/s / ours", [b.speed / a.speed for a, b in pairs], "goal 1.02")
    say("whole command, ours / torchrun's seconds", [a.seconds / b.seconds for a, b in pairs], "")


if __name__ == "__main__":
    main()
