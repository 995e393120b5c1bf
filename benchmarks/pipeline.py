"""``trireme run pytorch-training`` against the same work in one hand-written script.

Runs the two in turn and prints medians and their ratio: wall time, CPU time of all processes,
the peak of their memory taken together, and the time of each step. Then what it takes to look at a
run, against an interpreter that loads the library of the command line and ends.

    python benchmarks/pipeline.py [PAIRS]
"""

import contextlib
import json
import os
import re
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from dataclasses import dataclass
from pathlib import Path

BIN = Path(sys.executable).parent
BY_HAND = Path(__file__).with_name("by_hand.py")
SAMPLE = 0.2  # seconds between two looks at the memory
LOOKS = 21
STEPS = ("checkout", "dataset", "train", "evaluate", "export")


@dataclass
class Cost:
    """What one run took.

    Attributes:
        wall: Seconds.
        cpu: Seconds of all its processes, user and system.
        memory: Peak of the proportional set sizes of all its processes together, in MiB.
        steps: Seconds of each step.
    """

    wall: float
    cpu: float
    memory: float
    steps: dict[str, float]


def measure(command: list[str], environment: dict[str, str]) -> tuple[Cost, str]:
    """Runs a command; returns what it took and what it printed."""
    with tempfile.TemporaryFile("w+") as output:
        started = time.monotonic()
        process = subprocess.Popen(
            command, env=os.environ | environment, stdout=output, stderr=subprocess.DEVNULL
        )
        peak = [0.0]
        watcher = threading.Thread(target=watch, args=(process.pid, peak), daemon=True)
        watcher.start()
        _, status, usage = os.wait4(process.pid, 0)
        wall = time.monotonic() - started
        process.returncode = os.waitstatus_to_exitcode(status)
        if process.returncode:
            sys.exit(f"{command} exited with status {process.returncode}")
        output.seek(0)
        return Cost(wall, usage.ru_utime + usage.ru_stime, peak[0], {}), output.read()


def watch(root: int, peak: list[float]) -> None:
    """Keeps the peak of a process tree's memory as long as the tree's root is there."""
    while Path(f"/proc/{root}/stat").exists():
        total = sum(memory(pid) for pid in tree(root))
        peak[0] = max(peak[0], total / 1024)
        time.sleep(SAMPLE)


def tree(root: int) -> list[int]:
    """Returns the ids of a process and all below it."""
    pids = [root]
    for pid in pids:
        with contextlib.suppress(OSError):  # it has ended
            for children in Path(f"/proc/{pid}/task").glob("*/children"):
                pids += map(int, children.read_text().split())
    return pids


def memory(pid: int) -> float:
    """Returns a process's proportional set size in KiB; 0 when it has ended."""
    try:
        lines = Path(f"/proc/{pid}/smaps_rollup").read_text()
    except OSError:
        return 0
    match = re.search(r"^Pss:\s+(\d+) kB", lines, re.MULTILINE)
    return int(match[1]) if match else 0


def trireme(home: Path) -> Cost:
    """Runs the default pipeline."""
    command = [str(BIN / "trireme"), "run", "pytorch-training"]
    cost, printed = measure(command, {"TRIREME_HOME": str(home)})
    ended = re.findall(r"^(\w+)\s+finished in ([\d.]+) s", printed, re.MULTILINE)
    cost.steps = {step: float(seconds) for step, seconds in ended}
    return cost


def by_hand(home: Path) -> Cost:
    """Runs the hand-written script."""
    home.mkdir(exist_ok=True)
    cost, printed = measure([sys.executable, str(BY_HAND), str(home)], {})
    cost.steps = json.loads(printed.splitlines()[-1])["seconds"]
    return cost


def look(command: list[str], home: Path) -> float:
    """Runs a command that shows something; returns its seconds."""
    started = time.monotonic()
    environment = os.environ | {"TRIREME_HOME": str(home)}
    subprocess.run(command, env=environment, check=True, stdout=subprocess.DEVNULL)
    return time.monotonic() - started


def row(name: str, ours: list[float], theirs: list[float], unit: str) -> None:
    """Prints medians and the median of the ratios pair by pair."""
    ratios = [a / b for a, b in zip(ours, theirs, strict=True)]
    print(
        f"{name:<12} {statistics.median(ours):9.2f} {statistics.median(theirs):9.2f} {unit:<4}"
        f" {statistics.median(ratios):6.2f}  ({min(ratios):.2f} to {max(ratios):.2f})"
    )


def main() -> None:
    """Runs the pairs and prints the table."""
    pairs = int(sys.argv[1]) if len(sys.argv) > 1 else 5
    with tempfile.TemporaryDirectory() as directory:
        homes = Path(directory, "trireme"), Path(directory, "by-hand")
        trireme(homes[0]), by_hand(homes[1])  # sets up both MLflow stores, fills the disk cache
        ours, theirs = [], []
        for number in range(pairs):
            # In turn, and each first as often as the other.
            for ours_now in (True, False) if number % 2 else (False, True):
                (ours if ours_now else theirs).append(
                    trireme(homes[0]) if ours_now else by_hand(homes[1])
                )
            print(f"pair {number + 1}: {ours[-1].wall:.1f} s, {theirs[-1].wall:.1f} s", flush=True)
        (run, *_) = sorted(Path(homes[0], "runs").iterdir())
        shown = {}
        for words in (["--help"], ["list"], ["status", run.name]):
            pair = [[str(BIN / "trireme"), *words], [sys.executable, "-c", "import typer"]]
            looks = [[look(command, homes[0]) for command in pair] for _ in range(LOOKS)]
            shown[words[0]] = [list(seconds) for seconds in zip(*looks, strict=True)]

    print(f"\nmedians of {pairs} pairs\n{'':<12} {'trireme':>9} {'by hand':>9}      ratio")
    row("wall", [cost.wall for cost in ours], [cost.wall for cost in theirs], "s")
    row("cpu", [cost.cpu for cost in ours], [cost.cpu for cost in theirs], "s")
    row("peak memory", [cost.memory for cost in ours], [cost.memory for cost in theirs], "MiB")
    for step in STEPS:
        row(step, [cost.steps[step] for cost in ours], [cost.steps[step] for cost in theirs], "s")
    print(f"\nmedians of {LOOKS}\n{'':<12} {'trireme':>9} {'library':>9}      ratio")
    for word, (seconds, bare) in shown.items():
        row(word, seconds, bare, "s")


if __name__ == "__main__":
    main()
